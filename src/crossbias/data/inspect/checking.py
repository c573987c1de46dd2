"""Checking a data set: unusable files, copies across splits, labels, published counts."""

import hashlib
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.data.images.decoding import Fit, decode
from crossbias.data.images.encoded_images import UnusableImages, unreadable
from crossbias.data.own.image_folder import Folder
from crossbias.data.own.labels import without_conflicts
from crossbias.data.own.table_source import TableSource
from crossbias.data.published.image_source import ImageSource, Listing
from crossbias.data.source import Source, data_root
from crossbias.errors import CrossbiasError
from crossbias.formatting import first_few
from crossbias.progress import Progress
from crossbias.types import UNKNOWN
from crossbias.verify.missing import missing_warning

_REPORT: Final = 256  # files between two reports of progress
_DARK: Final = 15  # of 255: the largest value of 12 bits that are read as 16


@dataclass
class DataCheck:
    """The result of a check."""

    sizes: dict[str, int] = field(default_factory=dict)  # samples of each split
    # Unusable files, and counts that differ from published ones, must be repaired.
    errors: list[str] = field(default_factory=list)
    # A person should know of copies, missing labels, values that occur once, dark images, an
    # assumed depth, and classes of the training split without a conflicting sample.
    warnings: list[str] = field(default_factory=list)
    compared: int = 0  # published counts


def check_source(
    source: Source,
    *,
    root: Path | str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> DataCheck:
    """Check every sample of every split.

    Image files are decoded again even if they are in the cache, and are compared by the hash of
    their bytes. Other samples are compared by the hash of their inputs.
    """
    check, hashes = DataCheck(), {}
    progress = progress or Progress()
    for split in source.available_splits:
        labels: BiasedDataset
        if isinstance(source, ImageSource):
            listing = source.listed(split, root=data_root(root), seed=seed)
            hashes[split] = _published_files(source, split, listing, check, progress)
            labels = source.assembled(split, listing, torch.zeros(len(listing.files), 1), "")
        elif isinstance(source, TableSource):
            rows = source.rows(split, seed=seed)
            hashes[split] = _own_images(source, split, rows, check, progress)
            labels = source.assembled(split, rows, torch.zeros(len(rows), 1), "")
        else:
            labels = source.load(split, root=root, seed=seed)
            hashes[split] = _hashes_of(split, labels.inputs)
        check.sizes[split] = len(labels)
        _check_labels(labels, check)
        _check_counts(labels, source.published(split), check)
    if isinstance(source, TableSource):
        check.warnings += source.notes
        _check_depth(source, check)
    check.warnings += _copies(hashes)
    return check


def labels_of(
    source: Source, split: str, *, root: Path | str | None = None, seed: int = 0
) -> BiasedDataset:
    """The targets and attributes of a split; files of images are not read."""
    if isinstance(source, ImageSource):
        listing = source.listed(split, root=data_root(root), seed=seed)
        return source.assembled(split, listing, torch.zeros(len(listing.files), 1), "")
    if isinstance(source, TableSource):
        rows = source.rows(split, seed=seed)
        return source.assembled(split, rows, torch.zeros(len(rows), 1), "")
    return source.load(split, root=root, seed=seed)


def _published_files(
    source: ImageSource, split: str, listing: Listing, check: DataCheck, progress: Progress
) -> dict[str, str]:
    files: list[tuple[str, Path]] = []
    for file in listing.files:
        try:
            files += [(str(frame), frame) for frame in source.frames(file)]
        except CrossbiasError as error:  # a clip without frames, or that is no video
            check.errors.append(f"{split}: {error}")
    return _decode_all(files, source.fit, split, check, progress)


def _own_images(
    source: TableSource, split: str, rows: list[int], check: DataCheck, progress: Progress
) -> dict[str, str]:
    try:
        if isinstance(source, Folder):
            files = [(source.titles[row], source.all_files[row]) for row in rows]
            return _decode_all(files, source.fitted(), split, check, progress)
        return _hashes_of(split, source.images(rows)[0])
    except UnusableImages as error:
        # Missing files are found for all splits at once, and reported once.
        if str(error) not in check.errors:
            check.errors.append(str(error))
        return {}


def _hashes_of(split: str, inputs: Tensor) -> dict[str, str]:
    return {
        f"{split} row {row}": hashlib.sha256(sample.contiguous().numpy().tobytes()).hexdigest()
        for row, sample in enumerate(inputs)
    }


def _decode_all(
    files: Sequence[tuple[str, Path]], fit: Fit, split: str, check: DataCheck, progress: Progress
) -> dict[str, str]:
    """Decode every file, given by name and path, whether it is in the cache or not.

    Returns the hash of each readable file by its name; errors say what is wrong with the others.
    """
    hashes: dict[str, str] = {}
    broken, dark = [], 0
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda entry: _decoded(entry[1], fit), files)
        for number, ((name, _), (digest, brightest)) in enumerate(zip(files, found, strict=True)):
            if isinstance(brightest, str):
                broken.append(f"{name} {brightest}")
            else:
                hashes[name] = digest
                dark += brightest <= _DARK
            if number % _REPORT == 0:
                progress.note(f"{split}: {number:,} of {len(files):,} files")
    check.errors += [f"{split}: {text}" for text in first_few(broken)]
    if 2 * dark > len(files):
        check.warnings.append(
            f"{split}: {dark:,} of {len(files):,} images have no value above {_DARK} of 255; look "
            f"at the contact sheet (crossbias data show), and save color images with 8 bits, not 16"
        )
    return hashes


