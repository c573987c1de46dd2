"""What the finished network does on validation data: did it learn, unlearn, follow the bias?"""

from collections.abc import Iterator
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

# In the results of our own benchmark, all 184 runs on planted shortcuts that gain less than 10
# points have a difference of 30 points and more; many that gain more have it, too.
_LEAST_GAP = 0.2

# A loss of this much is worth a warning; crossbias compare has the same limit, for all samples.
_LEAST_LOSS = 0.03

_DRAWS = 9_999  # of signs; a p-value of .05 is then known to .004
_ENTRIES = 2**24  # numbers in memory at once: 128 MiB
_ROUNDING = 1e-9  # equal sums may differ by less


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

    It is if the mean of its accuracies on aligned and on conflicting samples is lower, and if this
    is no chance. So both kinds count alike, however few samples conflict.

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
    if aligned.all() or not aligned.any():
        return
    right, before = (
        (part.answers[known] == part.target[known]).double() for part in (answers, plain)
    )
    share = torch.where(aligned, 1 / aligned.sum(), 1 / (~aligned).sum()) / 2
    changes = (right - before) * share  # they add up to the change of the mean
    cluster = None if answers.cluster is None else answers.cluster[known]
    if changes.sum() > -_LEAST_LOSS or _chance_of(changes, cluster) > CLEAR:
        return
    now, then = (
        [percent(float(part[kind].mean())) for kind in (aligned, ~aligned)]
        for part in (right, before)
    )
    yield Symptom(
        "final network is worse than plain training",
        f"The final network is right on {now[0]} of the validation samples that go along with "
        f"{bias} and on {now[1]} of those that conflict with it; the plain training that the "
        f"method began with has {then[0]} and {then[1]}. On the average of both it lost.",
        "Keep plain training, or take another method: the samples that this one leaves out, or the "
        "features that it removes, are needed for the task.",
    )


def _chance_of(changes: Tensor, cluster: Tensor | None) -> float:
    """How likely so low a sum is, if each change could as well have had the other sign.

    Signs are drawn. What belongs together, such as the samples of a patient, has one sign. Of
    samples of one kind this is McNemar's test, one-sided.

    Args:
        changes: ``(n,)`` float64, what each sample adds to the change; most are 0.
        cluster: ``(n,)``, or None where all samples are independent.
    """
    if cluster is not None:
        clusters, place = torch.unique(cluster, return_inverse=True)
        changes = changes.new_zeros(len(clusters)).index_add_(0, place, changes)
    # Of units that move the sum alike, the number with a plus is binomial: nearly all do.
    moves = changes[changes.abs() > _ROUNDING].abs().numpy().round(12)
    size, units = np.unique(moves, return_counts=True)
    draw, lower = np.random.default_rng(0), 1
    at_once = max(1, _ENTRIES // max(1, len(size)))
    for start in range(0, _DRAWS, at_once):
        plus = draw.binomial(units, 0.5, (min(at_once, _DRAWS - start), len(size)))
        lower += int(((2 * plus - units) @ size <= float(changes.sum()) + _ROUNDING).sum())
    return lower / (_DRAWS + 1)


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
