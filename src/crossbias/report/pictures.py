"""Sample pictures, and what each run took them for."""

import base64
import io
import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.image import imsave
from torch import Tensor

from crossbias.report.runs import RunFolder
from crossbias.types import UNKNOWN

SHOWN = 6
"""Pictures shown of each kind."""

LONGEST_SIDE = 192
"""Larger pictures are thinned out to at most this many pixels a side."""


class Answer(NamedTuple):
    """What one run took a picture for."""

    name: str
    right: bool
    probability: float


class Picture(NamedTuple):
    """One picture, what it is, and each run's answer, None where the run has none."""

    source: str  # a data: address
    target: str
    bias: str  # empty where not known
    answers: list[Answer | None]


def sample_pictures(runs: Sequence[RunFolder]) -> dict[str, list[Picture]]:
    """Pictures of the test split by kind: aligned, conflicting, and those of unknown bias.

    The first run that stored pictures provides them.
    """
    provider = next((run for run in runs if _stored(run)), runs[0])
    kinds: dict[str, list[tuple[Tensor, int]]] = {"aligned": [], "conflicting": [], "unknown": []}
    for picture, row in _stored(provider):
        kinds[_kind(provider, row)].append((picture, row))
    return {
        kind: [_picture(runs, provider, *found) for found in _varied(provider, stored)]
        for kind, stored in kinds.items()
        if stored
    }


def _stored(run: RunFolder) -> list[tuple[Tensor, int]]:
    """The run's pictures of the test split, each with its row."""
    found = run.predictions.get(run.split)
    if found is None or found.pictures is None or found.picture_rows is None:
        return []
    return list(zip(found.pictures, found.picture_rows.tolist(), strict=True))


def _target(run: RunFolder, row: int) -> int:
    return int(run.predictions[run.split].target[row])


def _bias(run: RunFolder, row: int) -> int:
    column = run.predictions[run.split].attributes.get(run.bias or "")
    return UNKNOWN if run.bias is None or column is None else int(column[row])


def _kind(run: RunFolder, row: int) -> str:
    bias = _bias(run, row)
    if bias == UNKNOWN:
        return "unknown"
    return "aligned" if run.test.aligned_groups[_target(run, row)][bias] else "conflicting"


def _varied(run: RunFolder, stored: Sequence[tuple[Tensor, int]]) -> list[tuple[Tensor, int]]:
    """A few of the pictures, each of the class and then the bias value shown least so far."""
    chosen: list[tuple[Tensor, int]] = []
    left, classes, biases = list(stored), Counter[int](), Counter[int]()
    while left and len(chosen) < SHOWN:
        shown = [(classes[_target(run, row)], biases[_bias(run, row)]) for _, row in left]
        chosen.append(left.pop(shown.index(min(shown))))
        classes[_target(run, chosen[-1][1])] += 1
        biases[_bias(run, chosen[-1][1])] += 1
    return chosen


def _picture(runs: Sequence[RunFolder], provider: RunFolder, picture: Tensor, row: int) -> Picture:
    bias, index = _bias(provider, row), int(provider.predictions[provider.split].index[row])
    return Picture(
        source=_png(picture),
        target=provider.test.classes[_target(provider, row)],
        bias="" if bias == UNKNOWN else provider.test.biases[bias],
        answers=[_answer(run, index) for run in runs],
    )


def _answer(run: RunFolder, index: int) -> Answer | None:
    """What a run took the sample of this index for; runs may store samples in any order."""
    predictions = run.predictions.get(run.split)
    if predictions is None or not (predictions.index == index).any():
        return None
    row = int((predictions.index == index).int().argmax())
    probability, answer = predictions.probabilities[row].max(0)
    right = int(answer) == int(predictions.target[row])
    return Answer(run.test.classes[int(answer)], right, float(probability))


def _png(picture: Tensor) -> str:
    """A (C, H, W) uint8 picture as a data: address; other than RGB, its first channel in gray."""
    step = math.ceil(max(picture.shape[1:]) / LONGEST_SIDE)
    pixels = picture[:, ::step, ::step].numpy()
    colors = pixels if len(pixels) == 3 else np.repeat(pixels[:1], 3, axis=0)
    buffer = io.BytesIO()
    imsave(buffer, np.ascontiguousarray(colors.transpose(1, 2, 0)), format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
