"""The verdict: what was found, in words for people who do not build networks."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from crossbias.audit.attributes import AttributeFinding
from crossbias.audit.finding import Finding, alarming, percent, strength
from crossbias.audit.model import ModelFinding
from crossbias.audit.model_verdict import of_model, sum_up_model
from crossbias.audit.permutation import ALARM
from crossbias.audit.shortcuts import CueFinding
from crossbias.verify import NO_SAMPLES

_AS_GOOD: Final = 0.85  # of what the best cue solves; of such cues the one that sees least is named


class Verdict(NamedTuple):
    """The audit in words."""

    sentence: str
    findings: tuple[Finding, ...]
    not_tested: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The verdict as ``audit.json`` has it."""
        findings = [finding._asdict() for finding in self.findings]
        return self._asdict() | {"findings": findings, "not_tested": list(self.not_tested)}


def verdict_of(
    attributes: Sequence[AttributeFinding],
    cues: Sequence[CueFinding],
    model: ModelFinding | None,
    not_tested: Sequence[str],
) -> Verdict:
    """Judge what was found; p-values must be corrected already."""
    data = [_attribute(found) for found in attributes if alarming(found.p_corrected)]
    data += [_cue(found) for found in _leading_first(cues)]
    everything: list[AttributeFinding | CueFinding] = [*attributes, *cues]
    tested = sum(found.p is not None for found in everything)
    parts = [_of_data(data, tested)]
    about_model = of_model(model) if model is not None else []
    if model is not None:
        parts.append(sum_up_model(about_model))
    return Verdict(" ".join(parts), (*data, *about_model), tuple(not_tested))


def _leading_first(cues: Sequence[CueFinding]) -> list[CueFinding]:
    """Cues that were noticed: first the one to name, then the others, best first.

    A cue that sees more also sees what a simpler one sees: a thumbnail has colors, a histogram
    counts the pixels of a mark. So of those about as good as the best, the first is named.
    """
    found = [cue for cue in cues if alarming(cue.p_corrected)]
    if not found:
        return []
    best = max(cue.solved or 0.0 for cue in found)
    named = next(cue for cue in found if (cue.solved or 0.0) >= _AS_GOOD * best)
    others = sorted((c for c in found if c is not named), key=lambda c: -(c.solved or 0.0))
    return [named, *others]


def _cue(found: CueFinding) -> Finding:
    right, chance = found.balanced_accuracy or 0.0, found.chance or 0.0
    sentence = (
        f"{found.name.capitalize()} alone ({found.what}) tells the class of {percent(right)} of "
        f"the images, classes counted equally; guessing would be right on {percent(chance)}."
    )
    return Finding("cue", found.name, strength(found.solved or 0.0), sentence)


def _attribute(found: AttributeFinding) -> Finding:
    association = found.cramers_v or NO_SAMPLES
    sentence = (
        f"The attribute {found.name!r} goes along with the class (Cramer's V "
        f"{association.value:.2f}, 95 % interval {association.low:.2f} to {association.high:.2f})"
    )
    if found.accuracy is not None and found.majority is not None:
        sentence += (
            f"; it alone predicts the class of {percent(found.accuracy.value)} of the samples, "
            f"where always answering the most frequent class is right on {percent(found.majority)}"
        )
    return Finding("attribute", found.name, strength(association.value), f"{sentence}.")


def _of_data(findings: Sequence[Finding], tested: int) -> str:
    if not tested:
        return "Nothing could be tested on this data."
    if not findings:
        return (
            f"No evidence of a shortcut: none of the {tested} attributes and cues tested tells the "
            f"class better than chance would. Over all of them together, chance alone would raise "
            f"an alarm in at most {percent(ALARM)} of such audits."
        )
    first = max(findings, key=lambda finding: _ORDER.index(finding.strength))
    return (
        f"A {first.strength} shortcut is there to be taken. {first.sentence} "
        f"An audit cannot know whether this is a shortcut or the task itself. If it is what "
        f"makes the classes by nature, it is no defect; if it should not matter, a model trained "
        f"on this data may rely on it and fail where it differs."
    )


_ORDER: Final = ("weak", "moderate", "strong")
