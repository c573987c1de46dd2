"""AFLite: leave out what linear classifiers on fixed features can predict, then train plainly."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from crossbias.formatting import percent
from crossbias.functional import predictability
from crossbias.methods.erm import ERM
from crossbias.methods.given_features import given_features
from crossbias.methods.kept_samples import report_kept
from crossbias.networks.network import Network
from crossbias.parameters import Count, Fraction, PositiveFraction
from crossbias.train.method import Method, Supervision

if TYPE_CHECKING:
    from crossbias.train.run import Run

# Penalty of the linear classifiers on standardized features: enough for a solution where features
# are copies of each other, too little to change an answer.
_RIDGE = 1e-3


@dataclass(kw_only=True)
class AFLite(Method):
    """AFLite (Le Bras et al., ICML 2020), Algorithm 1: adversarial filtering of a data set.

    In each round, linear classifiers are fitted to random parts of the samples that are left, on
    fixed features, and asked about the others. The samples that most of them get right are left
    out, a slice in each round, until few qualify or the data is small enough. The final network
    is trained on what remains, in as many updates as on all samples. At least one sample of every
    class remains.

    Args:
        classifiers: Number of random parts in a round, the paper's m; 64 on SNLI.
        training_share: Share of the remaining samples that a classifier is fitted to, the paper's
            t. The paper has a number of samples, which must be smaller than what remains.
        slice_share: Largest share of the training set that a round leaves out, the paper's k. The
            filter stops after a round that finds fewer.
        threshold: Smallest share of right answers for which a sample is left out, the paper's
            tau; .75 on SNLI.
        target_share: Share of the training set at which the filter stops, the paper's n; a third
            on SNLI.
        features: A ``.npy`` file with the features, one row for each row of the training set. If
            empty, they are those of a plainly trained network before its last layer.
        feature_epochs: Length of that training; the configured number of epochs if not given.
    """

    name: ClassVar[str] = "aflite"
    paper: ClassVar[str] = "AFLite (ICML 2020)"
    mean_loss: ClassVar[bool] = True
    figures: ClassVar[Mapping[str, tuple[str, ...]]] = {"sampling": ("kept",)}

    classifiers: Count = 64
    training_share: PositiveFraction = 0.5
    slice_share: PositiveFraction = 0.05
    threshold: Fraction = 0.75
    target_share: PositiveFraction = 1 / 3
    features: str = ""
    feature_epochs: Count | None = None

    @property
    def supervision(self) -> Supervision:  # type: ignore[override]  # depends on a keyword here
        """Nothing; features from a file may have been chosen to show the bias."""
        return "kind of bias" if self.features else "none"

    def fit(self, run: "Run") -> Network:
        """Features, the filter, the final network."""
        features = self._features(run)  # not within the stage, so that they are rehearsed
        kept = run.stage("kept", lambda: self._kept(run, features))
        left = kept[run.data.index] > 0
        remedy = "Keep more with a larger target_share, a higher threshold or other features."
        report_kept(run, left, remedy=remedy)
        if left.all():
            run.warn(
                "nothing is predictable",
                f"No sample was predicted by {percent(self.threshold)} of the linear classifiers: "
                f"nothing is left out, and the training is a plain one.",
                "Lower threshold, or give features that show the bias.",
            )
        # Else an epoch of few samples is a few updates, in which a network learns hardly anything.
        as_long = replace(run.config, epoch_size=run.config.epoch_size or len(run.data))
        return run.train(ERM(), weights=kept > 0, config=as_long)

    def _kept(self, run: "Run", features: Tensor) -> Tensor:
        """1 for rows that remain, 0 for the others, (full_size,)."""
        data, target = run.data, run.data.targets.to(run.device)
        features = standardized(features[data.index].to(run.device))
        slice_size = max(1, round(self.slice_share * len(data)))
        goal = max(1, round(self.target_share * len(data)))
        left, number = torch.arange(len(data), device=run.device), 0
        while len(left) > goal:
            generator = torch.Generator().manual_seed(run.seed("aflite", number))
            fitted = self._parts(len(left), generator).to(run.device)
            score = predictability(
                features[left], target[left], fitted, classes=data.num_classes, ridge=_RIDGE
            )
            most = min(slice_size, len(left) - goal)
            order = torch.randperm(len(left), generator=generator).to(run.device)
            gone = removed(score, target[left], order, most=most, threshold=self.threshold)
            left, number = left[~gone], number + 1
            if int(gone.sum()) < slice_size:
                break
        run.progress.note(f"the filter stopped after {number} rounds")
        kept = torch.zeros(data.full_size)
        kept[data.index[left.cpu()]] = 1
        return kept

    def _features(self, run: "Run") -> Tensor:
        """The fixed representation of every row, (full_size, D)."""
        if self.features:
            return given_features(self.features, run.data)
        plain = run.train(ERM(), name="plain", epochs=self.feature_epochs)
        if self.feature_epochs is None:
            run.plain = plain
        return run.score(plain, lambda _, output: output.features).cpu()

    def _parts(self, samples: int, generator: torch.Generator) -> Tensor:
        """Random parts of equal size, one for each classifier, (classifiers, samples) bool."""
        size = min(max(1, round(self.training_share * samples)), samples - 1)
        draws = torch.rand(self.classifiers, samples, generator=generator, dtype=torch.float64)
        return draws.argsort(1).argsort(1) < size


def standardized(features: Tensor) -> Tensor:
    """Features of mean 0 and standard deviation 1, in float64; what is constant becomes 0.

    >>> standardized(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))
    tensor([[-1.,  0.],
            [ 1.,  0.]], dtype=torch.float64)
    """
    centered = features.double() - features.double().mean(0)
    deviation = centered.square().mean(0).sqrt()
    return centered / torch.where(deviation > 0, deviation, 1.0)


def removed(score: Tensor, target: Tensor, order: Tensor, *, most: int, threshold: float) -> Tensor:
    """The samples that a round leaves out; never the least predictable one of a class.

    Args:
        score: ``(n,)`` predictabilities.
        target: ``(n,)`` class numbers.
        order: ``(n,)`` a random order, which decides between equal scores.
        most: Largest number of samples to leave out.
        threshold: Smallest score.

    Returns:
        ``(n,)`` bool.

    >>> score, target = torch.tensor([0.9, 0.8, 0.7, 1.0]), torch.tensor([0, 0, 0, 1])
    >>> removed(score, target, torch.arange(4), most=2, threshold=0.75)
    tensor([ True,  True, False, False])
    """
    qualified = score >= threshold
    for number in target.bincount().nonzero():
        qualified[torch.where(target == number, score, torch.inf).argmin()] = False
    by_score = order[score[order].argsort(descending=True, stable=True)]
    gone = torch.zeros_like(qualified)
    gone[by_score[qualified[by_score]][:most]] = True
    return gone
