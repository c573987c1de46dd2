"""Fairness gaps between groups, for any number of classes."""

import numpy as np
import torch
from torch import Tensor

from crossbias.verify.bootstrap import REPLICATES, Draws, deviations, generator_of, within
from crossbias.verify.intervals import NO_SAMPLES, Estimate


def demographic_parity_gap(counts: Tensor, *, effects: Tensor | None = None) -> Estimate:
    """How much the answers depend on the bias; 0 if they do not.

        max over k of (max over b of P(answer k | bias b) - min over b of P(answer k | bias b))

    With two classes it is fairlearn's ``demographic_parity_difference``. Even a perfect model has
    a gap if the bias goes along with the class in the split.

    Args:
        counts: ``(classes, biases + 1, classes)``, as ``verify.count`` makes them. Samples of
            unknown bias and bias values without samples are left out.
        effects: ``(biases,)`` design effect of clusters for the answers to the samples of each bias
            value: so many samples say as much as an independent one.

    Returns:
        The gap, with an interval from resampling the samples of each bias value; ``NO_SAMPLES``
        if fewer than two bias values have samples.
    """
    of_values = None if effects is None else effects[None]
    return _gap(counts[:, :-1].sum(0, keepdim=True), "demographic parity", of_values)


def equalized_odds_gap(counts: Tensor, *, effects: Tensor | None = None) -> Estimate:
    """How much the answers to a class depend on the bias; 0 if they do not.

        max over y, k of (max over b of P(k | y, b) - min over b of P(k | y, b))

    With two classes it is fairlearn's ``equalized_odds_difference``: the larger of the gaps
    between true and between false positive rates. A perfect model has none.

    Args:
        counts: As for ``demographic_parity_gap``. Groups without samples are left out.
        effects: ``(classes, biases)`` the same for each group.

    Returns:
        The gap, with an interval from resampling the samples of each group; ``NO_SAMPLES`` if no
        class has samples of two bias values.
    """
    return _gap(counts[:, :-1], "equalized odds", effects)


def _gap(counts: Tensor, purpose: str, effects: Tensor | None) -> Estimate:
    """The largest range of an answer's rate over bias values, from (strata, biases, answers)."""
    value, used, generator = 0.0, 0, generator_of(purpose)
    distances = np.zeros(REPLICATES)
    effects = torch.ones(counts.shape[:2]) if effects is None else effects
    for table, of_table in zip(counts.cpu().numpy(), effects.cpu().numpy(), strict=True):
        filled = table.sum(1) > 0
        present = table[filled]
        if len(present) < 2:
            continue
        given = present[:, present.any(0)]  # answers never given have no gap
        rates = given / given.sum(1, keepdims=True)
        value = max(value, float(_largest_range(rates[None])[0]))
        # The range is a norm of differences between bias values, as ``within`` requires.
        off = deviations(given, generator, effects=of_table[filled])
        distances = np.maximum(distances, _largest_range(off))
        used += round(float(given.sum()))
    return within(value, distances, used) if used else NO_SAMPLES


def _largest_range(rates: Draws) -> Draws:
    """For each (biases, answers) table of rates, the largest range of a column."""
    largest: Draws = np.ptp(rates, axis=1).max(1)
    return largest
