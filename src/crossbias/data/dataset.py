"""BiasedDataset: inputs, targets, named attributes, and an index that survives subsetting."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from crossbias.data.augment.geometry import center_crop
from crossbias.data.memory_maps import in_parts, rows_of
from crossbias.errors import CrossbiasError
from crossbias.parameters import unknown
from crossbias.types import UNKNOWN

_PART = 2**24  # bytes of a tensor that are hashed at a time


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BiasedDataset:
    """A data set with targets and any number of named attributes, one of which may be the bias.

    Args:
        inputs: ``(n, C, H, W)`` uint8 images, ``(n, C, T, H, W)`` uint8 clips, or ``(n, D)``
            floating-point vectors.
        targets: ``(n,)`` class numbers.
        attributes: For each name, ``(n,)`` value numbers, ``UNKNOWN`` (-1) where not known.
        bias: The attribute that a run treats as the bias, if any.
        name: Name of the data set in messages and results.
        split: Name of the split.
        classes: Names of the classes; by default their numbers.
        values: For each attribute, names of its values; by default their numbers.
        alignments: For each attribute, a ``(classes, values)`` table that is true where a value
            goes along with a class. The default is read from the counts (see ``alignment``).
        crop: Side of the square to which a batch cuts its images; 0 keeps them whole. The square
            is the middle of the image unless an augmentation cuts elsewhere.
        augment: Augmentations of training batches, where the configuration names none.
        mean: Per-channel mean of images in [0, 1], subtracted from every batch.
        std: Per-channel standard deviation; every batch is divided by it.
        cluster: ``(n,)`` whole numbers, equal for samples that belong together, such as the images
            of a patient; None where all samples are independent. Only intervals and tests use it.
        index: ``(n,)`` rows in the full training set; by default ``0..n-1``.
        full_size: Number of rows of the full set; per-sample tables have this length.
        origin: How a named source made the data: seed and options, for the record of a run.
        digest: SHA-256 of the inputs where it is already known; computed otherwise.

    >>> data = BiasedDataset(
    ...     inputs=torch.zeros(4, 2), targets=torch.tensor([0, 0, 1, 1]),
    ...     attributes={"color": torch.tensor([0, 1, 1, 1])}, bias="color")
    >>> len(data), data.num_classes, data.counts().tolist()
    (4, 2, [[1, 1], [0, 2]])
    >>> data.num_groups, data.groups.tolist()
    (4, [0, 1, 3, 3])
    """

    inputs: Tensor
    targets: Tensor
    attributes: Mapping[str, Tensor] = field(default_factory=dict)
    bias: str | None = None
    name: str = "data"
    split: str = "train"
    classes: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    alignments: Mapping[str, Tensor] = field(default_factory=dict)
    crop: int = 0
    augment: tuple[str, ...] = ()
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    cluster: Tensor | None = None
    index: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    full_size: int = 0
    origin: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""

    def __post_init__(self) -> None:
        _check_tensors(self)
        fill = object.__setattr__  # the dataclass is frozen; these are defaults, not changes
        if not self.classes:
            fill(self, "classes", _numbered(self.targets))
        if not self.full_size:
            fill(self, "index", torch.arange(len(self.targets)))
            fill(self, "full_size", len(self.targets))
        names = {name: _numbered(column) for name, column in self.attributes.items()}
        fill(self, "values", names | dict(self.values))
        _check(self)

    def __len__(self) -> int:
        return len(self.targets)

    def __repr__(self) -> str:
        shape = " x ".join(str(size) for size in self.inputs.shape)
        return f"<{self.name} {self.split}: {shape}, {self.num_classes} classes, bias {self.bias}>"

    @property
    def num_classes(self) -> int:
        """Number of classes, present in this split or not."""
        return len(self.classes)

    @property
    def seen_shape(self) -> tuple[int, ...]:
        """Shape of one input as a network gets it: a batch cuts images to ``crop``."""
        shape = tuple(self.inputs.shape[1:])
        if not self.crop:
            return shape
        return (*shape[:-2], *(min(side, self.crop) for side in shape[-2:]))

    @property
    def num_biases(self) -> int:
        """Number of values of the bias attribute; 0 without a bias attribute."""
        return len(self.values[self.bias]) if self.bias else 0

    @property
    def biases(self) -> Tensor:
        """The value of the bias attribute, (n,); all UNKNOWN without a bias attribute."""
        return self.attributes[self.bias] if self.bias else torch.full_like(self.targets, UNKNOWN)

    @property
    def num_groups(self) -> int:
        """Number of (target, bias) groups, present in this split or not; 0 without a bias."""
        return self.num_classes * self.num_biases

    @property
    def groups(self) -> Tensor:
        """The group of each sample, target * num_biases + bias, (n,); UNKNOWN where the bias is."""
        known = self.biases != UNKNOWN
        return torch.where(known, self.targets * self.num_biases + self.biases, UNKNOWN)

    @property
    def has_bias_labels(self) -> bool:
        """Whether the bias of at least one sample is known."""
        return bool((self.biases != UNKNOWN).any())

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the content: inputs, targets, attributes and their names."""
        columns = {f"attribute {name}": self.attributes[name] for name in sorted(self.attributes)}
        digests = {"inputs": self.digest or tensor_digest(self.inputs)}
        for name, column in ({"targets": self.targets} | columns).items():
            digests[name] = tensor_digest(column)
        names = (self.classes, sorted(self.values.items()))
        return hashlib.sha256(repr((digests, names)).encode()).hexdigest()

    def counts(self) -> Tensor:
        """Samples of each (target, bias) group, (classes, biases); unknown biases do not count."""
        known = self.groups[self.biases != UNKNOWN]
        counts = torch.bincount(known, minlength=self.num_groups)
        return counts.view(self.num_classes, self.num_biases)

    def alignment(self) -> Tensor:
        """Which groups are bias-aligned, (classes, biases) bool.

        This is the table that the data set declares for its bias attribute. Without one, a group
        is aligned if it has more samples than it would if target and bias were independent.
        """
        if self.bias is not None and self.bias in self.alignments:
            return self.alignments[self.bias]
        counts = self.counts().double()
        expected = counts.sum(1, keepdim=True) * counts.sum(0) / counts.sum().clamp(min=1)
        return counts > expected

    def pictures(self, rows: Tensor) -> Tensor:
        """The images at the given positions as a network sees them, uint8, cut to ``crop``."""
        images = self.inputs[rows]
        return center_crop(images, self.crop) if self.crop else images

    def with_bias(self, bias: str | None) -> "BiasedDataset":
        """The same data with another attribute as the bias."""
        return replace(self, bias=bias)

    def subset(self, keep: Tensor) -> "BiasedDataset":
        """The samples at the given positions, or where a mask is true, with their old ``index``.

        More than a gigabyte of images is copied into a memory-mapped file.
        """
        return replace(
            self,
            inputs=rows_of(self.inputs, keep),
            targets=self.targets[keep],
            attributes={name: column[keep] for name, column in self.attributes.items()},
            alignments=dict(self.alignments) | ({self.bias: self.alignment()} if self.bias else {}),
            cluster=None if self.cluster is None else self.cluster[keep],
            index=self.index[keep],
            digest="",
        )


