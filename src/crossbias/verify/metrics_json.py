"""Metrics as a JSON object, and back."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from crossbias.errors import CrossbiasError
from crossbias.verify.groups import Group
from crossbias.verify.intervals import Estimate

if TYPE_CHECKING:
    from crossbias.verify.metrics import Metrics

NEED_LABELS: Final = ("aligned", "conflicting", "unbiased")
"""Accuracies that are None where no sample has a bias label."""

_ADDED: Final = ("class_averaged", "calibration", "demographic_parity", "equalized_odds")
"""Estimates that files written by version 0.1.0 lack."""


def written(metrics: "Metrics") -> dict[str, Any]:
    """The object; what does not exist is null."""
    worst = metrics.worst_group
    return {
        "overall": metrics.overall.to_json(),
        **_estimates(metrics, NEED_LABELS),
        "worst_group": worst.to_json() if worst else None,
        "per_class": [
            {"target": name, **accuracy.to_json()}
            for name, accuracy in zip(metrics.classes, metrics.per_class, strict=True)
        ],
        "groups": [group.to_json() for group in metrics.groups],
        "classes": list(metrics.classes),
        "biases": list(metrics.biases),
        "aligned_groups": [list(row) for row in metrics.aligned_groups],
        **_estimates(metrics, _ADDED),
        "group_calibration": [error.to_json() for error in metrics.group_calibration],
        "attributes": {name: written(each) for name, each in metrics.attributes.items()},
    }


def read(kind: type["Metrics"], value: Mapping[str, Any]) -> "Metrics":
    """The metrics of an object that ``written`` made.

    Raises:
        CrossbiasError: The object is another one.
    """
    try:
        metrics = kind(**_parts(kind, value))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CrossbiasError(f"these are not metrics of a split: {error!r}") from error
    rows, columns = len(metrics.classes), len(metrics.biases)
    widths = [len(row) for row in metrics.aligned_groups]
    sizes = (len(metrics.per_class), len(metrics.groups), widths)
    if sizes != (rows, rows * columns, [columns] * rows):
        raise CrossbiasError("these are not metrics of a split: its tables differ in size")
    return metrics


def _estimates(metrics: "Metrics", names: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Estimate | None] = {name: getattr(metrics, name) for name in names}
    return {name: estimate.to_json() if estimate else None for name, estimate in found.items()}


def _parts(kind: type["Metrics"], value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "overall": Estimate.from_json(value["overall"]),
        **{name: value[name] and Estimate.from_json(value[name]) for name in NEED_LABELS},
        "worst_group": value["worst_group"] and Group.from_json(value["worst_group"]),
        "per_class": tuple(map(Estimate.from_json, value["per_class"])),
        "groups": tuple(map(Group.from_json, value["groups"])),
        "classes": tuple(value["classes"]),
        "biases": tuple(value["biases"]),
        "aligned_groups": tuple(map(tuple, value["aligned_groups"])),
        **{name: value.get(name) and Estimate.from_json(value[name]) for name in _ADDED},
        "group_calibration": tuple(map(Estimate.from_json, value.get("group_calibration", ()))),
        "attributes": {
            name: read(kind, part) for name, part in value.get("attributes", {}).items()
        },
    }
