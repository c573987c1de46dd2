"""write_evidence: what an auditor needs of a finished run, in one folder that can be checked."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from torch import Tensor

from crossbias.documents.model_card import card_of
from crossbias.formatting import csv_cell
from crossbias.report import report
from crossbias.runs.files import hash_of, whole_folder, write_atomically
from crossbias.runs.folder import RunFolder
from crossbias.runs.read import FinishedRun, read_run
from crossbias.types import UNKNOWN
from crossbias.verify import Predictions

MANIFEST: Final = "SHA256SUMS"  # as sha256sum writes it and checks it
_COPIED: Final = ("config", "metrics", "predictions", "log", "health", "labels")


def write_evidence(run: Path | str, folder: Path | str) -> Path:
    """Pack a finished run for an auditor, into a new folder.

    The folder holds the card, the report page, the run's configuration, metrics, predictions and
    log as the run wrote them, the predictions of every split as CSV, the hashes of all files of
    the run, and a manifest that ``sha256sum -c SHA256SUMS`` checks. The weights are not copied;
    their hash is in ``run-sha256.json``.

    Args:
        run: The run folder.
        folder: The folder to write, which does not exist or is empty.

    Raises:
        CrossbiasError: The run is not finished or any of its files was changed, or the folder
            cannot be written.
    """
    files, target = RunFolder(run), Path(folder)
    finished = read_run(files.path)
    files.check_all()
    card = card_of(finished).encode(errors="replace")
    with whole_folder(target) as new:
        write_atomically(new / "card.md", lambda file: file.write(card))
        report([files.path], new / "report.html")
        for name in _COPIED:
            source: Path = getattr(files, name)
            if source.exists():
                _copy(source, new / source.name)
        _copy(files.done, new / "run-sha256.json")
        for split, answers in finished.predictions.items():
            _write_table(new / f"predictions-{_file_name(split)}.csv", finished, answers)
        _write_manifest(new)
    return target


def _copy(source: Path, target: Path) -> None:
    content = source.read_bytes()
    write_atomically(target, lambda file: file.write(content))


def _write_table(path: Path, run: FinishedRun, answers: Predictions) -> None:
    """The answers of one split, one row for each sample, by the names of classes and values."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for line in _lines(run, answers):
        writer.writerow(map(csv_cell, line))
    content = text.getvalue().encode(errors="replace")
    write_atomically(path, lambda file: file.write(content))


def _lines(run: FinishedRun, answers: Predictions) -> Iterator[Sequence[object]]:
    data = run.config["data"]
    classes: list[str] = data["classes"]
    attributes = {
        name: _named(column, data["values"].get(name, []))
        for name, column in answers.attributes.items()
    }
    own = ["id", "target", "answer", *(f"p_{name}" for name in classes)]
    together = [] if answers.cluster is None else ["cluster"]
    taken = {*own, *together}
    heads = [f"attribute {name}" if name in taken else name for name in attributes]
    yield [*own, *heads, *together]
    columns: list[Sequence[object]] = [
        answers.index.tolist(),
        _named(answers.target, classes),
        _named(answers.answers, classes),
        *(
            [repr(value) for value in column.tolist()]
            for column in answers.probabilities.double().T
        ),
        *attributes.values(),
    ]
    if answers.cluster is not None:
        columns.append(answers.cluster.tolist())
    yield from zip(*columns, strict=True)


def _named(column: Tensor, names: Sequence[str]) -> list[str]:
    """The names of numbers; empty for an unknown one, the number where it has no name."""
    known = dict(enumerate(names)) | {UNKNOWN: ""}
    return [known.get(number, str(number)) for number in column.tolist()]


def _file_name(split: str) -> str:
    """The name of a split as part of a file's name.

    >>> _file_name("test-c/noise 3")
    'test-c_noise_3'
    """
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in split)


def _write_manifest(folder: Path) -> None:
    lines = [f"{hash_of(path)}  {path.name}\n" for path in sorted(folder.iterdir())]
    content = "".join(lines).encode()
    write_atomically(folder / MANIFEST, lambda file: file.write(content))
