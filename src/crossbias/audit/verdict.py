"""The verdict: what the audit found, how strong it is, what it means, and what to do next."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import torch

from crossbias.audit.association import POWER
from crossbias.audit.attributes import AttributeFinding
from crossbias.audit.model import CONFIDENCE_LIMIT, ModelFinding
from crossbias.audit.near_duplicates import NearDuplicates
from crossbias.audit.permutation import ALARM
from crossbias.audit.probed_cues import CLASSES, CueFinding
from crossbias.audit.slices import Slice, Slices
from crossbias.data.dataset import BiasedDataset
from crossbias.formatting import first_few, percent
from crossbias.verify import NO_SAMPLES, wilson

_STRENGTHS: Final = {"strong": 0.5, "moderate": 0.2, "weak": 0.0}
"""For each strength, strongest first, the smallest share of what there is to find."""

_SHARES: Final = {"strong": "most", "moderate": "part", "weak": "a small part"}
_BESIDE_CONTENT: Final = ("file format", "file folder", "border marks")  # cues that show nothing
_AS_GOOD: Final = 0.85  # cues that solve this share of what the best one solves are as good as it


class Finding(NamedTuple):
    """One thing that was found."""

    kind: str  # attribute, cue, model or slice
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
    alike: NearDuplicates | None = None,
    clusters: str = "",
) -> Verdict:
    """Put everything that was found, with corrected p-values, into words.

    A paragraph about attributes, one about cues, one about the model and one about its slices: that
    an attribute gives the class away and that the task is easy are different findings. If many
    images are ``alike``, a last paragraph says so, as does one about ``clusters``.
    """
    known = [found for found in attributes if _is_found(found.p_corrected)]
    strongest_first = sorted(known, key=_association, reverse=True)
    seen = _leading_first(cues)
    parts = _data_summaries(attributes, strongest_first, cues, seen)
    about_model = [] if model is None else _model_findings(model)
    if model is not None:
        parts.append(_model_summary(about_model))
        parts += _slices_summary(model.slices)
        about_model += [_slice(found) for found in model.slices.found]
    if alike is not None:
        parts.append(_alike(alike))
    if clusters:
        parts.append(clusters)
    findings = (*map(_attribute, strongest_first), *map(_cue, seen), *about_model)
    return Verdict("\n\n".join(parts), findings, tuple(not_tested))


def _data_summaries(
    attributes: Sequence[AttributeFinding],
    known: Sequence[AttributeFinding],
    cues: Sequence[CueFinding],
    seen: Sequence[CueFinding],
) -> list[str]:
    """What attributes and cues show, a paragraph each; ``known`` and ``seen`` were found."""
    tested = [found for found in attributes if found.p is not None]
    probed = [cue for cue in cues if cue.p is not None]
    if not tested and not probed:
        return [
            "This data could not be tested for shortcuts; the list of what was not tested says why."
        ]
    if not known and not seen:
        return [
            f"No shortcut was found: none of the {len(tested) + len(probed)} attributes and cues "
            f"tested predicts the class better than chance can explain. Where nothing is related "
            f"to the class, at most {_rounded(ALARM)} of such audits report a shortcut by chance. "
            f"Shortcuts of other kinds remain possible; see what was not tested."
        ]
    parts = [_attributes_summary(tested, known)] if tested else []
    return parts + ([_cues_summary(tested, known, seen)] if probed else [])


def _attributes_summary(
    tested: Sequence[AttributeFinding], known: Sequence[AttributeFinding]
) -> str:
    if not known:
        return (
            f"No attribute gives the class away: none of those tested ({_names(tested)}) predicts "
            f"the class better than chance can explain."
        )
    first = known[0]
    lead = (
        "An attribute is associated with the class"
        if first.solved is None
        else "An attribute gives the class away"
    )
    others = f" Also associated with the class: {_names(known[1:])}." if known[1:] else ""
    told = _attribute(first).sentence
    return (
        f"{lead}: {told[0].lower()}{told[1:]}{others} If {first.name!r} defines the classes, "
        f"nothing is wrong. If it should not matter, a model trained on this data may rely on it "
        f"and fail where it differs: train with {first.name!r} as the bias, and compare the "
        f"accuracy where it matches the class with the accuracy where it conflicts."
    )


def _cues_summary(
    tested: Sequence[AttributeFinding],
    known: Sequence[AttributeFinding],
    seen: Sequence[CueFinding],
) -> str:
    if not seen:
        return "No simple cue in the images or files predicts the class better than chance can."
    first = seen[0]
    told = _cue(first).sentence
    share = _SHARES[_strength(first.solved or 0.0)]
    headline = f"A very simple model could solve {share} of this task: {told[0].lower()}{told[1:]}"
    meaning = (
        "It looks beside the content, so it is likely a shortcut: remove it from the data, or "
        "train with a de-biasing method."
        if first.name in _BESIDE_CONTENT
        else "That the task is easy is no sign of a bias by itself: an audit cannot know whether "
        "this is a shortcut or the task itself."
    )
    return f"{headline} {meaning} {_by_attributes(tested, known, first)}"


def _by_attributes(
    tested: Sequence[AttributeFinding], known: Sequence[AttributeFinding], cue: CueFinding
) -> str:
    """What the attributes say about a cue."""
    if not tested:
        return (
            "Without attributes, biased and balanced data look the same to it. Name the columns of "
            "a table of labels (age, hospital, camera, ...), and it tests whether one of them "
            "gives the class away."
        )
    if not known:
        return f"The attributes tested ({_names(tested)}) do not explain it."
    name = known[0].name
    by = next((each for each in cue.by_attribute if each.attribute == name), None)
    if by is None:
        return f"Whether it follows {name!r} could not be tested."
    shares = _rounded(by.conflicting.value), _rounded(by.aligned.value)
    if by.follows:
        return (
            f"Here it follows {name!r}: where that conflicts with the class, the cue predicts the "
            f"class of only {shares[0]} of the samples, against {shares[1]} where it matches."
        )
    return (
        f"Here it does not merely follow {name!r}: the cue predicts the class of {shares[0]} of "
        f"the samples where that conflicts with the class, and of {shares[1]} where it matches."
    )


def _alike(found: NearDuplicates) -> str:
    return (
        f"{found.number:,} of {found.examined:,} samples have a near-duplicate that counts as "
        f"independent of them, such as {found.pair[0]} and {found.pair[1]}. If such images belong "
        f"together, as those of one patient do, findings here may be due to chance: name the "
        f"column that says so (--cluster), and they stay together in all tests."
    )


def _names(found: Sequence[AttributeFinding]) -> str:
    return ", ".join(first_few([repr(each.name) for each in found], most=6))


def _association(found: AttributeFinding) -> float:
    return (found.cramers_v or NO_SAMPLES).value


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
    limit = wilson(
        round(errors * n), n, confidence=1 - ALARM / len(groups), effect=model.design_effect
    ).low
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


def _slices_summary(slices: Slices) -> list[str]:
    """What was found about slices, as no or one paragraph."""
    if not slices.found:
        told = "No slice was confirmed on which the model fails more than on the rest of its class."
        return [] if slices.reason else [told]
    first, *others = slices.found
    number = (
        "Another such slice was" if len(others) == 1 else f"{len(others)} more such slices were"
    )
    several = f" {number} confirmed." if others else ""
    return [
        f"The model fails on samples that look alike to it: {_told(first, 'it')}{several} "
        f"Slices were found in one half of the samples and confirmed in the other. Where errors "
        f"have nothing to do with how samples look to the model, at most {_rounded(ALARM)} of "
        f"audits report one. The samples may share a shortcut that misleads here, have wrong "
        f"labels, or be hard: look at their pictures."
    ]


def _slice(found: Slice) -> Finding:
    strength = _strength(found.errors.value - found.rest.value)
    return Finding("slice", found.target, strength, _told(found, "The model"))


def _told(found: Slice, model: str) -> str:
    """A slice in words; ``model`` is the subject of the sentence."""
    wrong, rest = _rounded(found.errors.value), _rounded(found.rest.value)
    sentence = (
        f"{model} is wrong on {wrong} of a slice of class {found.target!r} ({found.errors.n} "
        f"samples that were not searched), against {rest} of the other samples of the class, and "
        f"mostly answers {found.answer!r} there."
    )
    named = [
        f"{each.attribute} {each.value!r} ({_rounded(each.inside)} against "
        f"{_rounded(each.outside)})"
        for each in found.explained_by
    ]
    if named:
        sentence += f" More frequent in the slice: {', '.join(named)}."
    return sentence


def untested_columns(columns: Sequence[str]) -> Iterator[str]:
    """The columns of a table of labels that are no attributes, and how to test them.

    >>> next(untested_columns(["age", "patient"]))[:43]
    "Columns 'age', 'patient' of the table of la"
    >>> next(untested_columns(["age"]))[:22]
    "Column 'age' of the ta"
    """
    if columns:
        names = ", ".join(first_few([repr(name) for name in columns], most=6))
        start = "Columns" if columns[1:] else "Column"
        yield (
            f"{start} {names} of the table of labels: an attribute has 2 to 20 values, "
            f"with five rows or more for each on average. To test others, name all attributes, and "
            f"bin numbers: --set attributes=sex,age:30,40."
        )


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
    if powers := [*_detectable_cue(cues), *_detectable_attribute(attributes)]:
        yield (
            f"Weak effects: with this number of samples, the audit finds {' and '.join(powers)} "
            f"with a probability of about {_rounded(POWER)}. Anything weaker may go unnoticed."
        )
    if model is None:
        yield "Whether a trained model follows any of this; audit a finished run to find out."
    for feature in () if model is None else model.features:
        if feature.reason:
            yield (
                f"What the model's features reveal about {feature.attribute!r}, because "
                f"{feature.reason}."
            )
    if model is not None and model.slices.reason:
        yield f"Slices on which the model fails together, because {model.slices.reason}."


def _detectable_cue(cues: Sequence[CueFinding]) -> Iterator[str]:
    """The weakest cue that the audit would find, as a part of a sentence."""
    limits = [(cue.detectable, cue.chance or 0.0) for cue in cues if cue.detectable is not None]
    if limits:
        highest, chance = max(limits)
        yield (
            f"a cue that predicts the class of {_rounded(highest)} of them "
            f"(guessing is right on {_rounded(chance)})"
        )


def _detectable_attribute(attributes: Sequence[AttributeFinding]) -> Iterator[str]:
    limits = [each.detectable for each in attributes if each.detectable is not None]
    if limits:
        yield f"an attribute whose Cramer's V with the class is {max(limits):.2f}"


def _is_found(p_corrected: float | None) -> bool:
    return p_corrected is not None and p_corrected <= ALARM


def _strength(share: float) -> str:
    """The word for a share of what there is to find."""
    return next((name for name, least in _STRENGTHS.items() if share >= least), "weak")


def _rounded(share: float) -> str:
    """A share in whole percent; with a decimal where 0% or 100% would not be the truth."""
    return percent(share, decimals=int(0 < share < 0.005 or 0.995 <= share < 1))
