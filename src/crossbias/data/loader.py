"""Batches on the device: from data that lives there, or read ahead by workers."""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property, partial

import torch
from torch import Tensor

from crossbias.data.augment.augment import Augmentation
from crossbias.data.augment.geometry import center_crop
from crossbias.data.dataset import BiasedDataset
from crossbias.data.read_ahead import read_ahead
from crossbias.seeds import generator_for
from crossbias.types import Batch

_BLOCK_BYTES = 2**26  # of floats; twenty-seven batches of 256 colored digits

_Block = tuple[list[int], Tensor, Tensor]
"""Batches that are prepared together: their sizes, and the positions and inputs of all."""


class Loader:
    """Turns positions in a data set into batches; both ways of feeding give the same ones.

    Inputs up to ``resident_bytes`` are moved to the device once; so many workers read larger ones
    ahead. ``share`` is this process's number and how many share every batch.

    On CUDA, batches of small inputs that are there are prepared many at a time: an augmentation is
    up to a hundred operations, and for one batch, starting them takes longer than computing them.
    """

    def __init__(
        self,
        data: BiasedDataset,
        device: torch.device,
        *,
        resident_bytes: int,
        workers: int,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        self.data = data
        self.device = device
        self.share = share
        self.workers = workers
        self.resident = data.inputs.nbytes <= resident_bytes
        # Images that are decoded whenever they are read are decoded once if they all fit.
        copy = getattr(data.inputs, "decoded_when_read", False)
        self.inputs = data.inputs.to(device, copy=copy) if self.resident else data.inputs
        self.targets, self.biases = data.targets.to(device), data.biases.to(device)
        self.index, self.groups = data.index.to(device), data.groups.to(device)
        self.images = data.inputs.dtype == torch.uint8
        by_channel = (1, -1, *(1 for _ in data.inputs.shape[2:]))
        self.row_bytes = 4 * math.prod(data.inputs.shape[1:])  # as floats
        self.block_bytes = _BLOCK_BYTES if device.type == "cuda" else 0
        self.mean = torch.tensor(data.mean, device=device).view(by_channel)
        self.std = torch.tensor(data.std, device=device).view(by_channel)

    def batches(
        self,
        cut: Sequence[Tensor],
        *,
        augment: Augmentation | None = None,
        seed: int = 0,
        start: int = 0,
    ) -> Iterator[Batch]:
        """One batch for each tensor of positions, from number ``start`` on.

        Batch number ``i`` is augmented with a generator seeded by ``(seed, i)``, so that it is
        the same whether an epoch was interrupted before it or not.
        """
        rank, world = self.share
        mine = [positions[rank::world] for positions in cut[start:]]
        found = self._resident(mine) if self.resident else self._fed(mine)
        number = start
        for sizes, positions, raw in found:
            inputs = self._floats(raw)
            if augment is not None:
                # A process draws for its own share: same (seed, number), other images.
                numbers = range(number, number + len(sizes))
                draws = [generator_for(seed, "batch", each, rank) for each in numbers]
                inputs = augment.of_batches(inputs, list(zip(sizes, draws, strict=True)))
            columns = (
                self._normalized(inputs),
                self.targets[positions],
                self.biases[positions],
                self.index[positions],
                self.groups[positions],
            )
            yield from map(Batch, *(torch.split(column, sizes) for column in columns))
            number += len(sizes)

    def fetch(self, index: Tensor, *, augment: Augmentation | None = None, seed: int = 0) -> Tensor:
        """Inputs of any rows (B,) of the full training set, made as those of a batch are.

        The host waits for the device only where the data does not live there.
        """
        positions = self._positions[index]
        raw = self.inputs[positions if self.resident else positions.cpu()]
        inputs = self._floats(raw.to(self.device, non_blocking=True))
        if augment is not None:
            inputs = augment(inputs, generator_for(seed, "fetch"))
        return self._normalized(inputs)

    @cached_property
    def _positions(self) -> Tensor:
        """Where a row of the full training set is in this data, (full_size,)."""
        table = torch.zeros(self.data.full_size, dtype=torch.int64, device=self.device)
        table[self.index] = torch.arange(len(self.index), device=self.device)
        return table

    def _resident(self, mine: list[Tensor]) -> Iterator[_Block]:
        if not mine:
            return
        blocks = self._blocks([len(positions) for positions in mine])
        # All at once, since the host waits for the device at each copy.
        parts = torch.split(torch.cat(mine).to(self.device), [sum(sizes) for sizes in blocks])
        for sizes, positions in zip(blocks, parts, strict=True):
            yield sizes, positions, self.inputs[positions]

    def _blocks(self, sizes: list[int]) -> list[list[int]]:
        """Sizes of batches, those of each block together; a block has at least one."""
        blocks: list[list[int]] = [[]]
        for size in sizes:
            if blocks[-1] and (sum(blocks[-1]) + size) * self.row_bytes > self.block_bytes:
                blocks.append([])
            blocks[-1].append(size)
        return blocks

    def _fed(self, mine: list[Tensor]) -> Iterator[_Block]:
        read = read_ahead(self.inputs, mine, workers=self.workers, device=self.device)
        to_device = partial(Tensor.to, device=self.device, non_blocking=True)
        for positions, raw in zip(mine, read, strict=True):
            yield [len(positions)], to_device(positions), to_device(raw)

    def _floats(self, raw: Tensor) -> Tensor:
        if not self.images:
            return raw.float()
        return raw.to(torch.float32, memory_format=torch.contiguous_format).div_(255)

    def _normalized(self, inputs: Tensor) -> Tensor:
        if not self.images:
            return inputs
        if self.data.crop:
            inputs = center_crop(inputs, self.data.crop)
        # In place, since the floats are this batch's own; then channels first, whatever
        # augmentations left: a network may call view on what it gets.
        return inputs.sub_(self.mean).div_(self.std).contiguous()
