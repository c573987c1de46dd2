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
    targets: Tensor,
    biases: Tensor,
    predictions: Tensor,
    *,
    num_classes: int,
    num_biases: int,
    weight: Tensor | None = None,
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
        weight: ``(n,)`` how much each sample counts; None where each counts 1.

    Returns:
        ``(num_classes, num_biases + 1, num_classes)`` ``count[target, bias, prediction]``, int64
        or the type of the weights. The last bias column, whose index is also ``UNKNOWN``, holds
        the samples whose bias is not known. So the sum over all columns counts every sample.

    >>> counts = count(torch.tensor([0, 0, 1]), torch.tensor([0, -1, 1]), torch.tensor([0, 1, 1]),
    ...                num_classes=2, num_biases=2)
    >>> counts.shape, counts[1, 1].tolist(), counts[0, UNKNOWN].tolist()
    (torch.Size([2, 3, 2]), [0, 1], [0, 1])
    """
    shape = (num_classes, num_biases + 1, num_classes)
    return _tally(targets, biases, predictions, shape, weight)


def count_right(
    targets: Tensor, biases: Tensor, right: Tensor, *, num_classes: int, num_biases: int
) -> Tensor:
    """Count wrong and right answers to each (target, bias) group, without saying which.

    Args:
        targets: ``(n,)`` class numbers.
        biases: ``(n,)`` bias values, ``UNKNOWN`` (-1) where not known.
        right: ``(n,)`` bool.
        num_classes: As for ``count``.
        num_biases: As for ``count``.

    Returns:
        ``(num_classes, num_biases + 1, 2)`` int64; columns are those of ``count``.

    >>> count_right(torch.tensor([0, 0, 1]), torch.tensor([0, 0, -1]), torch.tensor([1, 0, 1]) > 0,
    ...             num_classes=2, num_biases=1).tolist()
    [[[1, 1], [0, 0]], [[0, 0], [0, 1]]]
    """
    return _tally(targets, biases, right.long(), (num_classes, num_biases + 1, 2))


def _tally(
    targets: Tensor,
    biases: Tensor,
    outcomes: Tensor,
    shape: tuple[int, int, int],
    weight: Tensor | None = None,
) -> Tensor:
    """How often each outcome occurs in each group; nothing waits for the device."""
    column = biases.masked_fill(biases == UNKNOWN, shape[1] - 1)
    cell = (targets * shape[1] + column) * shape[2] + outcomes
    # A value out of range must not land in another group's cell. Checking it here would wait for
    # the device; a negative cell makes the device itself raise an error.
    valid = _within(targets, 0, shape[0]) & _within(outcomes, 0, shape[2])
    valid &= _within(biases, UNKNOWN, shape[1] - 1)
    added = torch.ones_like(cell) if weight is None else weight
    counts = added.new_zeros(shape).view(-1)
    counts.scatter_add_(0, cell.masked_fill(~valid, -1), added)
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


def aligned_names(alignment: Tensor, values: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """For each class of a ``(classes, values)`` table, the values that go along with it.

    >>> aligned_names(torch.tensor([[True, False], [True, True]]), ["red", "blue"])
    (('red',), ('red', 'blue'))
    """
    found: list[list[str]] = [[] for _ in range(len(alignment))]
    for row, column in alignment.nonzero().tolist():
        found[row].append(values[column])
    return tuple(map(tuple, found))


@dataclass(frozen=True, eq=False, kw_only=True)
class Cells:
    """How many samples each (target, bias) pair has, and how many answers to them are right.

    Only pairs that have samples are listed, by class and then by bias value: of many classes and
    many values, most pairs have none.

    Args:
        target: ``(cells,)`` int64, the class of each pair.
        bias: ``(cells,)`` int64, its bias value; ``UNKNOWN``, the first of a class, for the samples
            of the class whose bias is not known.
        correct: ``(cells,)`` int64, right answers.
        total: ``(cells,)`` int64, samples.
        aligned: ``(cells,)`` bool, whether the value goes along with the class in the training
            data.
        classes: Names of the classes.
        biases: Names of the bias values; empty without a bias attribute.
    """

    target: Tensor
    bias: Tensor
    correct: Tensor
    total: Tensor
    aligned: Tensor
    classes: tuple[str, ...]
    biases: tuple[str, ...]

    @classmethod
    def from_counts(
        cls, counts: Tensor, *, alignment: Tensor, classes: Sequence[str], biases: Sequence[str]
    ) -> "Cells":
        """The cells of ``(classes, biases + 1, classes)`` counts, as ``verify.count`` makes them.

        >>> counts = torch.tensor([[[3, 1], [0, 0]], [[2, 2], [0, 1]]])
        >>> cells = Cells.from_counts(
        ...     counts, alignment=torch.zeros(2, 1) > 0, classes=["cat", "dog"], biases=["lawn"])
        >>> cells.bias.tolist(), cells.correct.tolist(), cells.total.tolist()
        ([0, -1, 0], [3, 1, 2], [4, 1, 4])
        """
        if counts.shape != (len(classes), len(biases) + 1, len(classes)):
            raise ValueError(
                f"counts {tuple(counts.shape)} and alignment {tuple(alignment.shape)} do not fit "
                f"{len(classes)} classes and {len(biases)} bias values"
            )
        counts = counts.cpu()
        return cls.from_table(
            counts.diagonal(dim1=0, dim2=2).T, counts.sum(2), alignment=alignment,
            classes=classes, biases=biases,
        )  # fmt: skip

    @classmethod
    def from_table(
        cls,
        correct: Tensor,
        total: Tensor,
        *,
        alignment: Tensor | None,
        classes: Sequence[str],
        biases: Sequence[str],
    ) -> "Cells":
        """The cells of two tables, right answers and samples, each ``(classes, biases + 1)``.

        The last column holds the samples whose bias is not known. ``alignment`` is as for
        ``from_answers``.
        """
        key = total.roll(1, 1).flatten().nonzero().squeeze(1)  # unknown bias comes first
        target, bias = key // (len(biases) + 1), key % (len(biases) + 1) - 1
        return cls(
            target=target, bias=bias, correct=correct[target, bias], total=total[target, bias],
            aligned=_flags(alignment, target, bias, (len(classes), len(biases))),
            classes=tuple(classes), biases=tuple(biases),
        )  # fmt: skip

    @classmethod
    def from_answers(
        cls,
        targets: Tensor,
        biases: Tensor,
        answers: Tensor,
        *,
        alignment: Tensor | None,
        classes: Sequence[str],
        values: Sequence[str],
    ) -> "Cells":
        """The cells of samples on the CPU, without the table of which class was taken for which.

        Arguments as for ``Metrics.from_answers``. The cost grows with the number of samples, not
        with that of the pairs.
        """
        _check_within("targets", targets, 0, len(classes))
        _check_within("biases", biases, UNKNOWN, len(values))
        _check_within("answers", answers, 0, len(classes))
        key, place = torch.unique(_key(targets, biases, len(values)), return_inverse=True)
        target, bias = key // (len(values) + 1), key % (len(values) + 1) - 1
        return cls(
            target=target, bias=bias,
            correct=torch.bincount(place[targets == answers], minlength=len(key)),
            total=torch.bincount(place, minlength=len(key)),
            aligned=_flags(alignment, target, bias, (len(classes), len(values))),
            classes=tuple(classes), biases=tuple(values),
        )  # fmt: skip

    @property
    def known(self) -> Tensor:
        """Which cells are groups, (cells,) bool: those whose bias is known."""
        return self.bias != UNKNOWN

    @property
    def labeled(self) -> bool:
        """Whether at least one sample's bias is known."""
        return bool(self.known.any())

    def of_classes(self, counts: Tensor) -> Tensor:
        """The sum of a number of each cell over the cells of each class, (classes,)."""
        sums = torch.zeros(len(self.classes), dtype=counts.dtype)
        return sums.index_add(0, self.target, counts)

    def place_of(self, targets: Tensor, biases: Tensor) -> Tensor:
        """The cell of each sample, (n,); the samples are some of those that were counted."""
        width = len(self.biases)
        keys = _key(self.target, self.bias, width)
        return torch.searchsorted(keys, _key(targets, biases, width))


def _key(targets: Tensor, biases: Tensor, values: int) -> Tensor:
    """A number for each (target, bias) pair, in their order; unknown bias, -1, comes first."""
    return targets * (values + 1) + biases + 1


def _flags(
    alignment: Tensor | None, target: Tensor, bias: Tensor, shape: tuple[int, int]
) -> Tensor:
    """Which of some pairs are aligned, by a (classes, values) table."""
    if alignment is None:
        return torch.zeros_like(target, dtype=torch.bool)
    if alignment.shape != shape:
        raise ValueError(
            f"alignment {tuple(alignment.shape)} does not fit {shape[0]} classes and {shape[1]} "
            f"bias values"
        )
    known = bias != UNKNOWN
    flags = torch.zeros_like(known)
    flags[known] = alignment.cpu()[target[known], bias[known]]
    return flags


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
        f"{len(small)} of {present} groups {'has' if len(small) == 1 else 'have'} fewer than "
        f"{MIN_SAMPLES} samples, too few to judge such a group by itself; the smallest is "
        f"({smallest.target}, {smallest.bias}) with {smallest.accuracy.n} {samples}"
    )
