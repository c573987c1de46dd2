"""The verdict: what was found, in words for people who do not build networks."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import torch

from crossbias.audit.attributes import AttributeFinding
from crossbias.audit.model import ModelFinding
from crossbias.audit.permutation import ALARM
from crossbias.audit.probed_cues import CLASSES, CueFinding
from crossbias.data.dataset import BiasedDataset
from crossbias.formatting import percent
from crossbias.verify import NO_SAMPLES, wilson

_ORDER: Final = ("weak", "moderate", "strong")  # of a finding, the most serious last
_AS_GOOD: Final = 0.85  # of what the best cue solves; of such cues the one that sees least is named


class Finding(NamedTuple):
    """One thing that was found."""

    kind: str  # attribute, cue or model
    name: str
    strength: str  # strong, moderate or weak
    sentence: str


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
    data = [_attribute(found) for found in attributes if _alarming(found.p_corrected)]
    data += [_cue(found) for found in _leading_first(cues)]
    everything: list[AttributeFinding | CueFinding] = [*attributes, *cues]
    tested = sum(found.p is not None for found in everything)
    parts = [_of_data(data, tested)]
    about_model = _of_model(model) if model is not None else []
    if model is not None:
        parts.append(_sum_up_model(about_model))
    return Verdict(" ".join(parts), (*data, *about_model), tuple(not_tested))


def _leading_first(cues: Sequence[CueFinding]) -> list[CueFinding]:
    """Cues that were noticed: first the one to name, then the others, best first.

    A cue that sees more also sees what a simpler one sees: a thumbnail has colors, a histogram
    counts the pixels of a mark. So of those about as good as the best, the first is named.
    """
    found = [cue for cue in cues if _alarming(cue.p_corrected)]
    if not found:
        return []
    best = max(cue.solved or 0.0 for cue in found)
    named = next(cue for cue in found if (cue.solved or 0.0) >= _AS_GOOD * best)
    others = sorted((c for c in found if c is not named), key=lambda c: -(c.solved or 0.0))
    return [named, *others]


def _cue(found: CueFinding) -> Finding:
    right, chance = found.balanced_accuracy or 0.0, found.chance or 0.0
    sentence = (
        f"{found.name.capitalize()} alone ({found.what}) tells the class of {_rounded(right)} of "
        f"the images, classes counted equally; guessing would be right on {_rounded(chance)}."
    )
    return Finding("cue", found.name, _strength(found.solved or 0.0), sentence)


def _attribute(found: AttributeFinding) -> Finding:
    association = found.cramers_v or NO_SAMPLES
    sentence = (
        f"The attribute {found.name!r} goes along with the class (Cramer's V "
        f"{association.value:.2f}, 95 % interval {association.low:.2f} to {association.high:.2f})"
    )
    if found.accuracy is not None and found.majority is not None:
        sentence += (
            f"; it alone predicts the class of {_rounded(found.accuracy.value)} of the samples, "
            f"where always answering the most frequent class is right on {_rounded(found.majority)}"
        )
    return Finding("attribute", found.name, _strength(association.value), f"{sentence}.")


def _of_data(findings: Sequence[Finding], tested: int) -> str:
    if not tested:
        return "Nothing could be tested on this data."
    if not findings:
        return (
            f"No evidence of a shortcut: none of the {tested} attributes and cues tested tells the "
            f"class better than chance would. Over all of them together, chance alone would raise "
            f"an alarm in at most {_rounded(ALARM)} of such audits."
        )
    first = max(findings, key=lambda finding: _ORDER.index(finding.strength))
    return (
        f"A {first.strength} shortcut is there to be taken. {first.sentence} "
        f"An audit cannot know whether this is a shortcut or the task itself. If it is what "
        f"makes the classes by nature, it is no defect; if it should not matter, a model trained "
        f"on this data may rely on it and fail where it differs."
    )


def _of_model(model: ModelFinding) -> list[Finding]:
    """What a trained model shows: features that tell an attribute, answers that flip, errors."""
    found = []
    for feature in model.features:
        if _alarming(feature.p_corrected):
            value, control = feature.balanced_accuracy or 0.0, feature.control or 0.0
            sentence = (
                f"Its features still tell {feature.attribute!r}: a linear probe is right on "
                f"{_rounded(value)}, on shuffled values on {_rounded(control)}."
            )
            share = (value - control) / max(1 - control, 1e-9)
            found.append(Finding("model", feature.attribute, _strength(share), sentence))
    for flip in model.flips:
        if flip.rate.low > 0.1:
            sentence = f"With the {flip.change}, {_rounded(flip.rate.value)} of its answers change."
            found.append(Finding("model", flip.change, _strength(flip.rate.value), sentence))
    return [*found, *_confident(model)]


def _confident(model: ModelFinding) -> list[Finding]:
    """The worst group, where its confident errors exceed the average even if groups are many."""
    groups = model.confident_errors
    if not groups:
        return []
    worst = max(groups, key=lambda group: group.errors.value)
    errors, n = worst.errors.value, worst.errors.n
    limit = wilson(round(errors * n), n, confidence=1 - ALARM / len(groups)).low
    if limit <= model.overall_errors.value:
        return []
    where = f"class {worst.target!r}"
    where += "" if worst.bias is None else f" with {worst.attribute} {worst.bias!r}"
    sentence = f"It is confidently wrong on {_rounded(errors)} of the {n} samples of {where}."
    return [Finding("model", "confident errors", _strength(errors), sentence)]


def _sum_up_model(findings: Sequence[Finding]) -> str:
    """The findings about a model in a few sentences."""
    if not findings:
        return "The model shows no sign of following any cue that was changed or probed."
    return "The model: " + " ".join(finding.sentence for finding in findings[:3])


def untested_data(data: BiasedDataset, *, audited: int, with_files: bool) -> Iterator[str]:
    """What the data did not let the audit see.

    Args:
        data: All of it.
        audited: How many of its samples were looked at.
        with_files: Whether the files behind the samples are known.
    """
    if not data.attributes:
        yield "No attribute is known, such as hospital, sex or camera; name columns to test them."
    if data.inputs.ndim == 4:
        yield "Shortcuts of other kinds: objects, shapes, written text, or several cues together."
    else:
        yield "The inputs are no images, so no cue was looked for in them."
    if not with_files:
        yield "Image size, compression and folder: the files behind the samples are not known."
    if audited < len(data):
        yield f"Cues were looked for in {audited:,} of the {len(data):,} samples, at random."
    counts = torch.bincount(data.targets)
    if int((counts > 0).sum()) > CLASSES:
        yield f"Cues were looked for in the {CLASSES} largest classes only."
    if (counts == 1).any():
        yield "Cues were not looked for in classes of one sample."


def untested_findings(
    attributes: Sequence[AttributeFinding], cues: Sequence[CueFinding], model: ModelFinding | None
) -> Iterator[str]:
    """What was tried in vain, and what would have been too weak to notice."""
    everything: list[AttributeFinding | CueFinding] = [*attributes, *cues]
    for found in everything:
        if found.reason:
            yield f"{found.name!r} could not be tested: {found.reason}."
    limits = [(cue.noticeable, cue.chance or 0.0) for cue in cues if cue.noticeable is not None]
    if limits:
        highest, chance = max(limits)
        yield (
            f"Weak cues: with so many samples, one that tells the class of fewer than "
            f"{100 * highest:.0f} % of them (chance {100 * chance:.0f} %) may go unnoticed."
        )
    if model is None:
        yield "Whether a trained model follows any of this; audit its run to see."


def _alarming(p: float | None) -> bool:
    """Whether a corrected p-value counts as found."""
    return p is not None and p <= ALARM


def _strength(share: float) -> str:
    """How strong a share of what there is to find is: a half, a fifth, or less."""
    return "strong" if share >= 0.5 else "moderate" if share >= 0.2 else "weak"


def _rounded(share: float) -> str:
    return percent(share, decimals=0)
