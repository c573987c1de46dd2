"""Checking image files one by one, and finding the same content in two splits."""

import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from crossbias.data.encoded import unreadable
from crossbias.data.images import Fit, decode
from crossbias.errors import CrossbiasError
from crossbias.train.progress import Progress

LISTED: Final = 10
"""Things named of each kind."""

_REPORT = 256  # files between two looks at the progress


def decode_all(
    files: Sequence[tuple[str, Path]], fit: Fit, *, split: str, progress: Progress
) -> tuple[dict[str, str], list[str]]:
    """Decode every file anew, whether it is in the cache or not.

    Args:
        files: What to call each in messages, and where it is.
        fit: How they would become pixels.
        split: Theirs, for the progress.
        progress: Hears how far it is.

    Returns:
        The hash of each that can be read, by its name, and what is wrong with the others.
    """
    hashes: dict[str, str] = {}
    broken = []
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda entry: _decoded(entry[1], fit), files)
        for number, ((name, _), (digest, problem)) in enumerate(zip(files, found, strict=True)):
            if problem:
                broken.append(f"{name} {problem}")
            else:
                hashes[name] = digest
            if number % _REPORT == 0:
                progress.note(f"{split}: {number:,} of {len(files):,} files")
    return hashes, broken


def _decoded(file: Path, fit: Fit) -> tuple[str, str]:
    """The hash of a file and what is wrong with it, one of which is empty."""
    try:
        content = file.read_bytes()
        decode(io.BytesIO(content), fit)
    except OSError as error:
        return "", unreadable(error)
    except CrossbiasError as error:
        return "", str(error)
    return hashlib.sha256(content).hexdigest(), ""


def copies(hashes: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Samples of one split that are in another one too, byte for byte.

    Test splits may overlap each other on purpose; training and validation must not overlap
    anything.

    Args:
        hashes: For each split, the hash of each sample by its name.
    """
    warnings = []
    for split in ("train", "validation"):
        known = {digest: name for name, digest in hashes.get(split, {}).items()}
        for other, entries in hashes.items():
            if other in ("train", split):
                continue
            same = [(known[digest], name) for name, digest in entries.items() if digest in known]
            if same:
                examples = some([f"{one} = {two}" for one, two in same])
                warnings.append(
                    f"{len(same):,} samples of {other} are in {split} too: {'; '.join(examples)}"
                )
    return warnings


def some(texts: Iterable[str]) -> list[str]:
    """The first texts, and how many more there are."""
    texts = list(texts)
    more = len(texts) - LISTED
    return [*texts[:LISTED], f"and {more:,} more"] if more > 0 else texts
