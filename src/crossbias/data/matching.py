"""matched: classes and attribute values of other data, numbered as the training numbered them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.formatting import first_few

_MOST = 30  # names shown of each list


def matched(
    data: BiasedDataset, classes: Sequence[str], values: Mapping[str, Sequence[str]]
) -> BiasedDataset:
    """The data with classes and values numbered by their names as in the training.

    Attributes that the training did not have keep their own numbers. So do attributes other than
    the bias with a value that the training did not have.

    Args:
        data: Data that a trained model is judged on.
        classes: Names of the classes in the training data, in the order of their numbers.
        values: The same for the values of each attribute.

    Raises:
        CrossbiasError: A sample has a class, or a value of the bias, that the training did not
            have.

    >>> data = BiasedDataset(
    ...     inputs=torch.zeros(2, 1), targets=torch.tensor([0, 1]), classes=("dog", "cat"))
    >>> matched(data, ("cat", "dog", "fox"), {}).targets.tolist()
    [1, 0]
    """
    if strange := strange_names(data.targets, data.classes, classes):
        raise _refused(data, "class", strange, data.classes, classes)
    known = dict(data.values)
    for name in data.attributes.keys() & values.keys():
        strange = strange_names(data.attributes[name], data.values[name], values[name])
        if strange and name == data.bias:
            raise _refused(data, f"{name} value", strange, data.values[name], values[name])
        if not strange:
            known[name] = tuple(values[name])
    if (data.classes, data.values) == (tuple(classes), known):
        return data
    return replace(
        data,
        targets=_renumbered(data.targets, data.classes, classes),
        classes=tuple(classes),
        attributes={
            name: _renumbered(column, data.values[name], known[name])
            for name, column in data.attributes.items()
        },
        values=known,
        alignments={},  # the training's tables decide, which have the training's numbers
    )


def with_classes(data: BiasedDataset, classes: Sequence[str]) -> BiasedDataset:
    """The data with its classes in another order, such as that of a model's outputs.

    Raises:
        CrossbiasError: A sample has a class that is not among them.

    >>> data = BiasedDataset(
    ...     inputs=torch.zeros(2, 1), targets=torch.tensor([0, 1]), classes=("dog", "cat"),
    ...     attributes={"place": torch.tensor([0, 1])},
    ...     alignments={"place": torch.tensor([[True, False], [False, True]])})
    >>> turned = with_classes(data, ("cat", "dog"))
    >>> turned.targets.tolist(), turned.alignments["place"].tolist()
    ([1, 0], [[False, True], [True, False]])
    """
    if data.classes == tuple(classes):
        return data
    if strange := strange_names(data.targets, data.classes, classes):
        raise _refused(data, "class", strange, data.classes, classes)
    return replace(
        data,
        targets=_renumbered(data.targets, data.classes, classes),
        classes=tuple(classes),
        alignments={
            name: rows_for(table, data.classes, classes) for name, table in data.alignments.items()
        },
    )


def rows_for(table: Tensor, classes: Sequence[str], wanted: Sequence[str]) -> Tensor:
    """A ``(classes, values)`` alignment for classes in another order.

    A class that the table does not have goes along with no value.

    >>> rows_for(torch.tensor([[True, False]]), ["dog"], ["cat", "dog"]).tolist()
    [[False, False], [True, False]]
    """
    if tuple(classes) == tuple(wanted):
        return table
    rows = [classes.index(name) if name in classes else -1 for name in wanted]
    return torch.cat([table, torch.zeros(1, table.shape[1]) > 0])[rows]


def strange_names(column: Tensor, names: Sequence[str], known: Sequence[str]) -> list[str]:
    """The names that occur in a column of numbers and are not among the known ones."""
    present = set(column.tolist())
    return [name for place, name in enumerate(names) if place in present and name not in known]


def _renumbered(column: Tensor, names: Sequence[str], known: Sequence[str]) -> Tensor:
    """The numbers of the same names in another list; UNKNOWN stays, it is the last entry."""
    places = [known.index(name) if name in known else -1 for name in names]
    return torch.tensor([*places, -1])[column]


def _refused(
    data: BiasedDataset, kind: str, strange: list[str], names: Sequence[str], known: Sequence[str]
) -> CrossbiasError:
    there, trained = (", ".join(first_few(listed, _MOST)) for listed in (names, known))
    return CrossbiasError(
        f"{data.name} {data.split} has the {kind} {strange[0]!r}, which the model was not trained "
        f"on; the data has: {there}; the model knows: {trained}; name them alike, or leave the "
        f"other samples out"
    )