def tensor_digest(tensor: Tensor) -> str:
    """SHA-256 of the type, shape and bytes of a tensor, which is read in parts."""
    digest = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    for part in in_parts(tensor, max(1, _PART * len(tensor) // max(1, tensor.nbytes))):
        digest.update(part.contiguous().numpy().data)
    return digest.hexdigest()


def check_finite(data: BiasedDataset) -> None:
    """Refuse inputs that are not finite; images always are."""
    if not data.inputs.is_floating_point():
        return
    bad = (~data.inputs.isfinite()).flatten(1).any(1)
    if bool(bad.any()):
        row = int(bad.nonzero()[0])
        value = next(number for number in data.inputs[row].tolist() if not math.isfinite(number))
        raise CrossbiasError(
            f"{data.name} {data.split}: sample {int(data.index[row])} has an input that is not "
            f"finite ({value}), one of {int(bad.sum()):,} such samples; repair or remove them"
        )


def _numbered(column: Tensor) -> tuple[str, ...]:
    return tuple(str(value) for value in range(int(column.max()) + 1 if len(column) else 0))


def _check_tensors(data: BiasedDataset) -> None:
    """Refuse arrays and lists."""
    columns = {"inputs": data.inputs, "targets": data.targets} | dict(data.attributes)
    for name, column in columns.items():
        if not isinstance(column, Tensor):
            raise CrossbiasError(
                f"{data.name}: {name} must be a torch tensor, got {type(column).__name__}; "
                f"torch.as_tensor makes one of an array or a list"
            )


def _check(data: BiasedDataset) -> None:
    """Refuse inputs, targets and attributes that do not fit together."""
    rows = len(data.targets)
    if not len(data.inputs) == rows == len(data.index):
        raise CrossbiasError(f"{data.name}: {len(data.inputs)} inputs but {rows} targets")
    if not (data.inputs.dtype == torch.uint8 and data.inputs.ndim in (4, 5)) and not (
        data.inputs.is_floating_point() and data.inputs.ndim == 2
    ):
        raise CrossbiasError(
            f"{data.name}: inputs must be (n, C, H, W) uint8 images, (n, C, T, H, W) uint8 clips "
            f"or (n, D) floating-point vectors, got {tuple(data.inputs.shape)} {data.inputs.dtype}"
        )
    if data.inputs.ndim == 4 and data.inputs.shape[1] > 4 and data.inputs.shape[3] in (1, 3):
        raise CrossbiasError(
            f"{data.name}: inputs of {tuple(data.inputs.shape)} look like (n, H, W, C); images are "
            f"(n, C, H, W): pass inputs.permute(0, 3, 1, 2)"
        )
    _check_column(data.name, "targets", data.targets, rows, data.num_classes, lowest=0)
    for name, column in data.attributes.items():
        _check_column(data.name, name, column, rows, len(data.values[name]), lowest=UNKNOWN)
    if data.cluster is not None:
        _check_column(data.name, "cluster", data.cluster, rows)
    if data.bias is not None and data.bias not in data.attributes:
        lacking = f"{data.name} has no attribute"
        raise unknown(lacking, data.bias, data.attributes, "its attributes are")


def _check_column(
    name: str,
    column_name: str,
    column: Tensor,
    rows: int,
    size: int | None = None,
    lowest: int = 0,
) -> None:
    """Refuse a column of another type or length or, given a size, with a number out of range."""
    if column.dtype != torch.int64 or column.shape != (rows,):
        raise CrossbiasError(
            f"{name}: {column_name} must be {rows} int64 numbers, "
            f"got {tuple(column.shape)} {column.dtype}"
        )
    if size is not None and rows and not lowest <= int(column.min()) <= int(column.max()) < size:
        raise CrossbiasError(
            f"{name}: {column_name} must lie in {lowest}..{size - 1}, "
            f"got {int(column.min())}..{int(column.max())}"
        )
