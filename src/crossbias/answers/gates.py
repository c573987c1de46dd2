"""Gates: requirements such as ``gap(sex) <= .05``, read from text and judged on a verification.

    gate       = metric [ "(" column { "," column } ")" ] [ "[" class "]" ] comparison number
    comparison = ">=" | "<=" | ">" | "<"
    number     = a decimal such as .8, or a percentage such as 80%

Names with other characters than letters, digits, ``_``, ``.`` and ``-`` are put in quotes.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

from crossbias.answers.by_value import GAPS, within_class
from crossbias.answers.intersections import Attribute
from crossbias.answers.model_findings import AttributeFindings, ModelFindings
from crossbias.answers.samples import BETWEEN
from crossbias.answers.verification import Verification
from crossbias.errors import CrossbiasError
from crossbias.formatting import DASH
from crossbias.parameters import closest
from crossbias.verify import MIN_SAMPLES, Estimate, lowest_of
from crossbias.verify.intervals import wilson_size

Judged = Literal["interval", "value"]
"""By the cautious end of the interval, or by the value."""

_NAME = r"""(?:[\w.-]+|"[^"]*"|'[^']*')"""
_GATE = re.compile(
    rf"\s*(?P<metric>[A-Za-z_]+)\s*(?:\(\s*(?P<columns>{_NAME}(?:\s*,\s*{_NAME})*)\s*\))?"
    rf"\s*(?:\[\s*(?P<target>{_NAME})\s*\])?"
    r"\s*(?P<comparison>>=|<=|>|<)\s*(?P<number>\d+\.?\d*|\.\d+)\s*(?P<percent>%?)\s*"
)
_HOLDS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": lambda number, bound: number >= bound,
    ">": lambda number, bound: number > bound,
    "<=": lambda number, bound: number <= bound,
    "<": lambda number, bound: number < bound,
}
_RATES: Final = ("sensitivity", "specificity", "ppv", "npv", "auc", "brier", "slope")
_OF_VALUES: Final = ("accuracy", "selection_rate", *_RATES, "calibration")
_OF_PAIRS: Final = ("unbiased", "aligned", "conflicting", "demographic_parity", "equalized_odds")
_GAP_OF: Final = {"gap": "accuracy"} | {f"{name}_gap": name for name in GAPS}
_UNBOUNDED: Final = ("slope",)  # a number that is no share

METRICS: Final = (
    "worst_group", *_GAP_OF, "class_averaged", "recall", *_OF_VALUES, *_OF_PAIRS
)  # fmt: skip
"""What a gate can be about."""


class Gate(NamedTuple):
    """A requirement of one number, or of one number for each value of an attribute."""

    text: str
    metric: str
    attribute: Attribute  # empty where none is named
    target: str | None  # the class
    comparison: str
    bound: float

    @property
    def wants_high(self) -> bool:
        """Whether the number is to be high."""
        return self.comparison.startswith(">")


class GateResult(NamedTuple):
    """Whether one model passes a gate, and why."""

    gate: Gate
    model: str
    passed: bool
    reason: str  # one sentence with the numbers
    number: Estimate | None  # the one that decided; None where there was none to judge

    @property
    def verdict(self) -> str:
        """The result in one word."""
        return "passed" if self.passed else "failed"

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
        return {
            "gate": self.gate.text,
            "model": self.model,
            "passed": self.passed,
            "reason": self.reason,
            "number": None if self.number is None else self.number.to_json(),
        }


def read_gate(text: str) -> Gate:
    """Read one gate.

    Raises:
        CrossbiasError: The text is not a gate.

    >>> read_gate("gap(sex) <= 5%")[1:]
    ('gap', ('sex',), None, '<=', 0.05)
    >>> read_gate('worst_group(hospital, "age group")[ill] >= .8')[1:]
    ('worst_group', ('hospital', 'age group'), 'ill', '>=', 0.8)
    """
    found = _GATE.fullmatch(text)
    if not found:
        raise CrossbiasError(
            f"the gate {text!r} cannot be read; write METRIC(COLUMN)[CLASS] >= NUMBER, such as "
            f"'worst_group >= .8' or 'gap(sex) <= .05'"
        )
    bound = float(found["number"]) / (100 if found["percent"] else 1)
    if bound > 1 and found["metric"] not in _UNBOUNDED:
        raise CrossbiasError(
            f"the gate {text!r} asks for {bound:g}, but {found['metric']} is between 0 and 1; "
            f"write 80% as .8 or 80%"
        )
    columns = re.findall(_NAME, found["columns"] or "")
    target = found["target"]
    return Gate(
        " ".join(text.split()),
        found["metric"],
        tuple(map(_unquoted, columns)),
        None if target is None else _unquoted(target),
        found["comparison"],
        bound,
    )


