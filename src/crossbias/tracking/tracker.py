"""Tracker: what a tool that shows trainings hears about one run."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

Outcome = Literal["finished", "stopped", "failed"]

_LEFT_OUT = ("values", "aligned", "page")  # lists as long as the data has values


class Started(NamedTuple):
    """A run that a tool has begun or continued."""

    id: str  # names the run in the tool, so that a resume can continue it
    where: str  # tells a person where to look


class Tracker(Protocol):
    """One run in a tool that shows trainings. Every call may fail; the training goes on.

    Calls come from one thread, which is not the one that trains.
    """

    def start(self, config: Mapping[str, Any], known: str | None) -> Started:
        """Begin a run with its configuration, or continue the one with the id ``known``."""

    def stage(self, name: str) -> None:
        """A stage begins, such as ``final`` or ``inner/biased``."""

    def epoch(self, record: Mapping[str, Any], before: int) -> None:
        """An epoch is done; ``record`` is its line of ``log.jsonl``. Each comes once.

        ``before`` counts the epochs of all stages that the tracker had before, also those of an
        earlier process.
        """

    def results(self, split: str, numbers: Mapping[str, float]) -> None:
        """The trained network was judged on a split."""

    def end(self, outcome: Outcome, reason: str) -> None:
        """The run ended; ``reason`` is the error message, empty for a finished run."""


def numbers_of(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of an epoch by name, its stage first.

    >>> record = {"stage": "final", "epoch": 1, "lr": 0.1, "losses": {"loss": 2.0}}
    >>> numbers_of(record | {"validation": {"accuracy": 0.5}})
    {'final/lr': 0.1, 'final/loss/loss': 2.0, 'final/validation/accuracy': 0.5}
    """
    plain = {name: record[name] for name in ("lr", "seconds", "samples_per_second")
             if name in record}  # fmt: skip
    losses = {f"loss/{name}": value for name, value in record["losses"].items()}
    judged = record["validation"] or {}
    validation = {f"validation/{name}": value for name, value in judged.items()}
    found = plain | losses | validation
    return {f"{record['stage']}/{name}": float(value) for name, value in found.items()}


def told(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a tracker gets of ``config.json``: all but lists that grow with the data."""
    return {
        name: told(value) if isinstance(value, Mapping) else value
        for name, value in config.items()
        if name not in _LEFT_OUT
    }


def flattened(config: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Nested tables as names with dots, and texts.

    >>> flattened({"method": {"name": "end", "alpha": 1.0}, "selection": "last"})
    {'method.name': 'end', 'method.alpha': '1.0', 'selection': 'last'}
    """
    found: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            found |= flattened(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = str(value)
    return found
