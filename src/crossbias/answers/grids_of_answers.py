"""A verification as tables of text, for the terminal and the page."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from crossbias.answers.by_value import ValueNumbers
from crossbias.answers.gates import GateResult
from crossbias.answers.intersections import ALARM, Attribute
from crossbias.answers.model_findings import AttributeFindings
from crossbias.answers.pairing import Gain
from crossbias.answers.samples import BETWEEN
from crossbias.answers.verification import Verification
from crossbias.formatting import DASH, count, p_value, percent, percent_with_range
from crossbias.runs.grids import Grid
from crossbias.verify import MIN_SAMPLES, Estimate

TITLES: Final = {
    "accuracy": "accuracy",
    "class_averaged": "class average",
    "selection_rate": "called positive",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "ppv": "PPV",
    "npv": "NPV",
    "auc": "AUC",
    "brier": "Brier score",
    "slope": "calibration slope",
    "calibration": "calibration error",
}
"""The numbers in the order of their columns, as the head of a column names them."""

USUAL: Final = (
    *("accuracy", "class_averaged", "selection_rate", "sensitivity", "specificity", "auc"),
    "calibration",
)
"""What fits into a terminal."""

FURTHER: Final = ("ppv", "npv", "brier", "slope")

_NO_SHARES: Final = ("auc", "brier", "slope")  # shown as they are, not in percent


def shown(name: str, number: Estimate | None, *, sign: str = "") -> str:
    """A number with its interval; a share in percent.

    >>> shown("accuracy", Estimate(0.5, 0.4, 0.6, 10)), shown("auc", Estimate(0.5, 0.4, 0.6, 10))
    ('50.0 [40.0, 60.0]', '0.500 [0.400, 0.600]')
    """
    if number is None or not number.n:
        return DASH
    if name in _NO_SHARES:
        value, low, high = (f"{each:{sign}.3f}" for each in number[:3])
        return f"{value} [{low}, {high}]"
    return percent_with_range(*number[:3], sign=sign)


def main_grid(found: Verification, among: Sequence[str] = tuple(TITLES)) -> Grid | None:
    """All samples: a row for each model; None where no model has any of the numbers."""
    present = _present(model.numbers for model in found.models.values())
    names = [name for name in present if name in among]
    if not names:
        return None
    rows = [
        (model.name, *(shown(name, model.numbers.get(name)) for name in names))
        for model in found.models.values()
    ]
    on = f", split {found.split}" if found.split else ""
    title = f"{count(found.samples)} samples of {found.source}{on}: {_units(names)} [95% interval]"
    return Grid(title, ("model", *(TITLES[name] for name in names)), rows)


def _units(names: Sequence[str]) -> str:
    """What the numbers of a table are, in words.

    >>> _units(["accuracy", "auc"]), _units(["npv"])
    ('%, AUC as it is', '%')
    """
    plain = [TITLES[name] for name in names if name in _NO_SHARES]
    return f"%, {' and '.join(plain)} as {'they are' if plain[1:] else 'it is'}" if plain else "%"


def attribute_grid(found: Verification) -> Grid | None:
    """Groups of class and value: a row for each model and attribute; None without attributes."""
    rows = [
        (*_named(found, model.name), each.name, *_group_cells(each))
        for model in found.models.values()
        for each in model.attributes.values()
    ]
    if not rows:
        return None
    aligned = any(
        each.metrics.aligned is not None
        for model in found.models.values()
        for each in model.attributes.values()
    )
    head = (
        "attribute",
        "worst group",
        "lowest accuracy",
        "unbiased",
        "equalized odds",
        "parity gap",
    )
    kinds = ("aligned", "conflicting")
    rows = rows if aligned else [row[: -len(kinds)] for row in rows]
    title = "By groups of class and value: % [95% interval]"
    return Grid(title, (*_model_head(found), *head, *(kinds if aligned else ())), rows)


def value_grid(
    found: Verification,
    attribute: Attribute,
    *,
    most: int,
    among: Sequence[str] = tuple(TITLES),
) -> tuple[Grid, int]:
    """The values of an attribute, those of lowest accuracy if there are many; and how many more.

    Args:
        found: The findings.
        attribute: The columns of the attribute.
        most: Number of values to show for each model.
        among: The numbers to show.
    """
    kept: list[tuple[str, ValueNumbers]] = []
    more = 0
    for model in found.models.values():
        values = model.attributes[attribute].values
        kept += [(model.name, each) for each in lowest(values, most)]
        more = max(more, len(values) - most)
    names = [name for name in _present(each.numbers for _, each in kept) if name in among]
    rows = [
        (
            *_named(found, model), each.value, count(each.n),
            *(shown(name, each.numbers.get(name)) for name in names),
        )
        for model, each in kept
    ]  # fmt: skip
    name = BETWEEN.join(attribute)
    head = (*_model_head(found), name, "n", *(TITLES[each] for each in names))
    title = f"By {name}: {_units(names)} [95% interval of each value by itself]"
    return Grid(title, head, rows), max(0, more)


def lowest(values: Sequence[ValueNumbers], most: int) -> list[ValueNumbers]:
    """The values of lowest accuracy in their own order, or all if there are few."""
    ranked = sorted(values, key=lambda each: each.numbers["accuracy"].value)[:most]
    kept = {each.value for each in ranked}
    return [each for each in values if each.value in kept]


def gap_grid(found: Verification) -> Grid | None:
    """The largest differences between two values; None where there is none."""
    gaps = [
        (model.name, each)
        for model in found.models.values()
        for each in model.attributes.values()
        if each.gaps
    ]
    if not gaps:
        return None
    names = _present(each.gaps for _, each in gaps)
    rows = [
        (*_named(found, model), each.name, *(shown(name, each.gaps.get(name)) for name in names))
        for model, each in gaps
    ]
    title = "Largest difference between two values: % points, AUC as it is [95% interval]"
    head = (*_model_head(found), "attribute", *(f"{TITLES[name]} gap" for name in names))
    return Grid(title, head, rows)


def flagged_grid(found: Verification, *, most: int) -> tuple[Grid, int] | None:
    """The groups that a model fails, at most ``most``, and how many more; None without any."""
    flagged = [(model.name, each) for model in found.models.values() for each in model.scan.flagged]
    if not flagged:
        return None
    rows = [
        (
            *_named(found, model), BETWEEN.join(group.attribute), group.value, group.target,
            count(group.accuracy.n), shown("accuracy", group.accuracy), percent(group.others),
            p_value(group.p),
        )
        for model, group in flagged[:most]
    ]  # fmt: skip
    head = ("attribute", "value", "class", "n", "accuracy", "others of the class", "corrected p")
    title = (
        "Groups on which a model is right less often than on the other samples of their class: "
        "% [95% interval of each group by itself]"
    )
    return Grid(title, (*_model_head(found), *head), rows), max(0, len(flagged) - most)


def scan_lines(found: Verification) -> list[str]:
    """What was tested, for each model."""
    lines = []
    for model in found.models.values():
        scan = model.scan
        if not scan.attributes:
            continue
        said = f"{model.name}: " if len(found.models) > 1 else ""
        small = (
            f" {count(scan.too_small)} more have fewer than {MIN_SAMPLES} samples, too few to test."
            if scan.too_small
            else ""
        )
        lines.append(
            f"{said}{count(len(scan.flagged))} of {count(scan.tested)} groups of class and value "
            f"are flagged{_over(len(scan.attributes))} (Fisher's exact test, corrected by Holm's "
            f"method: if the model fails no group more than the others, the probability that any "
            f"group is flagged is at most {percent(ALARM, decimals=0)}).{small}"
        )
    return lines


def _over(attributes: int) -> str:
    return f", over {count(attributes)} attributes and intersections" if attributes > 1 else ""


def gain_grid(found: Verification) -> Grid | None:
    """How much better each model is than the first, on the same samples; None for one model.

    Gains by value are shown for the attributes that were named.
    """
    if not found.gains:
        return None
    rows: list[tuple[str, ...]] = [
        (each.model, TITLES[each.number], _where(each), count(each.gain.n), _gain(each))
        for each in found.gains
        if each.attribute in ((), *found.named)
    ]
    others = len(found.models) - 1
    corrected = f", corrected for {others} models" if others > 1 else ""
    by_value = any(each.attribute for each in found.gains)
    alone = ", of each value by itself" if by_value else ""
    title = (
        f"Gain over {found.first.name} on the same samples: % points "
        f"[95% interval{corrected}{alone}]"
    )
    return Grid(title, ("model", "number", "samples", "n", "gain"), rows)


def gate_grid(results: Sequence[GateResult]) -> Grid:
    """The gates: a row for each model and gate."""
    rows: list[tuple[str, ...]] = [
        (each.verdict, each.model, each.gate.text, each.reason) for each in results
    ]
    return Grid("Gates", ("result", "model", "gate", "why"), rows)


def _group_cells(findings: AttributeFindings) -> tuple[str, ...]:
    metrics = findings.metrics
    worst = metrics.worst_group
    named = f"{worst.target}, {worst.bias}, {metrics.worst_of}" if worst else DASH
    numbers = (
        worst and worst.accuracy, metrics.unbiased, metrics.equalized_odds,
        metrics.demographic_parity, metrics.aligned, metrics.conflicting,
    )  # fmt: skip
    return (named, *(shown("", number) for number in numbers))


def _present(numbers: Iterable[Mapping[str, Estimate]]) -> list[str]:
    """The numbers that any of several has, in the order of ``TITLES``."""
    found = {name for each in numbers for name in each}
    return [name for name in TITLES if name in found]


def _named(found: Verification, model: str) -> tuple[str, ...]:
    return (model,) if len(found.models) > 1 else ()


def _model_head(found: Verification) -> tuple[str, ...]:
    return ("model",) if len(found.models) > 1 else ()


def _where(gain: Gain) -> str:
    return f"{BETWEEN.join(gain.attribute)} {gain.value}" if gain.attribute else "all"


def _gain(gain: Gain) -> str:
    p = "" if gain.test is None else f" {p_value(gain.test.p)}"
    return shown(gain.number, gain.gain, sign="+") + p
