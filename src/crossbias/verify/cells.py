"""What was answered to each (target, bias) pair: counts and cells, behind every reported number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from crossbias.types import UNKNOWN
from crossbias.verify.intervals import Estimate

MIN_SAMPLES: Final = 12
"""With fewer samples, a 95% interval can be wider than half of all possible accuracies."""


def count(
    targets: Tensor, biases: Tensor, predictions: Tensor, *, num_classes: int, num_biases: int
) -> Tensor:
    """Count the answers to each (target, bias) group.

    Counts of several batches or processes can be added: the shape does not depend on what a batch
    holds, so a group that is absent from it shifts nothing. Nothing waits for the device.

    Args:
        targets: ``(n,)`` class numbers.
        biases: ``(n,)`` bias values, ``UNKNOWN`` (-1) where not known.
        predictions: ``(n,)`` predicted class numbers.
        num_classes: Number of classes, present or not.
        num_biases: Number of bias values, present or not; 0 without a bias attribute.

    Returns:
        ``(num_classes, num_biases + 1, num_classes)`` int64, ``count[target, bias, prediction]``.
        The last bias column, whose index is also ``UNKNOWN``, holds the samples whose bias is
        not known. So the sum over all columns counts every sample.

    >>> counts = count(torch.tensor([0, 0, 1]), torch.tensor([0, -1, 1]), torch.tensor([0, 1, 1]),
    ...                num_classes=2, num_biases=2)
    >>> counts.shape, counts[1, 1].tolist(), counts[0, UNKNOWN].tolist()
    (torch.Size([2, 3, 2]), [0, 1], [0, 1])
    """
    shape = (num_classes, num_biases + 1, num_classes)
    column = biases.masked_fill(biases == UNKNOWN, num_biases)
    cell = (targets * shape[1] + column) * shape[2] + predictions
    # A value out of range must not land in another group's cell. Checking it here would wait for
    # the device; a negative cell makes the device itself raise an error.
    valid = _within(targets, 0, num_classes) & _within(predictions, 0, num_classes)
    valid &= _within(biases, UNKNOWN, num_biases)
    counts = targets.new_zeros(shape).view(-1)
    counts.scatter_add_(0, cell.masked_fill(~valid, -1), torch.ones_like(cell))
    return counts.view(shape)


class Alignment(NamedTuple):
    """Which values of an attribute go along with which class in the training data."""

    values: tuple[str, ...]
    aligned: Tensor  # (classes, values) bool

    def of(self, values: Sequence[str]) -> Tensor:
        """The table for the values of another split; a new value goes along with no class.

        >>> Alignment(("red", "blue"), torch.eye(2) > 0).of(["blue", "green"]).tolist()
        [[False, False], [True, False]]
        """
        places = {name: place for place, name in enumerate(self.values)}
        table = torch.zeros(len(self.aligned), len(values), dtype=torch.bool)
        for column, name in enumerate(values):
            if name in places:
                table[:, column] = self.aligned[:, places[name]]
        return table


@dataclass(frozen=True, eq=False, kw_only=True)
class Cells:
    """How many samples each (target, bias) pair has, and how many answers to them are right.

    Args:
        correct: ``(classes, biases + 1)`` int64, right answers; the last column holds the
            samples whose bias is not known.
        total: Number of samples, in the same shape.
        alignment: ``(classes, biases)`` bool, true where a bias value goes along with a class in
            the training data.
        classes: Names of the classes.
        biases: Names of the bias values; empty without a bias attribute.
    """

    correct: Tensor
    total: Tensor
    alignment: Tensor
    classes: tuple[str, ...]
    biases: tuple[str, ...]

    def __post_init__(self) -> None:
        rows, columns = len(self.classes), len(self.biases)
        shapes = (self.correct.shape, self.total.shape, self.alignment.shape)
        if shapes != ((rows, columns + 1), (rows, columns + 1), (rows, columns)):
            raise ValueError(
                f"counts {tuple(self.total.shape)} and alignment {tuple(self.alignment.shape)} do "
                f"not fit {rows} classes and {columns} bias values"
            )

    @classmethod
    def from_counts(
        cls, counts: Tensor, *, alignment: Tensor, classes: Sequence[str], biases: Sequence[str]
    ) -> "Cells":
        """The cells of ``(classes, biases + 1, classes)`` counts, as ``verify.count`` makes them.

        >>> counts = torch.tensor([[[3, 1], [0, 0]], [[2, 2], [0, 1]]])
        >>> cells = Cells.from_counts(
        ...     counts, alignment=torch.zeros(2, 1) > 0, classes=["cat", "dog"], biases=["lawn"])
        >>> cells.correct.tolist(), cells.total.tolist()
        ([[3, 0], [2, 1]], [[4, 0], [4, 1]])
        """
        if counts.shape != (len(classes), len(biases) + 1, len(classes)):
            raise ValueError(
                f"counts {tuple(counts.shape)} and alignment {tuple(alignment.shape)} do not fit "
                f"{len(classes)} classes and {len(biases)} bias values"
            )
        counts = counts.cpu()
        return cls(
            correct=counts.diagonal(dim1=0, dim2=2).T,
            total=counts.sum(2),
            alignment=alignment.cpu(),
            classes=tuple(classes),
            biases=tuple(biases),
        )

    @classmethod
    def from_answers(
        cls,
        targets: Tensor,
        biases: Tensor,
        answers: Tensor,
        *,
        alignment: Tensor,
        classes: Sequence[str],
        values: Sequence[str],
    ) -> "Cells":
        """The cells of samples on the CPU, without the table of which class was taken for which.

        Arguments as for ``Metrics.from_answers``.
        """
        _check_within("targets", targets, 0, len(classes))
        _check_within("biases", biases, UNKNOWN, len(values))
        _check_within("answers", answers, 0, len(classes))
        cell = targets * (len(values) + 1) + biases.masked_fill(biases == UNKNOWN, len(values))
        shape = (len(classes), len(values) + 1)
        size = len(classes) * (len(values) + 1)
        return cls(
            correct=torch.bincount(cell[targets == answers], minlength=size).view(shape),
            total=torch.bincount(cell, minlength=size).view(shape),
            alignment=alignment.cpu(),
            classes=tuple(classes),
            biases=tuple(values),
        )

    @property
    def labeled(self) -> bool:
        """Whether at least one sample's bias is known."""
        return bool(self.total[:, :-1].any())


