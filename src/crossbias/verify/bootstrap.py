"""Intervals by resampling, for numbers that have no formula: each stratum keeps its size."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from crossbias.seeds import seed_for
from crossbias.verify.intervals import NO_SAMPLES, Estimate

REPLICATES: Final = 1000
"""Resampled splits; limits at 95 % then vary by a few percent of the interval's width."""

_CHUNK: Final = 256  # strata resampled at once

Counts = NDArray[np.int64]
Draws = NDArray[np.float64]


def generator_of(*purpose: str | int) -> np.random.Generator:
    """A generator for one number: the same split gives the same interval every time."""
    return np.random.default_rng(seed_for(0, "bootstrap", *purpose))


def resampled(counts: Counts, generator: np.random.Generator) -> Counts:
    """Splits that might have been drawn instead, as counts.

    Args:
        counts: ``(strata, categories)`` samples of each category in each stratum; every stratum
            has some.
        generator: Where the draws come from.

    Returns:
        ``(REPLICATES, strata, categories)``; each stratum is drawn anew with its own size, so
        the cost grows with the number of categories and not of samples.

    >>> draws = resampled(np.array([[5, 0], [30, 70]]), generator_of("example"))
    >>> draws.shape, set(draws[:, 0, 0].tolist()), round(draws[:, 1, 0].mean())
    ((1000, 2, 2), {5}, 30)
    """
    return _draw(counts.sum(1), counts / counts.sum(1, keepdims=True), generator)


def stratified_mean(
    counts: Counts, steps: Draws, weights: Draws, generator: np.random.Generator
) -> Estimate:
    """A weighted mean over strata with the stratified bootstrap's percentile interval.

        sum over strata s of weights[s] * mean over the samples of s of their values

    Args:
        counts: ``(strata, categories)`` samples of each category in each stratum.
        steps: ``(categories,)`` the value of a sample of each category.
        weights: ``(strata,)`` what each stratum counts; those without samples count nothing.
        generator: Where the draws come from.

    Returns:
        The mean; ``n`` counts the samples of strata that count.
    """
    total = counts.sum(1)
    used = (weights != 0) & (total > 0)
    if not used.any():
        return NO_SAMPLES
    counts, total = counts[used], total[used]
    scale = weights[used] / total  # of one sample in each stratum
    value = float(scale @ (counts @ steps))
    draws = np.zeros(REPLICATES)
    for start in range(0, len(counts), _CHUNK):
        part = slice(start, start + _CHUNK)
        draws += (resampled(counts[part], generator) @ steps) @ scale[part]
    return percentile(value, draws, int(total.sum()))


def deviations(counts: Counts, generator: np.random.Generator) -> Draws:
    """How far the shares of categories in resampled splits are from those resampled from.

    Half a sample is added to every category first: a stratum of one sample, or one that is all
    right, would otherwise pass as certain.

    Args:
        counts: As for ``resampled``.
        generator: Where the draws come from.

    Returns:
        ``(REPLICATES, strata, categories)`` differences of shares.
    """
    shares = (counts + 0.5) / (counts + 0.5).sum(1, keepdims=True)
    total = counts.sum(1)
    off: Draws = _draw(total, shares, generator) / total[:, None] - shares
    return off


def percentile(value: float, draws: Draws, n: int, *, confidence: float = 0.95) -> Estimate:
    """The limits between which the middle of the draws lies; for means and their differences."""
    low, high = np.quantile(draws, _tails(confidence))
    return Estimate(value, min(float(low), value), max(float(high), value), n)


def within(value: float, distances: Draws, n: int, *, confidence: float = 0.95) -> Estimate:
    """All values as near as resampled splits are to their origin; for numbers that noise inflates.

    The largest of several gaps, or a sum of absolute deviations, is larger in a sample than in
    truth and larger again in a resample, so that the middle of the draws misses the truth. But
    such a number f changes by no more than the distance d of two splits, |f(p) - f(q)| <= d(p, q),
    where d applies f's norm to the difference p - q. So f(sample) is within the usual d of the
    truth: the interval covers at least as often as it says, and just so often where the truth is 0.
    """
    radius = float(np.quantile(distances, confidence))
    return Estimate(value, max(0.0, value - radius), min(1.0, value + radius), n)


def _draw(total: Counts, shares: Draws, generator: np.random.Generator) -> Counts:
    drawn: Counts = generator.multinomial(total, shares, size=(REPLICATES, len(total)))
    return drawn


def _tails(confidence: float) -> list[float]:
    return [(1 - confidence) / 2, (1 + confidence) / 2]
