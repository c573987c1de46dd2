"""The health of a training: what went wrong in it, as sentences, each with what to change."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crossbias.errors import CrossbiasError
from crossbias.runs.files import checksum, read_json, write_json


class Symptom(NamedTuple):
    """Something that keeps a method from working, measured while it trained.

    >>> str(Symptom("few samples", "There are 3 samples.", "Collect more."))
    'There are 3 samples. Collect more.'
    """

    name: str  # a few words, the same in every run that has it
    sentence: str  # what was measured, and what it means
    remedy: str  # what to change

    def __str__(self) -> str:
        return f"{self.sentence} {self.remedy}"


def save_health(path: Path, symptoms: Iterable[Symptom], mark: str = "") -> None:
    """Write the symptoms of a run, which ``mark`` names, whole or not at all."""
    entries = [symptom._asdict() | {"run": mark} for symptom in symptoms]
    write_json(path, [entry | {"crc32": checksum(entry)} for entry in entries])


def load_health(path: Path, mark: str | None = None) -> list[Symptom]:
    """The symptoms of a run; none where the file does not exist, because none was found.

    Raises:
        CrossbiasError: The file is damaged, or that of another run than ``mark`` names.
    """
    return symptoms_of(read_json(path), path, mark) if path.exists() else []


def symptoms_of(entries: Any, path: Path, mark: str | None = None) -> list[Symptom]:
    """The symptoms behind the entries of a file, as for ``load_health``."""
    try:
        return [_symptom(mark, **entry) for entry in entries]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CrossbiasError(
            f"{path} is damaged or of another run, it must list a name, a sentence and a remedy "
            f"for each symptom, as this run wrote them; restore it, or train the run again"
        ) from error


def _symptom(mark: str | None, crc32: int, **entry: str) -> Symptom:
    """The symptom of an entry; ValueError if it is not as this run wrote it."""
    if crc32 != checksum(entry):
        raise ValueError("the checksum is another")
    written_by = entry.pop("run")
    if mark is not None and written_by != mark:
        raise ValueError("the run is another")
    return Symptom(**{key: str(value) for key, value in entry.items()})


def in_words(runs: Sequence[Sequence[Symptom]]) -> list[str]:
    """The symptoms of runs that differ only in the seed, each once, with how many runs have it.

    >>> symptom = Symptom("few samples", "There are 3 samples.", "Collect more.")
    >>> in_words([[symptom], []])
    ['There are 3 samples. Collect more. (1 of 2 seeds)']
    """
    found: dict[str, list[Symptom]] = {}
    for symptoms in runs:
        for symptom in symptoms:
            found.setdefault(symptom.name, []).append(symptom)
    if len(runs) == 1:
        return [str(same[0]) for same in found.values()]
    return [f"{same[0]} ({len(same)} of {len(runs)} seeds)" for same in found.values()]
