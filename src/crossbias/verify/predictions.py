"""Predictions: the answers of a model, kept so that every number can be computed again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from crossbias.parameters import unknown
from crossbias.types import UNKNOWN
from crossbias.verify.cells import Cells
from crossbias.verify.detection import Positive
from crossbias.verify.metrics import Metrics


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Predictions:
    """A model's answers to one split, on the CPU.

    Args:
        index: ``(n,)`` int64, each sample's row in the full split.
        target: ``(n,)`` int64 class numbers.
        probabilities: ``(n, classes)`` float32, the model's softmax.
        attributes: For each name, ``(n,)`` int64 value numbers, ``UNKNOWN`` where not known.
        cluster: ``(n,)`` int64, equal for samples that belong together; None where all samples are
            independent.
        pictures: ``(k, C, H, W)`` uint8, some of the inputs, to show to people.
        picture_rows: ``(k,)`` int64, the row of each picture in the tensors above.
    """

    index: Tensor
    target: Tensor
    probabilities: Tensor
    attributes: Mapping[str, Tensor] = field(default_factory=dict)
    cluster: Tensor | None = None
    pictures: Tensor | None = None
    picture_rows: Tensor | None = None

    def __repr__(self) -> str:
        samples, classes = self.probabilities.shape
        return f"<answers to {samples:,} samples of {classes} classes>"

    def __post_init__(self) -> None:
        rows = len(self.target)
        columns = {"index": self.index, "probabilities": self.probabilities, **self.attributes}
        columns |= {} if self.cluster is None else {"cluster": self.cluster}
        for name, column in columns.items():
            if len(column) != rows:
                raise ValueError(f"{name} has {len(column)} rows, but there are {rows} targets")
        pictures = 0 if self.pictures is None else len(self.pictures)
        shown = [] if self.picture_rows is None else self.picture_rows.tolist()
        if pictures != len(shown) or not set(shown) <= set(range(rows)):
            raise ValueError(f"{pictures} pictures of {rows} rows, but picture_rows is {shown}")

    @property
    def answers(self) -> Tensor:
        """The most probable class of each sample, (n,)."""
        return self.probabilities.argmax(1)

    def metrics(
        self,
        *,
        bias: str | None,
        alignment: Tensor | None,
        classes: Sequence[str],
        values: Sequence[str],
        positive: Positive | None = None,
    ) -> Metrics:
        """The metrics with respect to one attribute.

        Args:
            bias: The attribute; None for the metrics that need no bias.
            alignment: ``(classes, values)`` bool, true where a value goes along with a class in
                the training data, since the counts of an unbiased split do not show it; None
                where nobody knows.
            classes: Names of the classes.
            values: Names of the attribute's values; none where ``bias`` is None.
            positive: The class to be found; its threshold, if any, decides the answers.
        """
        given = positive and positive.answers(self.probabilities, classes)
        return Metrics.from_answers(
            *(self.target, self.attribute(bias), self.answers if given is None else given),
            probabilities=self.probabilities, alignment=alignment, classes=classes, values=values,
            cluster=self.cluster, positive=positive,
        )  # fmt: skip

    def cells(
        self,
        *,
        bias: str | None,
        alignment: Tensor | None,
        classes: Sequence[str],
        values: Sequence[str],
    ) -> Cells:
        """Samples and right answers of each (class, value) pair; arguments as for ``metrics``."""
        return Cells.from_answers(
            *(self.target, self.attribute(bias), self.answers),
            alignment=alignment, classes=classes, values=values,
        )  # fmt: skip

    def attribute(self, name: str | None) -> Tensor:
        """One attribute of every sample, (n,); ``UNKNOWN`` where not known, or for None."""
        if name is None:
            return torch.full_like(self.target, UNKNOWN)
        if name not in self.attributes:
            lacking = "the predictions have no attribute"
            raise unknown(lacking, name, self.attributes, "their attributes are")
        return self.attributes[name]
