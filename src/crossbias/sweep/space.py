"""Space: what a search may draw, how often, and by which rule it chooses."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from crossbias.errors import CrossbiasError
from crossbias.parameters import Count, convert, unknown
from crossbias.sweep.job import TABLES

Rule = Literal["validation-accuracy", "validation-worst-group", "validation-loss"]
"""The number of a finished run by which a search chooses, on validation data."""

Sampler = Literal["random", "tpe"]

_KEYS: Final = ("trials", "rule", "sampler", "space", "method")
_LIMITS: Final = {"low", "high", "log", "step"}


@dataclass(frozen=True)
class Range:
    """Numbers between two limits.

    Args:
        low: The lowest.
        high: The highest.
        log: Whether orders of magnitude are drawn evenly.
        step: The distance between two numbers, if only some are allowed.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None


@dataclass(frozen=True)
class Space:
    """What a search draws.

    Args:
        trials: Runs for each method, data and network: the same budget for all.
        rule: The number that is compared, on validation data.
        sampler: ``tpe`` learns from earlier trials, ``random`` does not.
        common: What is drawn for every method, by name with the table.
        own: What is drawn for one method besides.
    """

    trials: int
    rule: Rule = "validation-accuracy"
    sampler: Sampler = "tpe"
    common: Mapping[str, Range | tuple[Any, ...]] = field(default_factory=dict)
    own: Mapping[str, Mapping[str, Range | tuple[Any, ...]]] = field(default_factory=dict)

    @classmethod
    def read(cls, content: Any, path: Path) -> "Space":
        """The table [search] of a plan."""
        what = f"[search] of {path}"
        if not isinstance(content, dict):
            raise CrossbiasError(f"{what} must be a table")
        for name in content:
            if name not in _KEYS:
                raise unknown(f"{what} has an unknown key", name, _KEYS, "its keys may be")
        if "trials" not in content:
            raise CrossbiasError(f"{what} needs trials, the number of runs for each method")
        own = content.get("method", {})
        space = cls(
            trials=convert(content["trials"], Count, f"trials of {what}"),
            rule=convert(content.get("rule", "validation-accuracy"), Rule, f"rule of {what}"),
            sampler=convert(content.get("sampler", "tpe"), Sampler, f"sampler of {what}"),
            common=dict(_choices(content.get("space", {}), f"{what}, space")),
            own={
                method: dict(_choices(inside, f"{what}, method {method}", "method."))
                for method, inside in own.items()
            },
        )
        if not space.common and not any(space.own.values()):
            raise CrossbiasError(
                f"{what} varies nothing; add [search.space] with lines such as "
                f"train.lr = {{ low = 1e-4, high = 1e-1, log = true }}"
            )
        return space

    def names(self) -> list[str]:
        """Everything that is drawn."""
        return [*self.common, *(name for inside in self.own.values() for name in inside)]

    def of(self, method: str) -> dict[str, Range | tuple[Any, ...]]:
        """What is drawn for a method."""
        return {**self.common, **self.own.get(method, {})}


def _choices(
    values: Any, what: str, prefix: str = ""
) -> Iterator[tuple[str, Range | tuple[Any, ...]]]:
    if not isinstance(values, dict):
        raise CrossbiasError(f"{what} must be a table, got {values!r}")
    for key, value in values.items():
        is_table = prefix == "method." and key in TABLES and isinstance(value, dict)
        name = key if is_table else f"{prefix}{key}"
        if isinstance(value, list) and value:
            yield name, tuple(value)
        elif isinstance(value, dict) and not value.keys() <= _LIMITS:
            yield from _choices(value, what, f"{name}.")
        elif isinstance(value, dict) and {"low", "high"} <= value.keys():
            yield name, _range(value, f"{what}: {name}")
        else:
            raise CrossbiasError(
                f"{what}: {name} must be a list of values, or {{ low = ..., high = ... }}, "
                f"got {value!r}"
            )


def _range(value: Mapping[str, Any], what: str) -> Range:
    limits = [convert(value[name], float, f"{name} of {what}") for name in ("low", "high")]
    log = convert(value.get("log", False), bool, f"log of {what}")
    step = convert(value.get("step"), float | None, f"step of {what}")
    whole = all(isinstance(value[name], int) for name in ("low", "high"))
    low, high = (int(each) for each in limits) if whole else limits
    if low >= high or (log and low <= 0) or (step is not None and (log or step <= 0)):
        raise CrossbiasError(
            f"{what}: low must be below high, above 0 with log, and step positive and without "
            f"log; got {dict(value)!r}"
        )
    return Range(low, high, log, step)