def judge_gates(
    verification: Verification, gates: Sequence[Gate], *, by: Judged = "interval"
) -> tuple[GateResult, ...]:
    """Judge every model by every gate. What cannot be judged fails.

    Args:
        verification: The findings.
        gates: The gates.
        by: ``interval`` asks that the interval's cautious end holds: the lower one where a number
            is to be high, the upper one where it is to be low. ``value`` asks that of the value.
    """
    return tuple(
        _judged(gate, model, by) for model in verification.models.values() for gate in gates
    )


class _Found(NamedTuple):
    """One number that a gate is about."""

    where: str
    number: Estimate


class _Unjudged(Exception):
    """Why there is nothing to judge."""


def _judged(gate: Gate, model: ModelFindings, by: Judged) -> GateResult:
    try:
        found = _numbers(gate, model)
    except _Unjudged as why:
        return GateResult(gate, model.name, False, f"cannot be judged: {why}", None)
    ends = [_end(gate, each.number, by) for each in found]
    pick = min if gate.wants_high else max
    worst = pick(range(len(found)), key=lambda place: ends[place])
    where, number = found[worst]
    passed = _HOLDS[gate.comparison](ends[worst], gate.bound)
    end = "value" if by == "value" else "lower limit" if gate.wants_high else "upper limit"
    relation = "is" if passed else "is not"
    reason = (
        f"{where} {number.value:.4f} [{number.low:.4f}, {number.high:.4f}], n = {number.n:,}: the "
        f"{end} {ends[worst]:.4f} {relation} {gate.comparison} {gate.bound:g}"
    )
    return GateResult(gate, model.name, passed, reason, number)


def _end(gate: Gate, number: Estimate, by: Judged) -> float:
    if by == "value":
        return number.value
    return number.low if gate.wants_high else number.high


def _numbers(gate: Gate, model: ModelFindings) -> list[_Found]:
    """All numbers that must hold."""
    if gate.metric not in METRICS:
        near = closest(gate.metric, METRICS)
        raise _Unjudged(f"there is no metric {gate.metric!r}{near}; there are {', '.join(METRICS)}")
    if gate.target is not None and gate.target not in model.metrics.classes:
        near = closest(gate.target, model.metrics.classes)
        raise _Unjudged(
            f"there is no class {gate.target!r}{near}; the classes are "
            f"{', '.join(model.metrics.classes)}"
        )
    if gate.target is not None and gate.metric not in ("worst_group", "gap", "recall"):
        raise _Unjudged(f"{gate.metric} is not about one class; leave [{gate.target}] out")
    if gate.metric == "recall":
        return _recall(gate, model)
    if not gate.attribute and (gate.metric in model.numbers or gate.metric in _OF_VALUES):
        return [_existing(gate.metric, gate.metric, model.numbers.get(gate.metric), model)]
    if gate.metric == "class_averaged":
        raise _Unjudged("class_averaged is over all samples; leave the column out")
    return [number for each in _attributes(gate, model) for number in _of(gate, each, model)]


def _attributes(gate: Gate, model: ModelFindings) -> list[AttributeFindings]:
    """The attribute that a gate names, or all of them."""
    if not model.attributes:
        raise _Unjudged("no attribute is named; name its column: --bias")
    if not gate.attribute:
        return list(model.attributes.values())
    wanted = frozenset(gate.attribute)
    found = [
        each
        for each in model.attributes.values()
        if wanted in (frozenset(each.columns), frozenset(map(_without_bins, each.columns)))
    ]
    if not found:
        known = [each.name for each in model.attributes.values()]
        name = BETWEEN.join(gate.attribute)
        raise _Unjudged(
            f"there are no groups of {name}{closest(name, known)}, only of {', '.join(known)}; add "
            f"--bias {','.join(gate.attribute)}"
        )
    return found


