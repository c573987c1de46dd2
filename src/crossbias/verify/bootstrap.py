"""Intervals by resampling, for numbers without a formula: each stratum keeps its size."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from crossbias.seeds import seed_for
from crossbias.verify.intervals import NO_SAMPLES, Estimate

REPLICATES: Final = 1000
"""Number of resampled splits; 95% limits then vary by a few percent of the interval's width."""

_CHUNK: Final = 256  # strata resampled at once

Counts = NDArray[np.int64]
Draws = NDArray[np.float64]


def generator_of(*purpose: str | int) -> np.random.Generator:
    """The generator for one purpose: the same split gives the same interval every time."""
    return np.random.default_rng(seed_for(0, "bootstrap", *purpose))


def resampled(counts: Counts, generator: np.random.Generator) -> Counts:
    """Splits that might have been drawn instead, as counts, (REPLICATES, strata, categories).

    Each stratum of the (strata, categories) counts, none of them empty, is drawn anew with its own
    size, so the cost grows with the number of categories, not of samples.

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

    The counts are (strata, categories), and ``steps`` has the value of each category. Strata
    without samples count nothing; ``n`` is the number of samples in strata with a weight.
    """
    total = counts.sum(1)
    used = (weights != 0) & (total > 0)
    if not used.any():
        return NO_SAMPLES
    counts, total = counts[used], total[used]
    scale = weights[used] / total  # weight of one sample in each stratum
    value = float(scale @ (counts @ steps))
    draws = np.zeros(REPLICATES)
    for start in range(0, len(counts), _CHUNK):
        part = slice(start, start + _CHUNK)
        draws += (resampled(counts[part], generator) @ steps) @ scale[part]
    return percentile(value, draws, int(total.sum()))


def deviations(
    counts: Counts | Draws, generator: np.random.Generator, *, effects: Draws | float = 1.0
) -> Draws:
    """How far the shares of categories in resampled splits are from the original shares.

    Shapes are those of ``resampled``. Half a sample is added to every category first. Otherwise a
    stratum of one sample, or one without an error, would pass as certain. ``effects`` are the
    design effects of clusters in each stratum: so many samples say as much as an independent one.
    """
    shares = (counts + 0.5) / (counts + 0.5).sum(1, keepdims=True)
    total = np.maximum(1, np.round(counts.sum(1) / effects)).astype(np.int64)
    off: Draws = _draw(total, shares, generator) / total[:, None] - shares
    return off


def percentile(value: float, draws: Draws, n: int) -> Estimate:
    """An interval that holds the middle 95% of the draws, and the value itself."""
    low, high = np.quantile(draws, [0.025, 0.975])
    return Estimate(value, min(float(low), value), max(float(high), value), n)


def within(value: float, distances: Draws, n: int) -> Estimate:
    """An interval by the distance of resampled splits; for numbers that noise inflates.

    The largest of several gaps, or a sum of absolute deviations, is larger in a sample than in
    truth and larger again in a resample, so the middle of the draws misses the truth. But such a
    number f changes by no more than the distance d of two splits, |f(p) - f(q)| <= d(p, q), where
    d applies f's norm to the difference p - q. So f(sample) is within the usual d of the truth.
    The interval covers at least as often as it states, and exactly as often if the truth is 0.
    """
    radius = float(np.quantile(distances, 0.95))
    return Estimate(value, max(0.0, value - radius), min(1.0, value + radius), n)


def _draw(total: Counts, shares: Draws, generator: np.random.Generator) -> Counts:
    drawn: Counts = generator.multinomial(total, shares, size=(REPLICATES, len(total)))
    return drawn
