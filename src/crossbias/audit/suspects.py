"""Suspects, samples that contradict an easy rule: the confident mistakes of a biased network."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.data.memory_maps import in_parts
from crossbias.formatting import as_json
from crossbias.methods.erm import BiasedERM
from crossbias.networks import Recipe
from crossbias.seeds import seed_for
from crossbias.train.config import TrainConfig
from crossbias.train.environment import same_threads
from crossbias.train.evaluation import predict
from crossbias.train.fit import fit
from crossbias.types import UNKNOWN
from crossbias.verify import NO_SAMPLES, Estimate
from crossbias.verify.clusters import share_of

SIDE: Final = 32
"""Larger images are shrunk to this side, which a shortcut that is easy to learn survives."""

STEPS: Final = 150  # number of updates: enough to learn what is easy, too few to learn exceptions

_BATCH: Final = 64
_LISTED: Final = 100  # candidates


class Candidate(NamedTuple):
    """A sample that the biased network takes for another class."""

    index: int  # type: ignore[assignment]  # row in the full split; hides tuple.index
    target: str
    answer: str
    confidence: float
    loss: float
    file: str | None = None  # of its image, if there are files


class Conflict(NamedTuple):
    """The share of the candidates, and of all samples, that conflict with an attribute."""

    attribute: str
    precision: Estimate
    base: float


@dataclass(frozen=True, kw_only=True)
class Suspects:
    """What a biased network says about its own training data."""

    accuracy: float  # of the network on its training data
    threshold: float  # cross-entropy that splits the samples into easy and hard
    count: int  # mistakes above the threshold
    candidates: tuple[Candidate, ...]  # the clearest of them, most confident first
    rows: tuple[int, ...]  # positions of the candidates in the audited data
    conflicting: tuple[Conflict, ...]  # with each attribute, where its values are known

    def to_json(self) -> dict[str, Any]:
        """The suspects as ``audit.json`` has them, without their positions."""
        found: dict[str, Any] = as_json(vars(self))
        del found["rows"]
        return found


def find_suspects(
    data: BiasedDataset,
    *,
    files: Sequence[Path] | None = None,
    seed: int,
    device: str = "auto",
) -> Suspects:
    """Train a small network briefly with generalized cross-entropy, and collect its mistakes.

    One thread trains it: it is so small that several would mostly wait for each other, above all
    on a machine that does something else too.
    """
    small = _shrunk(data)
    config = TrainConfig(
        steps=STEPS, batch_size=min(_BATCH, len(data)), lr=0.003, device=device,
        seed=seed_for(seed, "suspects") % 2**32, augment=(),
    )  # fmt: skip
    recipe = Recipe("small-convnet", {"dropout": 0.0})
    with same_threads({"threads": "1"}):
        network = fit(BiasedERM(), small, network=recipe, config=config, progress=False).network
    return suspects_of(predict(network, small).probabilities, data, files)


def suspects_of(
    probabilities: Tensor, data: BiasedDataset, files: Sequence[Path] | None = None
) -> Suspects:
    """The suspects, from the biased network's probabilities (n, classes)."""
    loss = -probabilities.clamp(min=1e-12).log().gather(1, data.targets[:, None]).squeeze(1)
    confidence, answers = probabilities.max(1)
    threshold = otsu_threshold(loss)
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
                None if files is None else str(files[row]),
            )
            for row in listed.tolist()
        ),
        rows=tuple(listed.tolist()),
        conflicting=tuple(_conflicts(data, rows)),
    )


def otsu_threshold(loss: Tensor) -> float:
    """The threshold that splits numbers into the two most even groups (Otsu 1979).

    >>> otsu_threshold(torch.tensor([0.1, 0.2, 0.1, 5.0, 6.0]))
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
        listed = rows[known[rows]]
        cluster = None if data.cluster is None else data.cluster[listed]
        precision = share_of(conflicting[listed], cluster) if len(listed) else NO_SAMPLES
        found.append(Conflict(name, precision, float(conflicting[known].double().mean())))
    return found


def _shrunk(data: BiasedDataset) -> BiasedDataset:
    """The data with smaller images, normalized by their own mean and deviation."""
    height, width = data.inputs.shape[2:]
    size = (min(height, SIDE), min(width, SIDE))
    parts = [
        F.adaptive_avg_pool2d(chunk.float(), size).round().to(torch.uint8)
        for chunk in in_parts(data.inputs, 256)
    ]
    images = torch.cat(parts)
    channels = images.transpose(0, 1).flatten(1).float() / 255
    deviation, mean = torch.std_mean(channels, 1)
    return BiasedDataset(
        inputs=images, targets=data.targets, name=data.name, split=data.split,
        classes=data.classes, mean=tuple(mean.tolist()),
        std=tuple(deviation.clamp(min=1e-3).tolist()),
    )  # fmt: skip