def _of(gate: Gate, findings: AttributeFindings, model: ModelFindings) -> list[_Found]:
    """The numbers of one attribute."""
    metrics, name = findings.metrics, findings.name
    if gate.metric == "worst_group":
        return [_worst_group(gate, findings)]
    if gate.metric in _GAP_OF:
        return [_gap(gate, findings, model)]
    if gate.metric in _OF_PAIRS:
        number: Estimate | None = getattr(metrics, gate.metric)
        _check_sizes([(f"{g.target}, {g.bias}", g.accuracy.n) for g in metrics.groups], name)
        return [_existing(gate.metric, f"{gate.metric} by {name}", number, model)]
    _check_sizes([(each.value, each.n) for each in findings.values], name)
    return [
        _existing(
            gate.metric,
            f"{gate.metric} of {name} {each.value}",
            each.numbers.get(gate.metric),
            model,
        )
        for each in findings.values
    ]


def _worst_group(gate: Gate, findings: AttributeFindings) -> _Found:
    groups = [
        group
        for group in findings.metrics.groups
        if group.accuracy.n and gate.target in (None, group.target)
    ]
    _check_sizes([(f"{g.target}, {g.bias}", g.accuracy.n) for g in groups], findings.name)
    if not groups:
        raise _Unjudged(f"no sample has a value of {findings.name}")
    worst = min(groups, key=lambda group: group.accuracy.value)
    whole = findings.metrics.worst_group
    if whole is None or gate.target is not None:
        sizes = [wilson_size(group.accuracy) for group in groups]
        hits = [g.accuracy.value * size for g, size in zip(groups, sizes, strict=True)]
        number = lowest_of(hits, sizes)._replace(n=worst.accuracy.n)
    else:
        number = whole.accuracy
    return _Found(f"the worst group ({worst.target}, {worst.bias})", number)


def _gap(gate: Gate, findings: AttributeFindings, model: ModelFindings) -> _Found:
    _check_sizes([(each.value, each.n) for each in findings.values], findings.name)
    name = _GAP_OF[gate.metric]
    number = findings.gaps.get(name)
    if gate.target is not None:
        of_class = [g for g in findings.metrics.groups if g.target == gate.target and g.accuracy.n]
        _check_sizes([(f"{g.target}, {g.bias}", g.accuracy.n) for g in of_class], findings.name)
        number = within_class(findings.metrics, gate.target)
    if len(findings.values) < 2:
        raise _Unjudged(f"{findings.name} has one value, so there is no gap")
    return _existing(name, f"gap of {name} between values of {findings.name}", number, model)


def _recall(gate: Gate, model: ModelFindings) -> list[_Found]:
    if gate.attribute:
        raise _Unjudged("recall is over all samples; worst_group(COLUMN)[CLASS] is by group")
    named = zip(model.metrics.classes, model.metrics.per_class, strict=True)
    chosen = [(name, number) for name, number in named if gate.target in (None, name)]
    _check_sizes([(name, number.n) for name, number in chosen], "the classes")
    return [_Found(f"recall of {name}", number) for name, number in chosen]


def _existing(metric: str, where: str, number: Estimate | None, model: ModelFindings) -> _Found:
    """A number that exists and has enough samples."""
    if number is None or not number.n:
        needs = "--positive CLASS" if metric in (*_RATES, "selection_rate") else ""
        if metric in ("auc", "brier", "slope", "calibration"):
            needs = f"probabilities{' and ' if needs else ''}{needs}"
        if metric in ("aligned", "conflicting"):
            needs = "--aligned or --training, and a value that goes along with a class"
        lacking = f"; {metric} needs {needs}" if needs else ", or there are too many groups"
        raise _Unjudged(f"{where} does not exist for {model.name}{lacking}")
    _check_sizes([(where, number.n)], "the samples")
    return _Found(where, number)


def _check_sizes(sizes: Sequence[tuple[str, int]], among: str) -> None:
    """Refuse to judge where a group has too few samples to say anything."""
    small = [(name, n) for name, n in sizes if n < MIN_SAMPLES]
    if small:
        name, n = min(small, key=lambda each: each[1])
        several = f" and {len(small) - 1:,} more" if small[1:] else ""
        raise _Unjudged(
            f"{name or DASH}{several} of {among} too small: {n} samples, and {MIN_SAMPLES} are "
            f"needed; merge values, or collect more samples"
        )


def _without_bins(column: str) -> str:
    """The name of a column that may be binned.

    >>> _without_bins("age:30,40"), _without_bins("ratio 1:2 of x")
    ('age', 'ratio 1:2 of x')
    """
    return re.sub(r":[\d.,]+$", "", column)


def _unquoted(name: str) -> str:
    return name[1:-1] if name[0] in "\"'" else name