def _within(numbers: Tensor, low: int, high: int) -> Tensor:
    return (numbers >= low) & (numbers < high)


def _check_within(name: str, numbers: Tensor, low: int, high: int) -> None:
    if not _within(numbers, low, high).all():
        raise ValueError(
            f"{name} must lie in {low}..{high - 1}, got {int(numbers.min())}..{int(numbers.max())}"
        )


class Group(NamedTuple):
    """One class and one bias value, by name, and the accuracy on their samples."""

    target: str
    bias: str
    accuracy: Estimate

    def to_json(self) -> dict[str, Any]:
        """The group as one flat JSON object."""
        return {"target": self.target, "bias": self.bias, **self.accuracy.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Group":
        """The group that ``to_json`` wrote."""
        return cls(value["target"], value["bias"], Estimate.from_json(value))


def small_groups(groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups that have samples, but fewer than ``MIN_SAMPLES``."""
    return tuple(group for group in groups if 0 < group.accuracy.n < MIN_SAMPLES)


def small_group_warning(groups: Sequence[Group]) -> str | None:
    """What to know before reading numbers about these groups; None if all are large enough."""
    small, present = small_groups(groups), sum(group.accuracy.n > 0 for group in groups)
    if not small:
        return None
    smallest = min(small, key=lambda group: group.accuracy.n)
    samples = "sample" if smallest.accuracy.n == 1 else "samples"
    return (
        f"{len(small)} of {present} groups have fewer than {MIN_SAMPLES} samples, too few to say "
        f"anything about one of them; the smallest is ({smallest.target}, {smallest.bias}) with "
        f"{smallest.accuracy.n} {samples}"
    )
