"""A verification in sentences: what was found, and how the answers were read."""

from collections.abc import Sequence

from crossbias.answers.gates import GateResult
from crossbias.answers.model_findings import ModelFindings
from crossbias.answers.samples import BETWEEN
from crossbias.answers.verification import Verification
from crossbias.formatting import count, percent, percent_range
from crossbias.verify import Estimate, about_detection


def summary_of(found: Verification, gates: Sequence[GateResult]) -> list[str]:
    """The page's first paragraphs."""
    lines = [_of_model(model) for model in found.models.values()]
    failed = sum(not gate.passed for gate in gates)
    if gates:
        passed = "All gates passed." if not failed else f"{failed} of {len(gates)} gates failed."
        lines.append(passed)
    return lines


def about_models(found: Verification) -> list[str]:
    """What to know before reading the numbers, and how the answers were read."""
    metrics = found.first.metrics
    by_attribute = (each.metrics.worst_note for each in found.first.attributes.values())
    notes = (metrics.cluster_note, next(filter(None, by_attribute), None))
    lines = [f"{note}." for note in notes if note]
    positives = {
        model.name: model.metrics.detection.positive
        for model in found.models.values()
        if model.metrics.detection
    }
    if len(set(positives.values())) == 1:
        lines += about_detection(next(iter(positives.values())))
    else:  # each model has a threshold of its own
        for name, positive in positives.items():
            lines.append(f"{name}: {about_detection(positive)[0]}")
        lines += list(dict.fromkeys(about_detection(each)[1] for each in positives.values()))
    return [*lines, *found.notes]


def _within_classes(model: ModelFindings, name: str, gap: Estimate) -> str:
    """Whether the classes of an attribute's values may explain a clear gap; else empty."""
    metrics = next(each.metrics for each in model.attributes.values() if each.name == name)
    odds = metrics.equalized_odds
    if gap.low <= 0 or odds is None or not odds.n or odds.low > 0:
        return ""
    limits = f"{100 * odds.low:.1f} to {100 * odds.high:.1f}"
    return (
        f" The values may differ in their classes: within a class, no difference is clear "
        f"(equalized odds, {100 * odds.value:.1f} points, 95% interval {limits})."
    )


def association_lines(found: Verification) -> list[str]:
    """The attributes of which no value is associated with a class in training."""
    first = next(iter(found.models.values()))
    return [
        f"By {each.name}: {each.metrics.association_note}."
        for each in first.attributes.values()
        if each.metrics.association_note
    ]


def class_mix_lines(found: Verification) -> list[str]:
    """Where classes explain why aligned and conflicting samples differ, for each model."""
    return [
        f"{model.name}, by {each.name}: {each.metrics.class_mix_note}."
        for model in found.models.values()
        for each in model.attributes.values()
        if each.metrics.class_mix_note
    ]


def _of_model(model: ModelFindings) -> str:
    overall = model.numbers["accuracy"]
    said = (
        f"{model.name} is right on {percent(overall.value)} of {count(overall.n)} samples "
        f"({percent_range(overall.low, overall.high)})."
    )
    gaps = {
        each.name: each.gaps["accuracy"]
        for each in model.attributes.values()
        if "accuracy" in each.gaps
    }
    if gaps:
        name, gap = max(gaps.items(), key=lambda each: (each[1].low, each[1].value))
        chance = "" if gap.low > 0 else ", which may be chance"
        limits = f"95% interval {100 * gap.low:.1f} to {100 * gap.high:.1f}"
        among = (
            f", the clearest of {len(gaps)} attributes and intersections"
            if gaps.keys() - {name}
            else ""
        )
        said += (
            f" Between values of {name}{among}, the accuracy differs by {100 * gap.value:.1f} "
            f"points ({limits}){chance}.{_within_classes(model, name, gap)}"
        )
    if model.scan.flagged:
        first = model.scan.flagged[0]
        several = len(model.scan.flagged)
        said += (
            f" It is right less often than on the rest of the class in "
            f"{several} {'groups' if several > 1 else 'group'} of "
            f"{count(model.scan.tested)} that were tested; the clearest is {first.target} with "
            f"{BETWEEN.join(first.attribute)} {first.value}: {percent(first.accuracy.value)}, and "
            f"{percent(first.others)} on the other samples of {first.target}."
        )
    elif model.scan.tested:
        said += f" None of {count(model.scan.tested)} groups that were tested stands out."
    return said
