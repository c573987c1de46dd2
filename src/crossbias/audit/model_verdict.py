"""What an audited model shows, in words."""

from collections.abc import Sequence

from crossbias.audit.finding import Finding, alarming, percent, strength
from crossbias.audit.model import ModelFinding
from crossbias.audit.permutation import ALARM
from crossbias.verify import wilson


def of_model(model: ModelFinding) -> list[Finding]:
    """What a trained model shows: features that tell an attribute, answers that flip, errors."""
    found = []
    for feature in model.features:
        if alarming(feature.p_corrected):
            value, control = feature.balanced_accuracy or 0.0, feature.control or 0.0
            sentence = (
                f"Its features still tell {feature.attribute!r}: a linear probe is right on "
                f"{percent(value)}, on shuffled values on {percent(control)}."
            )
            share = (value - control) / max(1 - control, 1e-9)
            found.append(Finding("model", feature.attribute, strength(share), sentence))
    for flip in model.flips:
        if flip.rate.low > 0.1:
            sentence = f"With the {flip.change}, {percent(flip.rate.value)} of its answers change."
            found.append(Finding("model", flip.change, strength(flip.rate.value), sentence))
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
    sentence = f"It is confidently wrong on {percent(errors)} of the {n} samples of {where}."
    return [Finding("model", "confident errors", strength(errors), sentence)]


def sum_up_model(findings: Sequence[Finding]) -> str:
    """The findings about a model in a few sentences."""
    if not findings:
        return "The model shows no sign of following any cue that was changed or probed."
    return "The model: " + " ".join(finding.sentence for finding in findings[:3])
