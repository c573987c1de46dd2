"""The verdict: what the audit found, how strong it is, what it means, and what to do next."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import torch

from crossbias.audit.attributes import AttributeFinding
from crossbias.audit.model import CONFIDENCE_LIMIT, ModelFinding
from crossbias.audit.permutation import ALARM
from crossbias.audit.probed_cues import CLASSES, CueFinding
from crossbias.data.dataset import BiasedDataset
from crossbias.formatting import percent
from crossbias.verify import NO_SAMPLES, wilson

_STRENGTHS: Final = {"strong": 0.5, "moderate": 0.2, "weak": 0.0}
"""For each strength, strongest first, the smallest share of what there is to find."""

_SHARES: Final = {"strong": "most", "moderate": "part", "weak": "a small part"}
_AS_GOOD: Final = 0.85  # cues that solve this share of what the best one solves are as good as it


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


def verdict_of(
    attributes: Sequence[AttributeFinding],
    cues: Sequence[CueFinding],
    model: ModelFinding | None,
    not_tested: Sequence[str],
) -> Verdict:
    """Put everything that was found, with corrected p-values, into words."""
    noticed = [found for found in attributes if _is_found(found.p_corrected)]
    data = [(found.solved, _attribute(found)) for found in noticed]
    data += [(found.solved, _cue(found)) for found in _leading_first(cues)]
    everything: list[AttributeFinding | CueFinding] = [*attributes, *cues]
    parts = [_data_summary(data, tested=sum(found.p is not None for found in everything))]
    about_model = [] if model is None else _model_findings(model)
    if model is not None:
        parts.append(_model_summary(about_model))
    findings = (*(finding for _, finding in data), *about_model)
    return Verdict(" ".join(parts), findings, tuple(not_tested))


def _data_summary(data: Sequence[tuple[float | None, Finding]], *, tested: int) -> str:
    """The strongest finding, what it means and what to do; each comes with the share it solves."""
    if not tested:
        return (
            "This data could not be tested for shortcuts; the list of what was not tested says why."
        )
    if not data:
        return (
            f"No shortcut was found: none of the {tested} attributes and cues tested predicts the "
            f"class better than chance can explain. Where nothing is related to the class, at "
            f"most {_rounded(ALARM)} of such audits report a shortcut by chance. Shortcuts of "
            f"other kinds remain possible; see what was not tested."
        )
    solved, first = min(data, key=lambda pair: list(_STRENGTHS).index(pair[1].strength))
    return (
        f"{_headline(solved, first)} An audit cannot know whether this is a shortcut or the task "
        f"itself. If {first.name!r} defines the classes, nothing is wrong. If it should not "
        f"matter, a model trained on this data may rely on it and fail where it differs: "
        f"{_remedy(first)}"
    )


def _headline(solved: float | None, first: Finding) -> str:
    if solved is None:
        return first.sentence
    share = f"{_SHARES[_strength(solved)]} of this task"
    lead = (
        f"A model could solve {share} without looking at the content"
        if first.kind == "attribute"
        else f"A very simple model could solve {share}"
    )
    return f"{lead}: {first.sentence[0].lower()}{first.sentence[1:]}"


def _remedy(first: Finding) -> str:
    if first.kind == "attribute":
        return (
            f"train with {first.name!r} as the bias, and compare the accuracy where it matches the "
            f"class with the accuracy where it conflicts."
        )
    return (
        "remove it from the data, add samples in which it conflicts with the class, or train with "
        "a de-biasing method."
    )


def _attribute(found: AttributeFinding) -> Finding:
    v = found.cramers_v or NO_SAMPLES
    strength = _strength(v.value)
    sentence = f"The association of the attribute {found.name!r} with the class is {strength}"
    measured = f"(Cramer's V {v.value:.2f}, 95% interval {v.low:.2f} to {v.high:.2f})"
    if found.accuracy is None or found.majority is None:
        return Finding("attribute", found.name, strength, f"{sentence} {measured}.")
    right, always = _rounded(found.accuracy.value), _rounded(found.majority)
    if found.solved is None:
        sentence += (
            f" {measured}, but alone it predicts the class of {right} of the samples, not clearly "
            f"more than always answering the most frequent class does ({always})."
        )
    else:
        sentence = (
            f"The attribute {found.name!r} alone predicts the class of {right} of the samples "
            f"(always answering the most frequent class is right on {always}); its association "
            f"with the class is {strength} {measured}."
        )
    return Finding("attribute", found.name, strength, sentence)


def _leading_first(cues: Sequence[CueFinding]) -> list[CueFinding]:
    """Cues that were found: first the one to name, then the others, best first.

    A cue that sees more also sees what a simpler one sees: a thumbnail has colors, a histogram
    counts the pixels of a mark. So the first of those about as good as the best is named.
    """
    found = [cue for cue in cues if _is_found(cue.p_corrected)]
    if not found:
        return []
    best = max(cue.solved or 0.0 for cue in found)
    named = next(cue for cue in found if (cue.solved or 0.0) >= _AS_GOOD * best)
    others = sorted((c for c in found if c is not named), key=lambda c: -(c.solved or 0.0))
    return [named, *others]


def _cue(found: CueFinding) -> Finding:
    right, chance = _rounded(found.balanced_accuracy or 0.0), _rounded(found.chance or 0.0)
    sentence = (
        f"The cue {found.name!r} alone ({found.what}) predicts the class of {right} of the samples "
        f"(guessing is right on {chance}; every class counts the same)."
    )
    return Finding("cue", found.name, _strength(found.solved or 0.0), sentence)


def _model_findings(model: ModelFinding) -> list[Finding]:
    """What a trained model shows: features that reveal an attribute, answers that flip, errors."""
    found = []
    for feature in model.features:
        if _is_found(feature.p_corrected):
            value, control = feature.balanced_accuracy or 0.0, feature.control or 0.0
            sentence = (
                f"The model's features reveal {feature.attribute!r}, whether or not its answers "
                f"use it: a simple classifier reads it from them in {_rounded(value)} of the "
                f"samples, against {_rounded(control)} if its values are shuffled within each "
                f"class (every value counts the same)."
            )
            strength = _strength((value - control) / max(1 - control, 1e-9))
            found.append(Finding("model", feature.attribute, strength, sentence))
    for flip in model.flips:
        if flip.rate.low > 0.1:
            share = flip.rate.value
            sentence = f"{_rounded(share)} of the model's answers change when {flip.what}."
            found.append(Finding("model", flip.change, _strength(share), sentence))
    return [*found, *_confident(model)]


def _confident(model: ModelFinding) -> list[Finding]:
    """The worst group, if it has clearly more confident errors than average, given their number."""
    groups = model.confident_errors
    if not groups:
        return []
    worst = max(groups, key=lambda group: group.errors.value)
    errors, n, overall = worst.errors.value, worst.errors.n, model.overall_errors.value
    limit = wilson(round(errors * n), n, confidence=1 - ALARM / len(groups)).low
    if limit <= overall:
        return []
    where = f"class {worst.target!r}"
    where += "" if worst.bias is None else f" with {worst.attribute} {worst.bias!r}"
    sentence = (
        f"The model is wrong with a confidence of at least {_rounded(CONFIDENCE_LIMIT)} on "
        f"{_rounded(errors)} of the {n} samples of {where}, against {_rounded(overall)} of all "
        f"samples."
    )
    return [Finding("model", "confident errors", _strength(errors), sentence)]


def _model_summary(findings: Sequence[Finding]) -> str:
    if not findings:
        return "No sign was found that the model follows an attribute or a cue that was tested."
    sentences = " ".join(finding.sentence for finding in findings[:3])
    return f"{sentences} Before using the model, verify it where these conflict with the class."


def untested_data(data: BiasedDataset, *, audited: int, with_files: bool) -> Iterator[str]:
    """What the data does not let the audit test; cues were tested in ``audited`` samples of it."""
    if not data.attributes:
        yield (
            "Attributes such as hospital, sex or camera, because none is known; name the columns "
            "of a table of labels to test them."
        )
    if data.inputs.ndim == 4:
        yield "Shortcuts of other kinds: objects, shapes, written text, or several cues together."
    else:
        yield "Cues in the inputs, because they are not images."
    if not with_files:
        yield "Image size, compression and folder, because the files of the samples are not known."
    if audited < len(data):
        yield (
            f"All samples: cues were tested in {audited:,} of the {len(data):,} samples, drawn at "
            f"random."
        )
    counts = torch.bincount(data.targets)
    if int((counts > 0).sum()) > CLASSES:
        yield f"All classes: cues were tested in the {CLASSES} largest ones."
    if (counts == 1).any():
        yield "Cues in classes that have only one sample."


def untested_findings(
    attributes: Sequence[AttributeFinding], cues: Sequence[CueFinding], model: ModelFinding | None
) -> Iterator[str]:
    """What could not be tested, and what would have been too weak to notice."""
    everything: list[AttributeFinding | CueFinding] = [*attributes, *cues]
    for found in everything:
        if found.reason:
            yield f"{found.name!r}, because {found.reason}."
    limits = [(cue.noticeable, cue.chance or 0.0) for cue in cues if cue.noticeable is not None]
    if limits:
        highest, chance = max(limits)
        yield (
            f"Weak cues: with this number of samples, a cue that predicts the class of fewer than "
            f"{_rounded(highest)} of them may go unnoticed (guessing is right on "
            f"{_rounded(chance)})."
        )
    if model is None:
        yield "Whether a trained model follows any of this; audit a finished run to find out."


def _is_found(p_corrected: float | None) -> bool:
    return p_corrected is not None and p_corrected <= ALARM


def _strength(share: float) -> str:
    """The word for a share of what there is to find."""
    return next((name for name, least in _STRENGTHS.items() if share >= least), "weak")


def _rounded(share: float) -> str:
    """A share in whole percent; with a decimal where 0% or 100% would not be the truth."""
    return percent(share, decimals=int(0 < share < 0.005 or 0.995 <= share < 1))
