"""Suspects, slices and groups as files for other programs: CSV, and JSON for FiftyOne."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from crossbias.audit.attributes import AttributeFinding
from crossbias.audit.slices import Slices
from crossbias.audit.suspects import Candidate
from crossbias.data.dataset import BiasedDataset
from crossbias.formatting import csv_cell

SUSPECTS_FILE: Final = "suspects.csv"
SLICES_FILE: Final = "slices.csv"
GROUPS_FILE: Final = "groups.csv"
FIFTYONE_FILE: Final = "fiftyone/labels.json"


class SliceMember(NamedTuple):
    """A sample of a slice."""

    slice: int  # from 1, in the order of the slices
    split: str
    index: int  # type: ignore[assignment]  # row in the full split; hides tuple.index
    target: str
    answer: str
    wrong: bool
    held_out: bool  # whether it is in the half that confirmed the slice
    file: str | None = None  # of its image, if there are files


def members_of(
    slices: Slices, answers: Sequence[int], data: BiasedDataset, files: Sequence[Path] | None
) -> Iterator[SliceMember]:
    """The samples of all slices, slice by slice."""
    for number, found in enumerate(slices.found, start=1):
        held_out = set(found.held_out)
        for row in found.rows:
            answer = data.classes[answers[row]]
            yield SliceMember(
                number, data.split, int(data.index[row]), found.target, answer,
                answer != found.target, row in held_out,
                None if files is None else str(files[row]),
            )  # fmt: skip


def suspects_csv(candidates: Iterable[Candidate]) -> str:
    """One line for each suspect."""
    return _csv(Candidate._fields, candidates)


def slices_csv(members: Iterable[SliceMember]) -> str:
    """One line for each sample of a slice."""
    return _csv(SliceMember._fields, members)


def groups_csv(attributes: Iterable[AttributeFinding]) -> str:
    """One line for each class and value of each attribute, with the number of samples."""
    lines = (
        (found.name, target, value, number)
        for found in attributes
        for target, row in zip(found.classes, found.counts, strict=True)
        for value, number in zip(found.values, row, strict=True)
    )
    return _csv(("attribute", "target", "value", "n"), lines)


def fiftyone_labels(
    candidates: Iterable[Candidate], members: Iterable[SliceMember]
) -> dict[str, Any] | None:
    """What FiftyOne's importer ``FiftyOneImageClassificationDataset`` reads; None without files.

    Images are named by their whole paths, so they stay where they are. The label is the class;
    what the audit found is in its attributes.
    """
    labels: dict[str, dict[str, Any]] = {}
    for each in candidates:
        if each.file is not None:
            found = _entry(labels, each.file, each.target)
            found |= {"suspect": True, "taken_for": each.answer, "confidence": each.confidence}
    for member in members:
        if member.file is not None:
            found = _entry(labels, member.file, member.target)
            found |= {"slice": member.slice, "answer": member.answer, "wrong": member.wrong}
    return {"labels": labels} if labels else None


def _entry(labels: dict[str, dict[str, Any]], file: str, target: str) -> dict[str, Any]:
    """The attributes of a sample, to which others may be added."""
    path = str(Path(file).resolve())
    entry = labels.setdefault(path, {"label": target, "attributes": {}})
    attributes: dict[str, Any] = entry["attributes"]
    return attributes


def _csv(header: Sequence[str], lines: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([csv_cell(cell) for cell in line] for line in lines)
    return text.getvalue()
