"""Checking a data set: files that cannot be read, copies across splits, labels, counts."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.data.encoded import UnusableImages
from crossbias.data.file_checks import copies, decode_all, some
from crossbias.data.folder import Folder
from crossbias.data.labels import without_conflicts
from crossbias.data.listing import ImageSource, Listing
from crossbias.data.source import Source, data_root
from crossbias.data.table_source import TableSource
from crossbias.errors import CrossbiasError
from crossbias.train.progress import Progress
from crossbias.types import UNKNOWN


@dataclass
class Check:
    """What was found.

    Attributes:
        sizes: Samples of each split.
        errors: What must be repaired: unusable files, counts that are not the published ones.
        warnings: What a person should know: copies, missing labels, values that occur once,
            classes of the training split without a conflicting sample.
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
    check.warnings += copies(hashes)
    return check


def _published_files(
    source: ImageSource, split: str, listing: Listing, check: Check, progress: Progress
) -> dict[str, str]:
    files: list[tuple[str, Path]] = []
    for file in listing.files:
        try:
            files += [(str(frame), frame) for frame in source.frames(file)]
        except CrossbiasError as error:  # a clip without frames, or that is no video
            check.errors.append(f"{split}: {error}")
    hashes, broken = decode_all(files, source.fit, split=split, progress=progress)
    check.errors += [f"{split}: {text}" for text in some(broken)]
    return hashes


def _own_images(
    source: TableSource, split: str, rows: list[int], check: Check, progress: Progress
) -> dict[str, str]:
    try:
        if isinstance(source, Folder):
            files = [(source.titles[row], source.all_files[row]) for row in rows]
            hashes, broken = decode_all(files, source.fitted(), split=split, progress=progress)
            check.errors += [f"{split}: {text}" for text in some(broken)]
            return hashes
        return _hashes_of(split, source.images(rows)[0])
    except UnusableImages as error:
        # Names that lead to no file are found for all splits at once, and said once.
        if str(error) not in check.errors:
            check.errors.append(str(error))
        return {}


def _hashes_of(split: str, inputs: Tensor) -> dict[str, str]:
    return {
        f"{split} row {row}": hashlib.sha256(sample.contiguous().numpy().tobytes()).hexdigest()
        for row, sample in enumerate(inputs)
    }


def _check_labels(data: BiasedDataset, check: Check) -> None:
    columns = {"target": (data.targets, data.classes)}
    columns |= {name: (column, data.values[name]) for name, column in data.attributes.items()}
    for name, (column, values) in columns.items():
        counts = Counter(column.tolist())
        missing = counts.pop(UNKNOWN, 0)
        if missing:
            check.warnings.append(f"{data.split}: {name} is not known of {missing:,} samples")
        once = [values[value] for value in sorted(counts) if counts[value] == 1]
        if once:
            check.warnings.append(
                f"{data.split}: {len(once)} values of {name} occur once: {', '.join(some(once))}"
            )
    alone = without_conflicts(data) if data.split == "train" else []
    if alone:
        check.warnings.append(
            f"{data.split}: no sample of {', '.join(some(alone))} conflicts with its {data.bias}"
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
