"""Whether a model is right as often as its probabilities say, overall and for each bias value."""

from typing import Final

import numpy as np
import torch
from torch import Tensor

from crossbias.verify.bootstrap import Counts, Draws, deviations, generator_of, within
from crossbias.verify.cells import MIN_SAMPLES
from crossbias.verify.intervals import NO_SAMPLES, Estimate

BINS: Final = 15
"""Number of bins of equal width, as in Guo et al. (ICML 2017)."""


def calibration_error(
    probabilities: Tensor, targets: Tensor, *, effect: float = 1.0, weight: Tensor | None = None
) -> Estimate:
    """The expected calibration error (Guo et al., ICML 2017, equation 3).

        sum over bins of (samples in the bin / n) |accuracy in the bin - mean confidence in it|

    Confidence is the largest probability. Noise alone makes the error positive, especially with
    few samples. The interval takes that into account; the value does not.

    Args:
        probabilities: ``(n, classes)``, the model's softmax.
        targets: ``(n,)`` class numbers.
        effect: Design effect of clusters: so many samples say as much as an independent one.
        weight: ``(n,)`` how much each sample counts; None where all count the same.

    Returns:
        The error. Its interval comes from resampling how many samples, right and wrong, fall
        into each bin; with fewer than ``MIN_SAMPLES`` samples it is [0, 1].
    """
    confidence, answers = probabilities.max(1)
    return _error(confidence, answers == targets, effect, weight)


def calibration_by_bias(
    probabilities: Tensor,
    targets: Tensor,
    biases: Tensor,
    num_biases: int,
    *,
    effects: Tensor | None = None,
    weight: Tensor | None = None,
) -> tuple[Estimate, ...]:
    """The calibration error on the samples of each bias value; ``NO_SAMPLES`` if there are none.

    There is none by class: among the samples of a class, even a model whose probabilities are true
    is right more or less often than it says, because the class is what the probabilities are about.

    Args:
        probabilities: ``(n, classes)``, the model's softmax.
        targets: ``(n,)`` class numbers.
        biases: ``(n,)`` bias values, ``UNKNOWN`` where not known; such samples are left out.
        num_biases: Number of bias values, present or not.
        effects: ``(biases,)`` design effect of clusters among the samples of each bias value.
        weight: As for ``calibration_error``.
    """
    confidence, answers = probabilities.max(1)
    right = answers == targets
    rows = [biases == value for value in range(num_biases)]
    of_rows = [1.0] * num_biases if effects is None else effects.tolist()
    return tuple(
        _error(confidence[at], right[at], effect, None if weight is None else weight[at])
        for at, effect in zip(rows, of_rows, strict=True)
    )


def _error(confidence: Tensor, right: Tensor, effect: float, weight: Tensor | None) -> Estimate:
    if not len(right):
        return NO_SAMPLES
    weight = torch.ones(len(right)).double() if weight is None else weight / weight.mean()
    counts, means = _binned(confidence, right, weight)
    value = float(_errors((counts / len(right))[None], means)[0])
    if len(right) / effect < MIN_SAMPLES:
        return Estimate(value, 0.0, 1.0, len(right))
    off = deviations(counts.reshape(1, -1), generator_of("calibration"), effects=effect)
    return within(value, _errors(off.reshape(-1, *counts.shape), means), len(right))


def _binned(confidence: Tensor, right: Tensor, weight: Tensor) -> tuple[Counts, Draws]:
    """Weight and mean confidence of each bin that is not empty, (bins, wrong and right)."""
    # A bin includes its upper edge, so a confidence of 1 is in the last one.
    place = (confidence.double() * BINS).ceil().long().clamp(1, BINS) - 1
    category = place * 2 + right.long()
    counts, sums = (
        torch.bincount(category, weights=each, minlength=2 * BINS).view(BINS, 2)
        for each in (weight, weight * confidence.double())
    )
    of_bin = sums.sum(1, keepdim=True) / counts.sum(1, keepdim=True)
    means = torch.where(counts > 0, sums / counts, of_bin)
    used = counts.any(1)
    return counts[used].numpy(), means[used].numpy()


def _errors(shares: Draws, means: Draws) -> Draws:
    """The calibration error of each (bins, 2) table of shares of all samples."""
    # Each bin adds |share of right answers - share-weighted confidence|: equation 3, expanded.
    errors: Draws = np.abs(shares[:, :, 1] - (shares * means).sum(2)).sum(1)
    return errors
