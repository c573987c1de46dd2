"""Metrics: what is reported of one split, every number with its interval."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.verify.groups import Group
from crossbias.verify.intervals import Estimate, mean_of_groups, wilson


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

    @classmethod
    def from_counts(
        cls, counts: Tensor, *, alignment: Tensor, classes: Sequence[str], biases: Sequence[str]
    ) -> "Metrics":
        """Everything that is reported, from the counts alone.

        Args:
            counts: ``(classes, biases + 1, classes)``, summed over batches and processes, as
                ``crossbias.verify.count`` makes them.
            alignment: ``(classes, biases)`` bool, true where a bias value goes along with a class.
            classes: Names of the classes.
            biases: Names of the bias values; none where there is no bias attribute.
        """
        _check(counts, alignment, len(classes), len(biases))
        counts, aligned = counts.cpu(), alignment.cpu()
        total = counts.sum(2)  # (classes, biases + 1)
        correct = counts.diagonal(dim1=0, dim2=2).T  # (classes, biases + 1)
        right, known = correct[:, :-1], total[:, :-1]  # (classes, biases), bias known
        labeled = bool(known.any())
        groups = tuple(
            Group(target, bias, _accuracy(right[row, column], known[row, column]))
            for row, target in enumerate(classes)
            for column, bias in enumerate(biases)
        )
        return cls(
            overall=_accuracy(correct, total),
            aligned=_accuracy(right[aligned], known[aligned]) if labeled else None,
            conflicting=_accuracy(right[~aligned], known[~aligned]) if labeled else None,
            unbiased=_mean(right, known) if labeled else None,
            worst_group=_worst(groups) if labeled else None,
            per_class=tuple(map(_accuracy, correct, total)),
            groups=groups,
            classes=tuple(classes),
            biases=tuple(biases),
            aligned_groups=tuple(map(tuple, aligned.tolist())),
        )

    @property
    def by_group(self) -> tuple[tuple[Estimate, ...], ...]:
        """The accuracy of each group as a matrix, (classes, biases)."""
        cells, width = [group.accuracy for group in self.groups], len(self.biases)
        rows = range(len(self.classes))
        return tuple(tuple(cells[row * width : (row + 1) * width]) for row in rows)

    def summary(self) -> dict[str, float]:
        """The accuracies as plain numbers; those that need bias labels only where there are any."""
        named = {"accuracy": self.overall, **{name: getattr(self, name) for name in _NEED_LABELS}}
        named["worst_group"] = self.worst_group and self.worst_group.accuracy
        return {name: part.value for name, part in named.items() if part is not None and part.n}

    def to_json(self) -> dict[str, Any]:
        """The metrics as a JSON object; ``from_json`` restores them exactly."""
        parts = {name: getattr(self, name) for name in _NEED_LABELS}
        return {
            "overall": self.overall.to_json(),
            **{name: part.to_json() if part else None for name, part in parts.items()},
            "worst_group": self.worst_group.to_json() if self.worst_group else None,
            "per_class": [
                {"target": name, **accuracy.to_json()}
                for name, accuracy in zip(self.classes, self.per_class, strict=True)
            ],
            "groups": [group.to_json() for group in self.groups],
            "classes": list(self.classes),
            "biases": list(self.biases),
            "aligned_groups": [list(row) for row in self.aligned_groups],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Metrics":
        """The metrics of a JSON object that ``to_json`` made.

        Raises:
            CrossbiasError: The object is not one that ``to_json`` made.
        """
        try:
            metrics = cls(
                overall=Estimate.from_json(value["overall"]),
                **{name: value[name] and Estimate.from_json(value[name]) for name in _NEED_LABELS},
                worst_group=value["worst_group"] and Group.from_json(value["worst_group"]),
                per_class=tuple(map(Estimate.from_json, value["per_class"])),
                groups=tuple(map(Group.from_json, value["groups"])),
                classes=tuple(value["classes"]),
                biases=tuple(value["biases"]),
                aligned_groups=tuple(map(tuple, value["aligned_groups"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CrossbiasError(f"these are not metrics of a split: {error!r}") from error
        rows, columns = len(metrics.classes), len(metrics.biases)
        widths = [len(row) for row in metrics.aligned_groups]
        sizes = (len(metrics.per_class), len(metrics.groups), widths)
        if sizes != (rows, rows * columns, [columns] * rows):
            raise CrossbiasError("these are not metrics of a split: its tables differ in size")
        return metrics


_NEED_LABELS = ("aligned", "conflicting", "unbiased")


def _check(counts: Tensor, alignment: Tensor, num_classes: int, num_biases: int) -> None:
    if counts.shape != (num_classes, num_biases + 1, num_classes) or (
        alignment.shape != (num_classes, num_biases)
    ):
        raise ValueError(
            f"counts {tuple(counts.shape)} and alignment {tuple(alignment.shape)} do not fit "
            f"{num_classes} classes and {num_biases} bias values"
        )


def _accuracy(correct: Tensor, total: Tensor) -> Estimate:
    return wilson(int(correct.sum()), int(total.sum()))


def _mean(correct: Tensor, total: Tensor) -> Estimate:
    return mean_of_groups(correct.flatten().tolist(), total.flatten().tolist())


def _worst(groups: Iterable[Group]) -> Group:
    present = (group for group in groups if group.accuracy.n)
    return min(present, key=lambda group: group.accuracy.value)
