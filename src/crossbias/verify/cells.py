"""Cells: samples and right answers of each (target, bias) pair, the basis of every accuracy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from crossbias.types import UNKNOWN


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

        Args:
            targets: ``(n,)`` class numbers.
            biases: ``(n,)`` bias values, ``UNKNOWN`` where not known.
            answers: ``(n,)`` predicted class numbers.
            alignment: As in ``Cells``.
            classes: Names of the classes.
            values: Names of the bias values.
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


def _check_within(name: str, numbers: Tensor, low: int, high: int) -> None:
    if bool(((numbers < low) | (numbers >= high)).any()):
        raise ValueError(
            f"{name} must lie in {low}..{high - 1}, got {int(numbers.min())}..{int(numbers.max())}"
        )
