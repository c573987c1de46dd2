"""Several comparisons at once: p-values and confidence that hold for all of them together."""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction (1979): p-values that may each be compared with 5%.

    If no effect exists, the probability that any of them falls below 5% is at most 5%, however they
    depend on each other.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


def simultaneous(confidence: float, comparisons: int) -> float:
    """The confidence of each interval at which all of them hold together (Bonferroni).

    >>> round(simultaneous(0.95, 5), 6)
    0.99
    """
    return 1 - (1 - confidence) / max(comparisons, 1)
