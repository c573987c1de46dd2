"""Pictures of test samples with the answer of each run, and of training samples with IE's maps."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from crossbias.report.overlay import overlay, png
from crossbias.runs.read import FinishedRun
from crossbias.types import UNKNOWN

SHOWN = 6  # at most this many pictures of each kind are shown


class Answer(NamedTuple):
    """The answer to a picture, and where evidence for the true class was found.

    The answer of several runs is the one that most of them give.
    """

    name: str
    right: bool
    probability: float  # mean over the runs that give the answer
    map: str  # a data: address of the first run's map, empty where no run has one of the picture
    votes: int = 1  # runs that give this answer
    runs: int = 1


class SamplePicture(NamedTuple):
    """One picture, what it is, and each row's answer, None where the row has none."""

    source: str  # a data: address
    target: str
    bias: str  # empty where not known
    answers: list[Answer | None]


Rows = Sequence[Sequence[FinishedRun]]  # the runs of each row of the comparison


def sample_pictures(rows: Rows) -> dict[str, list[SamplePicture]]:
    """Pictures of the test split by kind, see ``_kind``, with the answer of each row.

    The first run that stored pictures provides them.
    """
    runs = [run for row in rows for run in row]
    provider = next((run for run in runs if _stored(run)), runs[0])
    names = ("aligned", "conflicting", "unknown", "any")
    kinds: dict[str, list[tuple[Tensor, int]]] = {name: [] for name in names}
    for picture, row in _stored(provider):
        kinds[_kind(provider, row)].append((picture, row))
    return {
        kind: [_picture(rows, provider, *found) for found in _varied(provider, stored)]
        for kind, stored in kinds.items()
        if stored
    }


def without_maps(runs: Sequence[FinishedRun]) -> bool:
    """Whether none of the runs kept a map of any picture."""
    views = [run.views.get(run.split) for run in runs]
    return all(view is None or view.maps is None for view in views)


def _stored(run: FinishedRun) -> list[tuple[Tensor, int]]:
    """The run's pictures of the test split, each with its row."""
    if run.judged.pictures is None or run.judged.picture_rows is None:
        return []
    return list(zip(run.judged.pictures, run.judged.picture_rows.tolist(), strict=True))


def _target(run: FinishedRun, row: int) -> int:
    return int(run.judged.target[row])


def _bias(run: FinishedRun, row: int) -> int:
    column = run.judged.attributes.get(run.bias or "")
    return UNKNOWN if run.bias is None or column is None else int(column[row])


def _kind(run: FinishedRun, row: int) -> str:
    """Aligned or conflicting; "unknown" without a bias label, "any" where no group is aligned."""
    bias = _bias(run, row)
    if bias == UNKNOWN:
        return "unknown"
    if not run.test.associated:
        return "any"
    names = run.test.aligned_groups[_target(run, row)]
    return "aligned" if run.test.biases[bias] in names else "conflicting"


def _varied(run: FinishedRun, stored: Sequence[tuple[Tensor, int]]) -> list[tuple[Tensor, int]]:
    """A few of the pictures, each of the class and then the bias value shown least so far."""
    chosen: list[tuple[Tensor, int]] = []
    left, classes, biases = list(stored), Counter[int](), Counter[int]()
    while left and len(chosen) < SHOWN:
        shown = [(classes[_target(run, row)], biases[_bias(run, row)]) for _, row in left]
        chosen.append(left.pop(shown.index(min(shown))))
        classes[_target(run, chosen[-1][1])] += 1
        biases[_bias(run, chosen[-1][1])] += 1
    return chosen


def _picture(rows: Rows, provider: FinishedRun, picture: Tensor, row: int) -> SamplePicture:
    bias, index = _bias(provider, row), int(provider.judged.index[row])
    return SamplePicture(
        source=png(picture),
        target=provider.test.classes[_target(provider, row)],
        bias="" if bias == UNKNOWN else provider.test.biases[bias],
        answers=[_joint_answer([_answer(run, index, picture) for run in runs]) for runs in rows],
    )


def _joint_answer(answers: Sequence[Answer | None]) -> Answer | None:
    """The answer that most runs give; the earlier one of two that are as frequent."""
    given = [answer for answer in answers if answer is not None]
    if not given:
        return None
    (name, votes), *_ = Counter(answer.name for answer in given).most_common()
    agreeing = [answer for answer in given if answer.name == name]
    return agreeing[0]._replace(
        probability=sum(answer.probability for answer in agreeing) / votes,
        map=next((answer.map for answer in given if answer.map), ""),
        votes=votes,
        runs=len(given),
    )


def _answer(run: FinishedRun, index: int, picture: Tensor) -> Answer | None:
    """What a run took the sample of this index for; runs may store samples in any order."""
    rows = (run.judged.index == index).nonzero()
    if not len(rows):
        return None
    row = int(rows[0])
    probability, answer = run.judged.probabilities[row].max(0)
    right = int(answer) == _target(run, row)
    name = run.test.classes[int(answer)]
    return Answer(name, right, float(probability), _map(run, row, picture))


def _map(run: FinishedRun, row: int, picture: Tensor) -> str:
    """The picture under the run's map of it; a run has maps of the pictures it stored."""
    views, found = run.views.get(run.split), run.judged
    if views is None or views.maps is None or found.picture_rows is None:
        return ""
    places = (found.picture_rows == row).nonzero()
    return overlay(picture, views.maps[int(places[0])]) if len(places) else ""


class MapRow(NamedTuple):
    """One kind of map of every picture."""

    title: str
    sources: list[str]  # data: addresses


def guidance_rows(run: FinishedRun) -> list[MapRow]:
    """Pictures, and both maps laid over them; empty where the run kept none or they do not fit.

    The figure ``guidance`` reads two stages: pictures of samples, ``(k, C, H, W)`` uint8, and
    their maps E(z) and IE(z), ``(k, 2, h, w)``. IE(z) is at least 1
    everywhere; what is drawn is how far it lies above.
    """
    stages = run.stages_of("guidance", 2)
    if stages is None:
        return []
    pictures, maps = stages
    if pictures.ndim != 4 or maps.ndim != 4 or maps.shape[:2] != (len(pictures), 2):
        return []
    pictures, shown = pictures[:SHOWN], maps[:SHOWN].float()
    kinds = {"E(z)": shown[:, 0], "IE(z)": shown[:, 1] - 1}
    return [MapRow("picture", [png(picture) for picture in pictures])] + [
        MapRow(title, [overlay(*each) for each in zip(pictures, found, strict=True)])
        for title, found in kinds.items()
    ]
