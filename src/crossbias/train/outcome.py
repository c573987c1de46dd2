"""What the finished network does on validation data: did it learn, unlearn, follow the bias?"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from crossbias.formatting import percent
from crossbias.runs.health import Symptom
from crossbias.types import UNKNOWN
from crossbias.verify import Metrics, Predictions
from crossbias.verify.cells import Alignment
from crossbias.verify.independence import CLEAR

# A network must be this much of the way from chance to perfect to have learned anything.
_LEARNED = 0.1

# In the results of our own benchmark, 180 of 181 runs on planted shortcuts that gain less than 10
# points have a difference of 30 points and more; many that gain more have it, too.
_LEAST_GAP = 0.2

# A loss of this much is worth a warning: crossbias compare names the same.
_LEAST_LOSS = 0.03


def learning_symptoms(metrics: Metrics) -> Iterator[Symptom]:
    """Whether a network is any better than one that always answers the same class.

    Args:
        metrics: What it does on validation data.
    """
    classes = sum(part.n > 0 for part in metrics.per_class)
    accuracy = metrics.class_averaged.value
    if classes < 2 or accuracy >= 1 / classes + _LEARNED * (1 - 1 / classes):
        return
    yield Symptom(
        "final network learned nothing",
        f"The final network is right on {percent(accuracy)} of the validation samples "
        f"of a class, averaged over the classes; always answering the same class would give "
        f"{percent(1 / classes)}. What it gains on one class or group, it loses on others.",
        "If plain training on the same data learns the classes, this method does not fit the "
        "data: read the other warnings of the run. If it does not, train longer, or with "
        "larger images or a pretrained network.",
    )


def following_symptoms(
    answers: Predictions, bias: str, alignment: Alignment, *, method: str
) -> Iterator[Symptom]:
    """Whether a network that should have been rid of the bias answers by it.

    It does if it is right on far fewer conflicting than aligned samples of the same classes, and if
    this is no chance. Samples that belong together, such as those of a patient, count once.

    Args:
        answers: Its answers to validation data.
        bias: The attribute.
        alignment: Which of its values go along with which class in the training data, for the
            values of the validation data.
        method: The name of the method, for what to try next.
    """
    value, right = answers.attribute(bias), answers.answers == answers.target
    known = value != UNKNOWN
    aligned = alignment.aligned[answers.target[known], value[known]]
    counts = _Counts.of(
        right[known], answers.target[known], aligned,
        cluster=None if answers.cluster is None else answers.cluster[known],
    )  # fmt: skip
    if counts.conflicting.sum() == 0 or counts.gap < _LEAST_GAP or counts.p_value() > CLEAR:
        return
    number = int(counts.conflicting.sum())
    units = "samples" if answers.cluster is None else "clusters of samples"
    yield Symptom(
        "final network follows the bias",
        f"The final network is right on {percent(counts.rate_against)} of the {number:,} "
        f"validation {units} that conflict with {bias}, and on {percent(counts.rate_with)} of the "
        f"others of their classes: it still follows {bias}.",
        f"Compare it with plain training. If it gains too little, {_next_after(method)}.",
    )


def unlearning_symptoms(
    answers: Predictions, plain: Predictions, bias: str, alignment: Alignment
) -> Iterator[Symptom]:
    """Whether a network is worse than the plainly trained one that its method began with.

    It is if it loses more on samples of one kind, aligned or conflicting, than it gains on those of
    the other, and if this is no chance. Both kinds count alike, however few samples conflict.
    Samples that belong together, such as those of a patient, count once.

    Args:
        answers: Its answers to validation data.
        plain: Those of the plainly trained network to the same samples.
        bias: The attribute.
        alignment: Which of its values go along with which class in the training data, for the
            values of the validation data.
    """
    value = answers.attribute(bias)
    known = value != UNKNOWN
    aligned = alignment.aligned[answers.target[known], value[known]]
    right, right_plain = (part.answers[known] == part.target[known] for part in (answers, plain))
    cluster = None if answers.cluster is None else answers.cluster[known]
    changes = [
        _Changes.of(right[kind], right_plain[kind], None if cluster is None else cluster[kind])
        for kind in (aligned, ~aligned)
    ]
    if any(change.units == 0 for change in changes):
        return
    change = sum(change.mean for change in changes) / len(changes)
    if change > -_LEAST_LOSS or _chance_of(changes) > CLEAR:
        return
    now, before = (
        [percent(float(part[kind].double().mean())) for kind in (aligned, ~aligned)]
        for part in (right, right_plain)
    )
    yield Symptom(
        "final network is worse than plain training",
        f"The final network is right on {now[0]} of the validation samples that go along with "
        f"{bias} and on {now[1]} of those that conflict with it; the plain training that the "
        f"method began with has {before[0]} and {before[1]}. It lost more than it gained.",
        "Keep plain training, or take another method: the samples that this one leaves out, or the "
        "features that it removes, are needed for the task.",
    )


class _Changes(NamedTuple):
    """What became of samples of one kind, or of clusters of them, between two networks."""

    units: int
    better: int
    worse: int

    @classmethod
    def of(cls, right: Tensor, before: Tensor, cluster: Tensor | None) -> "_Changes":
        """Count samples, or clusters, of which the second network has more or fewer right.

        Args:
            right: ``(n,)`` bool, what the second network has right.
            before: ``(n,)`` bool, what the first one had right.
            cluster: ``(n,)``, or None where all samples are independent.
        """
        change = right.long() - before.long()
        if cluster is not None:
            clusters, place = torch.unique(cluster, return_inverse=True)
            change = torch.zeros_like(clusters).index_add_(0, place, change)
        return cls(len(change), int((change > 0).sum()), int((change < 0).sum()))

    @property
    def mean(self) -> float:
        """The share of units that became better, less the share that became worse."""
        return (self.better - self.worse) / self.units


def _chance_of(changes: Sequence[_Changes]) -> float:
    """How likely such a loss is, if each unit that changed were as often better as worse.

    McNemar's exact test, one-sided, for the sum of the kinds' mean changes: the number of better
    units of each kind is binomial.
    """
    from scipy.stats import binom

    totals, chances = np.zeros(1), np.ones(1)
    for units, better, worse in changes:
        possible = np.arange(better + worse + 1)
        change = (2 * possible - better - worse) / units
        totals = np.add.outer(totals, change).ravel()
        chances = np.multiply.outer(chances, binom.pmf(possible, better + worse, 0.5)).ravel()
    found = sum(change.mean for change in changes)
    return float(chances[totals <= found + 1e-9].sum())  # equal sums may differ in their last bit


def _next_after(method: str) -> str:
    if method == "group-balanced":
        return (
            "more conflicting samples, larger images or a pretrained network are worth more than "
            "another method"
        )
    return (
        "take group-balanced where bias labels are known, or a method that knows something else: "
        "crossbias list methods"
    )


class _Counts(NamedTuple):
    """Samples of each class that has both aligned and conflicting ones; all (classes,) float64."""

    aligned: Tensor
    right_aligned: Tensor
    conflicting: Tensor
    right_conflicting: Tensor

    @classmethod
    def of(
        cls, right: Tensor, target: Tensor, aligned: Tensor, *, cluster: Tensor | None
    ) -> "_Counts":
        """Count samples, or clusters of a class and kind, which are right where most samples are.

        Args:
            right: ``(n,)`` bool.
            target: ``(n,)`` class numbers.
            aligned: ``(n,)`` bool.
            cluster: ``(n,)``, or None where all samples are independent.
        """
        cell = 2 * target + aligned
        score = right.double()
        if cluster is not None:
            units, place = torch.unique(torch.stack([cluster, cell]), dim=1, return_inverse=True)
            size = torch.bincount(place).double()
            score = (torch.bincount(place, weights=score) / size > 0.5).double()
            cell = units[1]
        length = 2 * (int(target.max()) + 1 if len(target) else 0)
        total = torch.bincount(cell, minlength=length).double().view(-1, 2)
        correct = torch.bincount(cell, weights=score, minlength=length).view(-1, 2)
        both = (total > 0).all(1)
        return cls(total[both, 1], correct[both, 1], total[both, 0], correct[both, 0])

    @property
    def rate_against(self) -> float:
        """The accuracy on conflicting samples."""
        return float(self.right_conflicting.sum() / self.conflicting.sum())

    @property
    def rate_with(self) -> float:
        """The accuracy on aligned samples, where classes count by their conflicting ones."""
        rates = self.right_aligned / self.aligned
        return float((self.conflicting * rates).sum() / self.conflicting.sum())

    @property
    def gap(self) -> float:
        """How much higher the accuracy on aligned samples is."""
        return self.rate_with - self.rate_against

    def p_value(self) -> float:
        """How likely so few conflicting samples are right, if each is as hard as its class.

        Fisher's exact test, one-sided, with classes as strata: given how many of a class are right,
        the number of right ones among the conflicting is hypergeometric; these numbers are added.
        """
        from scipy.signal import convolve
        from scipy.stats import hypergeom

        distribution = np.ones(1)
        for aligned, right, against, right_against in torch.stack(self, 1).tolist():
            possible = np.arange(int(against) + 1)
            of_class = hypergeom.pmf(possible, aligned + against, right + right_against, against)
            distribution = convolve(distribution, of_class)
        return float(distribution[: int(self.right_conflicting.sum()) + 1].sum())
