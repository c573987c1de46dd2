"""The health of a training: what went wrong in it, as sentences, each with what to change."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

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


def save_health(path: Path, symptoms: Iterable[Symptom]) -> None:
    """Write the symptoms of a run, whole or not at all."""
    entries = [symptom._asdict() for symptom in symptoms]
    write_json(path, [entry | {"crc32": checksum(entry)} for entry in entries])


def load_health(path: Path) -> list[Symptom]:
    """The symptoms of a run; none where the file does not exist, because none was found."""
    if not path.exists():
        return []
    try:
        return [_symptom(**entry) for entry in read_json(path)]
    except (AttributeError, TypeError, ValueError) as error:
        raise CrossbiasError(
            f"{path} is damaged, it must list a name, a sentence and a remedy for each symptom, as "
            f"they were written; train the run again"
        ) from error


def _symptom(crc32: int, **entry: str) -> Symptom:
    """The symptom of an entry; ValueError if it is not as it was written."""
    if crc32 != checksum(entry):
        raise ValueError("the checksum is another")
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
