"""Checking a data set: files that cannot be read, copies across splits, labels, counts."""

import hashlib
import io
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch

from crossbias.data.dataset import BiasedDataset
from crossbias.data.encoded import UnusableImages
from crossbias.data.images import decode
from crossbias.data.listing import ImageSource, Listing
from crossbias.data.source import Source, data_root
from crossbias.errors import CrossbiasError
from crossbias.train.progress import Progress
from crossbias.types import UNKNOWN

_LISTED = 10  # things named of each kind
_REPORT = 256  # files between two looks at the progress


@dataclass
class Check:
    """What was found.

    Attributes:
        sizes: Samples of each split.
        errors: What must be repaired: unusable files, counts that are not the published ones.
        warnings: What a person should know: copies, missing labels, values that occur once.
        compared: Published counts that were looked at.
    """

    sizes: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    compared: int = 0


def check_source(
    source: Source,
    *,
    root: Path | str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Check:
    """Look at every sample of every split.

    Image files are decoded anew, whether they are in the cache or not, and compared by the hash
    of their bytes; samples of other data sets by the hash of their inputs.
    """
    check, hashes = Check(), {}
    progress = progress or Progress()
    for split in source.available_splits:
        if isinstance(source, ImageSource):
            listing = source.listed(split, root=data_root(root), seed=seed)
            hashes[split] = _check_files(source, split, listing, check, progress)
            labels = source.assembled(split, listing, torch.zeros(len(listing.files), 1), "")
        else:
            try:
                labels = source.load(split, root=root, seed=seed)
            except UnusableImages as error:
                check.errors.append(f"{split}: {error}")
                continue
            hashes[split] = _hashes_of(labels)
        check.sizes[split] = len(labels)
        _check_labels(labels, check)
        _check_counts(labels, source.published(split), check)
    check.warnings += _copies(hashes)
    return check


def _check_files(
    source: ImageSource, split: str, listing: Listing, check: Check, progress: Progress
) -> dict[str, str]:
    """Decode every file of a split; the hash of each that can be read, by its name."""
    hashes: dict[str, str] = {}
    broken = []
    files = [frame for file in listing.files for frame in source.frames(file)]
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda file: _looked_at(source, file), files)
        for number, (file, (digest, problem)) in enumerate(zip(files, found, strict=True)):
            if problem:
                broken.append(f"{file} {problem}")
            else:
                hashes[str(file)] = digest
            if number % _REPORT == 0:
                progress.note(f"{split}: {number:,} of {len(files):,} files")
    check.errors += [f"{split}: {text}" for text in _some(broken)]
    return hashes


def _looked_at(source: ImageSource, file: Path) -> tuple[str, str]:
    """The hash of a file and what is wrong with it, one of which is empty."""
    try:
        content = file.read_bytes()
        decode(io.BytesIO(content), source.fit)
    except OSError as error:
        return "", f"cannot be read ({error.strerror or error})"
    except CrossbiasError as error:
        return "", str(error)
    return hashlib.sha256(content).hexdigest(), ""


def _hashes_of(data: BiasedDataset) -> dict[str, str]:
    return {
        f"{data.split} row {row}": hashlib.sha256(sample.contiguous().numpy().tobytes()).hexdigest()
        for row, sample in enumerate(data.inputs)
    }


def _check_labels(data: BiasedDataset, check: Check) -> None:
    for name, column in data.attributes.items():
        counts = Counter(column.tolist())
        missing = counts.pop(UNKNOWN, 0)
        if missing:
            check.warnings.append(f"{data.split}: {name} is not known of {missing:,} samples")
        once = [data.values[name][value] for value in sorted(counts) if counts[value] == 1]
        if once:
            check.warnings.append(
                f"{data.split}: {len(once)} values of {name} occur once: {', '.join(_some(once))}"
            )


def _check_counts(data: BiasedDataset, published: Mapping[str, int], check: Check) -> None:
    found = {"images": len(data)}
    found |= Counter(data.classes[target] for target in data.targets.tolist())
    if data.bias is not None:
        counts, aligned = data.counts(), data.alignment()
        found |= {"aligned": int(counts[aligned].sum()), "conflicting": int(counts[~aligned].sum())}
        for target, name in enumerate(data.classes):
            for value, bias in enumerate(data.values[data.bias]):
                found[f"{name} / {bias}"] = int(counts[target, value])
    for what, expected in published.items():
        check.compared += 1
        if found.get(what, 0) != expected:
            check.errors.append(
                f"{data.split}: {found.get(what, 0):,} of {what}, but {expected:,} were published"
            )


def _copies(hashes: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Samples of one split that are in another one too, byte for byte.

    Test splits may overlap each other on purpose; training and validation must not overlap
    anything.
    """
    warnings = []
    for split in ("train", "validation"):
        known = {digest: name for name, digest in hashes.get(split, {}).items()}
        for other, entries in hashes.items():
            if other in ("train", split):
                continue
            same = [(known[digest], name) for name, digest in entries.items() if digest in known]
            if same:
                examples = _some([f"{one} = {two}" for one, two in same])
                warnings.append(
                    f"{len(same):,} samples of {other} are in {split} too: {'; '.join(examples)}"
                )
    return warnings


def _some(texts: Iterable[str]) -> list[str]:
    texts = list(texts)
    more = len(texts) - _LISTED
    return [*texts[:_LISTED], f"and {more:,} more"] if more > 0 else texts
