"""verify_table: the answers of any model in, everything that can be said about groups out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from crossbias.answers.alignments import known_alignments
from crossbias.answers.columns_of_answers import encoded_texts
from crossbias.answers.intersections import Attribute
from crossbias.answers.model_findings import ModelFindings, answers_of, judge_model
from crossbias.answers.pairing import Gain, gains_over_first
from crossbias.answers.reading import AnswerTable, Table, answer_table
from crossbias.answers.samples import NamedColumns, Samples, samples_of
from crossbias.errors import CrossbiasError
from crossbias.formatting import as_json, count
from crossbias.parameters import unknown
from crossbias.verify import Positive
from crossbias.verify.detection import place_of
from crossbias.verify.thresholds import Labeled

TRAINING: Final = "train"  # the split whose rows say which groups are aligned


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Verification:
    """What is known about one model or several on the same samples.

    Args:
        models: The findings about each model, by its name.
        gains: How much better each model is than the first, on the same samples.
        source: The tables, in words.
        split: The split that was judged; None where all rows were.
        named: The attributes that were named; the others are their intersections.
        notes: What to know before reading the numbers.
    """

    models: Mapping[str, ModelFindings]
    gains: tuple[Gain, ...]
    source: str
    split: str | None
    named: tuple[Attribute, ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<{count(self.samples)} samples of {self.source}: {', '.join(self.models)}>"

    @property
    def first(self) -> ModelFindings:
        """The first model, with which the others are compared."""
        return next(iter(self.models.values()))

    @property
    def samples(self) -> int:
        """How many samples were judged."""
        return self.first.metrics.overall.n

    def to_json(self) -> dict[str, Any]:
        """Everything as a JSON object."""
        return {
            "source": self.source,
            "split": self.split,
            "samples": self.samples,
            "notes": list(self.notes),
            "models": [model.to_json() for model in self.models.values()],
            "gains": as_json(self.gains),
        }

    def _repr_html_(self) -> str:
        """The page in a frame of its own, for a notebook."""
        from crossbias.answers.answers_page import render_page
        from crossbias.report.writing import in_frame

        return in_frame(render_page(self, gates=()))


def verify_table(
    tables: Table | Sequence[Table],
    *,
    target: str,
    prediction: str | Sequence[str],
    bias: str | Sequence[str] = (),
    intersections: int = 1,
    classes: Sequence[str] | None = None,
    aligned: Mapping[str, Any] | None = None,
    training: Table | None = None,
    id: str | None = None,
    cluster: str | None = None,
    weight: str | None = None,
    split_column: str | None = None,
    split: str = "test",
    validation: str = "validation",
    positive: str | None = None,
    prevalence: float | None = None,
    threshold: float | str | None = None,
) -> Verification:
    """Judge the answers of any model, from a file or a data frame, by group and intersection.

    Args:
        tables: A CSV, TSV or Parquet file, a data frame or a mapping of columns. Several are
            matched by ``id``; attributes, clusters, weights and splits are those of the first.
        target: Column of the true classes.
        prediction: Column of the answers: classes, or probabilities of the positive class. One
            column for each class is written ``"p_a,p_b,p_c"`` in the order of the classes, or
            ``"p_*"``, where the star stands for the name of each class. Several models are a list.
        bias: Column of an attribute, or a list; ``"hospital,sex"`` judges both together, and
            ``"age:30,40"`` bins a column of numbers.
        intersections: How many of these columns are also judged together: 2 tries all pairs.
        classes: Names of all classes in the order of the columns of probabilities; those of
            ``target`` in sorted order if left out.
        aligned: For each class, the value or values of the first attribute that go along with it
            in the training data.
        training: A table of the training samples with the same columns of target and attributes,
            which shows what goes along with what. The rows of a split ``train`` do so too. Without
            any of these, accuracies on aligned and conflicting samples are None.
        id: Column of identifiers.
        cluster: Column of what samples belong together by, such as the patient.
        weight: Column of how much each sample counts.
        split_column: Column of the splits; all rows are judged if left out.
        split: The split to judge.
        validation: The split on which a rule chooses the threshold.
        positive: The class to be found.
        prevalence: Share of the positive class where the model will be used.
        threshold: Probability from which a sample is called positive, or a rule such as
            ``sensitivity>=.9``, which chooses it on ``validation``.

    Raises:
        CrossbiasError: A column is missing or holds what it should not, or the tables do not fit
            together.

    >>> found = verify_table(
    ...     {"y": ["ill", "ill", "well", "well"], "p": ["ill", "well", "well", "well"],
    ...      "sex": ["f", "m", "f", "m"]}, target="y", prediction="p", bias="sex")
    >>> [(each.value, each.numbers["accuracy"].value)
    ...  for each in found.first.attributes[("sex",)].values]
    [('f', 1.0), ('m', 0.5)]
    """
    named = NamedColumns(
        target=target, prediction=_several(prediction), bias=_several(bias), id=id,
        cluster=cluster, weight=weight, split=split_column,
    )  # fmt: skip
    read = [answer_table(table) for table in _tables(tables)]
    everything = samples_of(
        read, named, intersections=intersections, classes=classes, positive=positive
    )
    splits = _Splits.of(read[0], split_column, judged=split, validation=validation)
    samples = everything.at(splits.judged).by_cluster()
    alignments = known_alignments(
        everything, aligned=aligned, train=splits.train,
        training=None if training is None else answer_table(training), target=target,
    )  # fmt: skip
    wanted = {
        name: Positive.wanted(
            positive, samples.classes, prevalence=prevalence, threshold=threshold,
            validation=splits.labeled(everything, name),
        )
        for name in samples.models
    }  # fmt: skip
    models = {
        name: judge_model(name, samples, positive=each, alignments=alignments)
        for name, each in wanted.items()
    }
    gains = gains_over_first(
        {name: answers_of(name, samples, each) for name, each in wanted.items()},
        samples,
        place=None if positive is None else place_of(positive, samples.classes),
    )
    return Verification(
        models=models,
        gains=gains,
        source=", ".join(table.name for table in read),
        split=None if split_column is None else split,
        named=tuple(named.attribute_names(read[0])),
        notes=tuple(_notes(read[0], named, samples, alignments)),
    )


class _Splits(NamedTuple):
    """The rows of a table by what they are for, each (n,) bool."""

    judged: Tensor
    train: Tensor | None
    validation: Tensor | None
    name: str  # of the validation split

    @classmethod
    def of(
        cls, table: AnswerTable, column: str | None, *, judged: str, validation: str
    ) -> "_Splits":
        if column is None:
            return cls(torch.ones(table.rows, dtype=torch.bool), None, None, validation)
        if judged == validation:
            raise CrossbiasError(
                f"the split {judged!r} cannot be judged and choose the threshold at once; name "
                f"another one: --validation"
            )
        found = encoded_texts(table.cells(column))
        rows = {name: found.numbers == place for place, name in enumerate(found.values)}
        if judged not in rows:
            raise unknown(f"{column} of {table.name} has no split", judged, rows, "its splits are")
        return cls(rows[judged], rows.get(TRAINING), rows.get(validation), validation)

    def labeled(self, samples: Samples, model: str) -> Labeled | None:
        """The samples on which a rule chooses a threshold for a model."""
        probabilities = samples.models[model].probabilities
        if self.validation is None or probabilities is None:
            return None
        return Labeled(self.name, probabilities[self.validation], samples.target[self.validation])


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _tables(tables: Table | Sequence[Table]) -> list[Table]:
    found = list(tables) if isinstance(tables, list | tuple) else [tables]
    if not found:
        raise CrossbiasError("there is no table to verify; name a file of predictions")
    return found


def _notes(
    table: AnswerTable,
    named: NamedColumns,
    samples: Samples,
    alignments: Mapping[Attribute, Tensor],
) -> list[str]:
    """What to know before reading the numbers."""
    notes = []
    if named.split is None and "split" in table.columns:
        notes.append(
            f"{table.name} has a column 'split', but no split was chosen, so all rows are judged; "
            f"--split-column split judges the test rows only."
        )
    if samples.attributes and not alignments:
        notes.append(
            "It is not known which values went along with which class in training, so samples are "
            "not told apart as aligned and conflicting."
        )
    return notes