def _decoded(file: Path, fit: Fit) -> tuple[str, int | str]:
    """The hash of a file and its brightest value, or what is wrong with it."""
    try:
        content = file.read_bytes()
        brightest = int(np.frombuffer(decode(io.BytesIO(content), fit), np.uint8).max())
    except OSError as error:
        return "", unreadable(error)
    except CrossbiasError as error:
        return "", str(error)
    return hashlib.sha256(content).hexdigest(), brightest


def _check_depth(source: TableSource, check: DataCheck) -> None:
    """Warn where the bits of 16-bit images are assumed, or are more than the images use."""
    try:
        found = source.wide
    except UnusableImages:
        return  # these images are among the errors
    if found.depth is None:
        return
    if source.depth is None:
        check.warnings.append(
            f"{found}; depth={found.depth} is assumed, so that {2**found.depth - 1:,} is white; "
            f"declare the bits of your images with --set data.depth={found.depth}"
        )
    elif source.depth > found.depth:
        check.warnings.append(
            f"{found}, which needs {found.depth} bits; with depth={source.depth} the brightest "
            f"pixel is {found.largest >> (source.depth - 8)} of 255; is it --set "
            f"data.depth={found.depth}?"
        )


def _check_labels(data: BiasedDataset, check: DataCheck) -> None:
    columns = {"target": (data.targets, data.classes)}
    columns |= {name: (column, data.values[name]) for name, column in data.attributes.items()}
    for name, (column, values) in columns.items():
        counts = Counter(column.tolist())
        missing = counts.pop(UNKNOWN, 0)
        if missing:
            check.warnings.append(
                f"{data.split}: {name} is unknown for {missing:,} of {len(data):,} samples"
            )
            check.warnings += _depends_on_class(data, name, column)
        once = [values[value] for value in sorted(counts) if counts[value] == 1]
        if once:
            listed = ", ".join(first_few(once))
            check.warnings.append(f"{data.split}: values of {name} that occur once: {listed}")
    alone = without_conflicts(data) if data.split == "train" else []
    if alone:
        listed = ", ".join(first_few(alone))
        check.warnings.append(f"{data.split}: no sample of {listed} conflicts with its {data.bias}")


def _depends_on_class(data: BiasedDataset, name: str, column: Tensor) -> list[str]:
    """A warning where the values of an attribute are missing more often in some classes."""
    missing = torch.bincount(data.targets[column == UNKNOWN], minlength=data.num_classes).tolist()
    total = torch.bincount(data.targets, minlength=data.num_classes).tolist()
    size = 1.0 if data.cluster is None else len(data) / len(torch.unique(data.cluster))
    found = missing_warning(name, missing, total, data.classes, effect=size)
    return [f"{data.split}: {found}"] if found else []


def _check_counts(data: BiasedDataset, published: Mapping[str, int], check: DataCheck) -> None:
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
    """Warnings about samples of one split that are also in another, byte for byte.

    Test splits may overlap each other on purpose. Training and validation must not overlap any
    other split. For each split, ``hashes`` has the hash of each sample by its name.
    """
    warnings = []
    for split in ("train", "validation"):
        known = {digest: name for name, digest in hashes.get(split, {}).items()}
        for other, entries in hashes.items():
            if other in ("train", split):
                continue
            same = [(known[digest], name) for name, digest in entries.items() if digest in known]
            if same:
                examples = first_few([f"{one} = {two}" for one, two in same])
                warnings.append(
                    f"{len(same):,} of {len(entries):,} samples of {other} are also in {split}: "
                    f"{'; '.join(examples)}"
                )
    return warnings
