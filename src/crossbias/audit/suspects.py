"""Samples that contradict an easy rule: the confident mistakes of a biased network."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.types import UNKNOWN
from crossbias.verify import Estimate, wilson

_LISTED: Final = 100


class Candidate(NamedTuple):
    """A sample that the biased network takes for another class."""

    index: int  # type: ignore[assignment]  # row in the full split; hides tuple.index
    target: str
    answer: str
    confidence: float
    loss: float


class Conflict(NamedTuple):
    """How many candidates conflict with a known attribute, and how many of all samples do."""

    attribute: str
    precision: Estimate
    base: float


@dataclass(frozen=True, kw_only=True)
class Suspects:
    """What the biased network says of its own training data.

    Args:
        accuracy: Of the network on the data it was trained on.
        threshold: Cross-entropy that splits the samples into easy and hard.
        count: Mistakes above the threshold.
        candidates: The clearest of them, most confident first.
        rows: Positions of the candidates in the audited data.
        conflicting: For each attribute with known values.
    """

    accuracy: float
    threshold: float
    count: int
    candidates: tuple[Candidate, ...]
    rows: tuple[int, ...]
    conflicting: tuple[Conflict, ...]

    def to_json(self) -> dict[str, Any]:
        """The suspects as ``audit.json`` has them."""
        return {
            "accuracy": self.accuracy,
            "threshold": self.threshold,
            "count": self.count,
            "candidates": [candidate._asdict() for candidate in self.candidates],
            "conflicting": [
                {"attribute": c.attribute, "precision": c.precision.to_json(), "base": c.base}
                for c in self.conflicting
            ],
        }


def suspects_of(probabilities: Tensor, data: BiasedDataset) -> Suspects:
    """The suspects, from the biased network's answers (n, classes)."""
    loss = -probabilities.clamp(min=1e-12).log().gather(1, data.targets[:, None]).squeeze(1)
    confidence, answers = probabilities.max(1)
    threshold = split(loss)
    wrong = (answers != data.targets) & (loss > threshold)
    rows = wrong.nonzero().squeeze(1)
    rows = rows[confidence[rows].argsort(descending=True, stable=True)]
    listed = rows[:_LISTED]
    return Suspects(
        accuracy=float((answers == data.targets).float().mean()),
        threshold=threshold,
        count=len(rows),
        candidates=tuple(
            Candidate(
                int(data.index[row]),
                data.classes[int(data.targets[row])],
                data.classes[int(answers[row])],
                float(confidence[row]),
                float(loss[row]),
            )
            for row in listed.tolist()
        ),
        rows=tuple(listed.tolist()),
        conflicting=tuple(_conflicts(data, rows)),
    )


def split(loss: Tensor) -> float:
    """The threshold that splits numbers into the two most even groups (Otsu 1979).

    >>> split(torch.tensor([0.1, 0.2, 0.1, 5.0, 6.0]))
    0.20000000298023224
    """
    values = loss.double().sort().values
    n = len(values)
    below = torch.arange(1, n, dtype=torch.float64)
    sums = values.cumsum(0)
    gap = sums[:-1] / below - (sums[-1] - sums[:-1]) / (n - below)
    between = below * (n - below) * gap.square()
    return float(values[int(between.argmax())]) if n > 1 else float(values[0])


def _conflicts(data: BiasedDataset, rows: Tensor) -> Sequence[Conflict]:
    found = []
    for name, column in data.attributes.items():
        known = column != UNKNOWN
        if not known.any():
            continue
        aligned = data.with_bias(name).alignment()[data.targets, column]
        conflicting = known & ~aligned
        precision = wilson(int(conflicting[rows].sum()), int(known[rows].sum()))
        found.append(Conflict(name, precision, float(conflicting[known].double().mean())))
    return found
