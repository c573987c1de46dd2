"""Rows of a comparison that lose accuracy over all samples against plain training."""

from collections.abc import Mapping, Sequence
from typing import Final

from crossbias.runs.gains import gains_over, variances_over_seeds
from crossbias.runs.rows import Row
from crossbias.verify import Estimate
from crossbias.verify.accuracies import Strata

NAMES: Final = ("overall", "class_averaged")
"""The accuracies that are looked at, whatever the comparison shows."""

# Two seeds of plain training on a few hundred samples differ by less; more is worth a sentence.
_LEAST = 0.03


def overall_losses(
    baseline: Row,
    others: Sequence[Row],
    strata: Mapping[str, Strata],
    confidence: float,
    correction: str,
) -> list[str]:
    """A sentence for each row that is right on 3 points fewer of all samples than the baseline.

    Args:
        baseline: Plain training; no other baseline is a yardstick of accuracy.
        others: The rows compared with it.
        strata: The parts of each accuracy of ``NAMES``.
        confidence: Of an interval.
        correction: What was done to the intervals, after a comma.
    """
    if baseline.runs[0].method != "erm":
        return []
    over_methods = variances_over_seeds([baseline, *others], NAMES)
    found = []
    for row in others:
        gains = gains_over(baseline, row, strata, confidence, over_methods)
        if gains["overall"].value < -_LEAST:
            found.append(_sentence(row.label, gains, correction))
    return found


def _sentence(label: str, gains: Mapping[str, Estimate], correction: str) -> str:
    value, low, high, _ = gains["overall"]
    limits = f"95% interval {100 * low:+.1f} to {100 * high:+.1f}{correction}"
    lost = (
        f"{label} is right on {-100 * value:.1f} points fewer of all samples than plain training "
        f"({limits}, the same samples)."
    )
    if high >= 0:
        return f"{lost} That may be chance: train more seeds of both."
    averaged, lowest, highest, _ = gains["class_averaged"]
    lost = f"{lost} Averaged over the classes, the difference is {100 * averaged:+.1f} points"
    if averaged > -_LEAST:
        return (
            f"{lost}: it answers other classes more often. Judge it by the class average, or keep "
            f"plain training if accuracy over all samples counts."
        )
    if highest >= 0:
        return (
            f"{lost} (95% interval {100 * lowest:+.1f} to {100 * highest:+.1f}), which may be "
            f"chance: train more seeds of both to tell whether it has learned the classes less "
            f"well or answers others more often."
        )
    return (
        f"{lost}: it has learned the classes less well. Keep plain training unless only the groups "
        f"that it improves count."
    )
