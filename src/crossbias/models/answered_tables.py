"""What models answer to data, as tables that ``crossbias.answers`` judges."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from torch import Tensor

from crossbias.answers.reading import AnswerTable
from crossbias.data.dataset import BiasedDataset
from crossbias.data.own.table_source import TableSource
from crossbias.data.source import Source
from crossbias.errors import CrossbiasError
from crossbias.experiment import Experiment
from crossbias.formatting import first_few, setting
from crossbias.models.data_for_models import attribute_names
from crossbias.networks.outside import OutsideModel
from crossbias.parameters import unknown
from crossbias.train.evaluation import predict, prepared
from crossbias.train.normalization import Normalize
from crossbias.types import UNKNOWN

COLUMNS: Final = ("id", "target", "split", "cluster")
"""Columns of such a table beside attributes and probabilities."""

PROBABILITY: Final = "probability of "  # begins the name of a column of probabilities
_AS_THEY_ARE: Final = ((0.0,), (1.0,))
_MOST = 20  # names that a note lists


class JudgedModels(NamedTuple):
    """The answers of models as tables, and what ``verify_table`` must know about them."""

    tables: list[AnswerTable]  # one for each model
    columns: dict[str, Any]  # keywords of verify_table
    source: str  # the data
    notes: tuple[str, ...]  # how each model was taken


def judged_models(
    models: Sequence[OutsideModel],
    experiment: Experiment,
    *,
    bias: Sequence[str] = (),
    normalize: Normalize | None = None,
    split: str = "test",
    validation: str | None = None,
) -> JudgedModels:
    """Run models over data.

    Args:
        models: The models; all answer the same samples.
        experiment: The data, from ``data_for``.
        bias: Attributes to judge by; several joined by commas are judged together.
        normalize: How images are normalized for the models, as for ``crossbias.evaluate``.
        split: The split to judge on.
        validation: A further split, on which a rule chooses a threshold.
    """
    check_same_classes(models)
    chosen = [attribute_names(experiment.source, text) for text in bias]
    splits = [experiment.split(name) for name in filter(None, (split, validation))]
    attributes = list(dict.fromkeys(name for names in chosen for name in names))
    for name in attributes:
        if name not in splits[0].attributes:
            lacking = f"{splits[0].name} has no attribute"
            raise unknown(lacking, name, splits[0].attributes, "its attributes are")
    tables, notes = [], _notes(experiment.source)
    for model in models:
        named = model.classes is not None
        taken = [prepared(model, data, normalize) for data in splits]
        tables.append(answered_table(model, taken, attributes))
        notes.append(about(model, taken[0], normalize, named=named))
    columns: dict[str, Any] = {
        "target": "target", "prediction": [f"{PROBABILITY}*"], "id": "id",
        "bias": [",".join(map(column_of, names)) for names in chosen],
        "classes": list(models[0].classes or splits[0].classes),
        "cluster": None if splits[0].cluster is None else "cluster",
        "split_column": "split", "split": split, "training": None,
    }  # fmt: skip
    if "train" in experiment.source.available_splits and split != "train":
        columns["training"] = labels_by_name(experiment.labels("train"), attributes)
        notes.append(
            "What goes along with what in training is read from the split 'train' of the data; the "
            "model may have been trained on other data."
        )
    return JudgedModels(tables, columns, splits[0].name, tuple(notes))


def _notes(source: Source) -> list[str]:
    """What to know about the data."""
    if not isinstance(source, TableSource) or source.split_by in source.table.columns:
        return []
    share = "all samples are judged" if source.test == 1 else f"{source.test:.0%} are drawn"
    return [f"{source.title} has no splits: {share}."]


def answered_table(
    model: OutsideModel, splits: Sequence[BiasedDataset], attributes: Sequence[str]
) -> AnswerTable:
    """The answers of a model to one split or several, by the names of classes and values.

    Args:
        model: The model.
        splits: The data as ``prepared`` makes it; all splits have the same classes and attributes.
        attributes: The attributes of the table.
    """
    columns: dict[str, list[Any]] = {}
    for data in splits:
        found = predict(model, data)
        parts: dict[str, list[Any]] = {
            "id": [f"{data.split} {row}" for row in data.index.tolist()],
            "split": [data.split] * len(data),
            **labels_by_name(data, attributes),
        }
        for name, column in zip(data.classes, found.probabilities.double().T, strict=True):
            parts[PROBABILITY + name] = column.tolist()
        for name, cells in parts.items():
            columns.setdefault(name, []).extend(cells)
    return AnswerTable(model.name, columns, len(columns["id"]), model=model.name)


def labels_by_name(data: BiasedDataset, attributes: Sequence[str]) -> dict[str, list[Any]]:
    """Classes, some attributes and clusters of samples; None for a value that is not known."""
    found = {"target": _named(data.targets, data.classes)}
    for name in attributes:
        if name in COLUMNS:
            raise CrossbiasError(
                f"the attribute {name!r} of {data.name} has the name of another column; rename it"
            )
        found[column_of(name)] = _named(data.attributes[name], data.values[name])
    return found | ({} if data.cluster is None else {"cluster": data.cluster.tolist()})


def column_of(attribute: str) -> str:
    """The column of an attribute: commas, as in ``age:30,40``, separate columns elsewhere.

    >>> column_of("age:30,40")
    'age:30/40'
    """
    return attribute.replace(",", "/")


def about(
    model: OutsideModel, data: BiasedDataset, normalize: Normalize | None, *, named: bool
) -> str:
    """How a model was taken, for people: classes, pixels and outputs.

    Args:
        model: The model, after it answered.
        data: The data as the model saw it.
        normalize: The choice of the user, if any.
        named: Whether the model or the user names the classes.
    """
    classes = ", ".join(first_few(data.classes, _MOST))
    order = (
        f"its outputs are {classes}"
        if named
        else f"it names no classes, so its outputs are taken in the order of the data's: {classes}"
        f" (--classes gives another)"
    )
    shape = " x ".join(map(str, data.seen_shape))
    pixels = _pixels(data, normalize)
    return f"{model.name}: {order}; it takes {shape}{pixels}; it gives {model.answered}."


def _pixels(data: BiasedDataset, normalize: Normalize | None) -> str:
    if data.inputs.ndim == 2:
        return ""
    if (data.mean, data.std) == _AS_THEY_ARE:
        return ", pixels from 0 to 1"
    chosen = f" ({normalize})" if isinstance(normalize, str) else ""
    return f", mean {setting(list(data.mean))} and deviation {setting(list(data.std))}{chosen}"


def check_same_classes(models: Sequence[OutsideModel]) -> None:
    """Refuse models that name other classes than the first."""
    first, *others = models
    for other in others:
        if None in (first.classes, other.classes):
            continue
        if set(first.classes or ()) != set(other.classes or ()):
            raise CrossbiasError(
                f"{first.name} has the classes {', '.join(first.classes or ())}, but {other.name} "
                f"has {', '.join(other.classes or ())}; compare models of the same classes"
            )


def _named(column: Tensor, names: Sequence[str]) -> list[Any]:
    known = dict(enumerate(names)) | {UNKNOWN: None}
    return [known[number] for number in column.tolist()]
