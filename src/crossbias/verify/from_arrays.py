"""``verify``: the metrics of any model's answers, given as arrays, lists or tensors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.parameters import closest
from crossbias.types import UNKNOWN
from crossbias.verify.detection import Positive
from crossbias.verify.given_columns import (
    Column,
    LabelColumn,
    as_array,
    checked_probabilities,
    checked_weights,
    label_column,
    listed,
    named_columns,
    places_of,
)
from crossbias.verify.metrics import Metrics


def verify(
    *,
    target: Column,
    prediction: Column,
    attributes: Mapping[str, Column] | Any | None = None,
    bias: str | None = None,
    classes: Sequence[str] | None = None,
    alignment: Mapping[Any, Any] | ArrayLike | None = None,
    cluster: Column | None = None,
    weight: Column | None = None,
    positive: str | None = None,
    prevalence: float | None = None,
    threshold: float | None = None,
) -> Metrics:
    """Judge the answers of any model, group by group, with intervals.

    Args:
        target: ``(n,)`` true classes, as numbers from 0 or as names.
        prediction: ``(n,)`` predicted classes in the same way, or ``(n, classes)`` probabilities.
            Only probabilities give a calibration error. The columns of a data frame of
            probabilities name the classes.
        attributes: For each name, ``(n,)`` values as numbers from 0 or as names; None, NaN, an
            empty text or -1 where a value is not known. A mapping or a data frame. The metrics hold
            every attribute.
        bias: The attribute whose groups are judged; may be left out if there is only one.
        classes: Names of all classes, in the order of their numbers and of the columns of
            probabilities. If left out, the classes are those of ``target``.
        alignment: Which values of the bias go along with which class in the training data: a
            mapping from each class to its value or values, or a ``(classes, values)`` table of
            booleans. If left out, the accuracies on aligned and conflicting samples are None.
        cluster: ``(n,)`` which samples belong together, such as the patient of each image, as
            numbers or names. The intervals of accuracies are then over clusters: five images of one
            patient say less than five patients.
        weight: ``(n,)`` how much each sample counts, above 0; all count the same if left out.
        positive: The class to be found, such as a disease. ``metrics.detection`` then has its
            sensitivity, specificity, PPV and NPV and, from probabilities, AUC, Brier score and
            calibration slope.
        prevalence: Share of the positive class where the model will be used, for PPV and NPV; that
            of the samples if left out.
        threshold: Probability from which a sample is called positive, chosen on other samples; if
            left out, a sample is called what is most probable. All accuracies follow it.

    Raises:
        CrossbiasError: The columns do not fit together, or hold something that is no class, no
            value or no probability.

    >>> metrics = verify(
    ...     target=["cat", "cat", "dog", "dog"],
    ...     prediction=["cat", "dog", "dog", "dog"],
    ...     attributes={"place": ["sofa", "lawn", "lawn", None]},
    ...     alignment={"cat": "sofa", "dog": "lawn"})
    >>> metrics.overall.value, metrics.aligned.value, metrics.conflicting.value
    (0.75, 1.0, 0.0)
    """
    truth, predicted = label_column("target", target), as_array(prediction)
    if classes is None and predicted.ndim == 2 and hasattr(prediction, "columns"):
        classes = [str(name) for name in prediction.columns]
    given = {} if attributes is None else named_columns(attributes)
    columns = {name: label_column(f"attribute {name!r}", each) for name, each in given.items()}
    together = None if cluster is None else _clusters(cluster)
    weights = None if weight is None else torch.from_numpy(checked_weights("weight", weight))
    known_lengths = {"cluster": together, "weight": weights}
    extra = {name: len(each) for name, each in known_lengths.items() if each is not None}
    _check_lengths(truth, predicted, columns, extra)
    bias = _chosen(bias, columns)
    known = _Classes.of(truth, classes, predicted)
    targets = known.numbers("target", truth)
    answers, probabilities = known.answers(predicted)
    table = None if alignment is None else _aligned(alignment, known, bias, columns)
    wanted = Positive.wanted(positive, known.names, prevalence=prevalence, threshold=threshold)
    if wanted is not None and wanted.threshold is not None:
        if probabilities is None:
            raise CrossbiasError("a threshold needs probabilities; prediction holds answers only")
        answers = wanted.answers(probabilities, known.names)

    def judged(column: LabelColumn, table: Tensor | None) -> Metrics:
        return Metrics.from_answers(
            targets, torch.from_numpy(column.numbers), answers, probabilities=probabilities,
            alignment=table, classes=known.names, values=column.values, cluster=together,
            weight=weights, positive=wanted,
        )  # fmt: skip

    others = {name: judged(column, None) for name, column in columns.items() if name != bias}
    nothing = LabelColumn(np.full(len(predicted), UNKNOWN), ())
    return replace(judged(nothing if bias is None else columns[bias], table), attributes=others)


class _Classes(NamedTuple):
    """The names of the classes, and whether their order is known: then a number stands for one."""

    names: tuple[str, ...]
    ordered: bool

    @classmethod
    def of(
        cls, truth: LabelColumn, classes: Sequence[str] | None, predicted: NDArray[Any]
    ) -> "_Classes":
        if classes is not None:
            names = tuple(map(str, classes))
            if len(set(names)) < len(names):
                raise CrossbiasError(f"classes names one twice ({listed(names)}); name each once")
            return cls(names, ordered=True)
        if truth.names is None and predicted.ndim == 2 and predicted.shape[1] > 1:
            return cls(tuple(map(str, range(predicted.shape[1]))), ordered=True)
        return cls(truth.values, ordered=truth.names is None)

    def places(self, what: str, names: Iterable[Any]) -> list[int]:
        """The numbers of some classes."""
        remedy = "correct it, or pass classes= to name all of them"
        return places_of(names, self.names, what=what, kind="classes", remedy=remedy)

    def numbers(self, what: str, column: LabelColumn) -> Tensor:
        """The class number of each sample, (n,)."""
        numbers, missing = column.numbers, column.numbers == UNKNOWN
        if missing.any():
            raise CrossbiasError(
                f"{what} has no class at index {missing.argmax()}; leave out samples without one"
            )
        if column.names is not None:
            return torch.tensor(self.places(what, column.names))[torch.from_numpy(numbers)]
        if not self.ordered:
            raise CrossbiasError(
                f"{what} holds numbers such as {numbers[0]}, but target holds names; pass "
                f"classes=, the name of each number"
            )
        if numbers.max() >= len(self.names):
            raise CrossbiasError(
                f"{what} holds {numbers.max()} at index {numbers.argmax()}, but there are "
                f"{len(self.names)} classes, numbered from 0 ({listed(self.names)}); correct it or "
                f"pass classes= to name all of them"
            )
        return torch.from_numpy(numbers)

    def answers(self, predicted: NDArray[Any]) -> tuple[Tensor, Tensor | None]:
        """The predicted class numbers, (n,), and the probabilities where there are any."""
        if predicted.ndim != 2:
            return self.numbers("prediction", label_column("prediction", predicted)), None
        if not self.ordered or predicted.shape[1] != len(self.names):
            raise CrossbiasError(
                f"prediction has {predicted.shape[1]} columns of probabilities, and the classes "
                f"are {listed(self.names)}; pass one column for each class, and their names in "
                f"this order as classes="
            )
        probabilities = torch.from_numpy(checked_probabilities(predicted))
        return probabilities.argmax(1), probabilities


def _clusters(column: Column) -> Tensor:
    """The number of the cluster of each sample, (n,); any text or numbers name a cluster."""
    array = as_array(column)
    if array.ndim != 1:
        raise CrossbiasError(
            f"cluster has the shape {array.shape}; pass one value for each sample, (n,)"
        )
    names = [str(value) for value in array.tolist()]
    if missing := [place for place, name in enumerate(names) if name in ("", "None", "nan")]:
        raise CrossbiasError(
            f"cluster has no value at index {missing[0]}; give a sample that belongs to no other "
            f"a value of its own"
        )
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return torch.tensor([places[name] for name in names])


def _check_lengths(
    truth: LabelColumn,
    predicted: NDArray[Any],
    columns: Mapping[str, LabelColumn],
    extra: Mapping[str, int],
) -> None:
    samples = len(truth.numbers)
    if not samples:
        raise CrossbiasError("target has 0 samples; pass at least one")
    lengths = {f"attribute {name!r}": len(column.numbers) for name, column in columns.items()}
    lengths |= {"prediction": len(predicted) if predicted.ndim else 1, **extra}
    for what, length in lengths.items():
        if length != samples:
            raise CrossbiasError(
                f"{what} has {length} samples, but target has {samples}; pass columns of the same "
                f"length"
            )


def _chosen(bias: str | None, columns: Mapping[str, LabelColumn]) -> str | None:
    """The attribute to judge by: the one that is named, or the only one."""
    if bias is None and len(columns) > 1:
        raise CrossbiasError(
            f"there are {len(columns)} attributes ({listed(columns)}); name one of them as bias="
        )
    if bias is not None and bias not in columns:
        raise CrossbiasError(
            f"there is no attribute {bias!r}{closest(bias, columns)} to judge by; the attributes "
            f"are: {listed(columns) or 'none'}"
        )
    return next(iter(columns), None) if bias is None else bias


def _aligned(
    alignment: Mapping[Any, Any] | ArrayLike,
    known: _Classes,
    bias: str | None,
    columns: Mapping[str, LabelColumn],
) -> Tensor:
    """The alignment as a (classes, values) table."""
    if bias is None:
        raise CrossbiasError("alignment says what goes along with an attribute; pass attributes=")
    values = columns[bias].values
    if isinstance(alignment, Mapping):
        return _mapped(alignment, known, bias, values)
    if not known.ordered or columns[bias].names is not None:
        raise CrossbiasError(
            f"alignment is a table, but classes or values of {bias!r} are names without a number; "
            f"pass a mapping from each class to its value"
        )
    table, classes = as_array(alignment), len(known.names)
    if table.ndim != 2 or len(table) != classes or table.shape[1] < len(values):
        raise CrossbiasError(
            f"alignment has the shape {table.shape}; pass a row for each of the {classes} classes "
            f"and a column for each of the {len(values)} values of {bias!r}"
        )
    return torch.from_numpy(table[:, : len(values)].astype(bool))  # further values do not occur


def _mapped(
    alignment: Mapping[Any, Any], known: _Classes, bias: str, values: tuple[str, ...]
) -> Tensor:
    places = known.places("alignment", alignment)
    if missing := [name for row, name in enumerate(known.names) if row not in places]:
        raise CrossbiasError(
            f"alignment does not name the class {missing[0]!r}; name its value of {bias!r}, or [] "
            f"where no value goes along with it"
        )
    table = torch.zeros(len(known.names), len(values), dtype=torch.bool)
    for row, entry in zip(places, alignment.values(), strict=True):
        several = entry if isinstance(entry, Iterable) and not isinstance(entry, str) else [entry]
        table[row, places_of(
            several, values, what="alignment", kind=f"values of {bias!r}",
            remedy="correct it, or leave it out if no sample has it",
        )] = True  # fmt: skip
    return table
