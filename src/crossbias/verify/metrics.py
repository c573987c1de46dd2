"""Metrics: what is reported of one split, every number with its interval."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.verify import accuracies
from crossbias.verify.cells import Cells
from crossbias.verify.groups import Group, small_group_warning
from crossbias.verify.intervals import Estimate

NEED_LABELS: Final = ("aligned", "conflicting", "unbiased")
"""Accuracies that are None where no sample has a bias label."""

_ADDED: Final = ("class_averaged", "calibration", "demographic_parity", "equalized_odds")
"""Estimates that files written by version 0.1.0 lack."""


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Accuracies of one model on one split, with 95 % intervals.

    What needs bias labels is None where no sample of the split has one. A part of the split
    that is empty has the accuracy ``NO_SAMPLES``.

    Args:
        overall: Of all samples, whether their bias is known or not.
        aligned: Of the samples in aligned groups.
        conflicting: Of the samples in the other groups.
        unbiased: Mean over the groups that have samples, each counting the same.
        worst_group: The group with the lowest accuracy among those with samples; of equals, the
            first by class and then bias value. Its interval is that of the group by itself: it
            does not know that the group was picked for being lowest.
        per_class: Of all samples of each class.
        groups: Every (class, bias value) pair, empty ones too, class by class.
        classes: Names of the classes.
        biases: Names of the bias values.
        aligned_groups: For each class, for each bias value, whether the group is aligned.
        class_averaged: Mean over the classes that have samples, each counting the same; None in
            files that were written before it existed.
        calibration: The expected calibration error over all samples; None where only answers
            were counted and no probabilities stored.
        group_calibration: That of each group, in the order of ``groups``; empty likewise, and
            where there are too many groups.
        demographic_parity: The demographic-parity gap between bias values; None likewise.
        equalized_odds: The equalized-odds gap between bias values; None likewise.
        attributes: For each attribute of the data that is not the bias, the metrics with respect
            to it, which have no further attributes.
    """

    overall: Estimate
    aligned: Estimate | None
    conflicting: Estimate | None
    unbiased: Estimate | None
    worst_group: Group | None
    per_class: tuple[Estimate, ...]
    groups: tuple[Group, ...]
    classes: tuple[str, ...]
    biases: tuple[str, ...]
    aligned_groups: tuple[tuple[bool, ...], ...]
    class_averaged: Estimate | None = None
    calibration: Estimate | None = None
    group_calibration: tuple[Estimate, ...] = ()
    demographic_parity: Estimate | None = None
    equalized_odds: Estimate | None = None
    attributes: Mapping[str, "Metrics"] = field(default_factory=dict)

    @classmethod
    def from_counts(
        cls, counts: Tensor, *, alignment: Tensor, classes: Sequence[str], biases: Sequence[str]
    ) -> "Metrics":
        """The accuracies, from the counts alone.

        Args:
            counts: ``(classes, biases + 1, classes)``, summed over batches and processes, as
                ``crossbias.verify.count`` makes them.
            alignment: ``(classes, biases)`` bool, true where a bias value goes along with a class.
            classes: Names of the classes.
            biases: Names of the bias values; none where there is no bias attribute.
        """
        names = {"classes": classes, "biases": biases}
        return cls.from_cells(Cells.from_counts(counts, alignment=alignment, **names))

    @classmethod
    def from_cells(cls, cells: Cells) -> "Metrics":
        """The accuracies, from the cells alone."""
        return cls(
            overall=accuracies.overall(cells),
            aligned=accuracies.aligned(cells) if cells.labeled else None,
            conflicting=accuracies.conflicting(cells) if cells.labeled else None,
            unbiased=accuracies.unbiased(cells) if cells.labeled else None,
            worst_group=accuracies.worst_group(cells) if cells.labeled else None,
            per_class=accuracies.per_class(cells),
            groups=accuracies.by_group(cells),
            classes=cells.classes,
            biases=cells.biases,
            aligned_groups=tuple(map(tuple, cells.alignment.tolist())),
            class_averaged=accuracies.class_averaged(cells),
        )

    @property
    def by_group(self) -> tuple[tuple[Estimate, ...], ...]:
        """The accuracy of each group as a matrix, (classes, biases)."""
        cells, width = [group.accuracy for group in self.groups], len(self.biases)
        rows = range(len(self.classes))
        return tuple(tuple(cells[row * width : (row + 1) * width]) for row in rows)

    @property
    def cells(self) -> Cells:
        """The samples and right answers that the accuracies were computed from."""
        shape = (len(self.classes), len(self.biases))
        total, correct = (part.view(shape) for part in _counted([g.accuracy for g in self.groups]))
        of_class = [part[:, None] for part in _counted(self.per_class)]
        # What a class has beyond its groups are the samples of unknown bias.
        rest = [
            whole - part.sum(1, keepdim=True)
            for whole, part in zip(of_class, (total, correct), strict=True)
        ]
        return Cells(
            correct=torch.cat([correct, rest[1]], dim=1),
            total=torch.cat([total, rest[0]], dim=1),
            alignment=torch.tensor(self.aligned_groups, dtype=torch.bool).view(shape),
            classes=self.classes,
            biases=self.biases,
        )

    @property
    def warning(self) -> str | None:
        """What to know before reading the numbers of groups; None where all are large enough."""
        return small_group_warning(self.groups)

    def summary(self) -> dict[str, float]:
        """The accuracies as plain numbers; those that need bias labels only where there are any."""
        named = {
            "accuracy": self.overall,
            **{name: getattr(self, name) for name in NEED_LABELS},
        }
        named["worst_group"] = self.worst_group and self.worst_group.accuracy
        return {name: part.value for name, part in named.items() if part is not None and part.n}

    def to_json(self) -> dict[str, Any]:
        """The metrics as a JSON object; ``from_json`` restores them exactly."""
        return _written(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Metrics":
        """The metrics of a JSON object that ``to_json`` made.

        Raises:
            CrossbiasError: The object is not one that ``to_json`` made.
        """
        return _read(cls, value)


def _counted(estimates: Sequence[Estimate]) -> tuple[Tensor, Tensor]:
    """Samples and right answers behind some accuracies, each (estimates,)."""
    total = torch.tensor([each.n for each in estimates], dtype=torch.int64)
    correct = [round(each.value * each.n) if each.n else 0 for each in estimates]
    return total, torch.tensor(correct, dtype=torch.int64)


def _written(metrics: Metrics) -> dict[str, Any]:
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
        "attributes": {name: _written(each) for name, each in metrics.attributes.items()},
    }


def _estimates(metrics: Metrics, names: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Estimate | None] = {name: getattr(metrics, name) for name in names}
    return {name: estimate.to_json() if estimate else None for name, estimate in found.items()}


def _read(kind: type[Metrics], value: Mapping[str, Any]) -> Metrics:
    """The metrics of an object that ``_written`` made.

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


def _parts(kind: type[Metrics], value: Mapping[str, Any]) -> dict[str, Any]:
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
            name: _read(kind, part) for name, part in value.get("attributes", {}).items()
        },
    }


def judged_split(splits: Iterable[str]) -> str | None:
    """``test``, or else the first that is neither trained on nor chosen by; None without one.

    >>> judged_split(["train", "validation", "unseen", "test"]), judged_split(["validation"])
    ('test', None)
    """
    judged = [split for split in splits if split not in ("train", "validation")]
    return "test" if "test" in judged else next(iter(judged), None)
