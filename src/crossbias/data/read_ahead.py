"""read_ahead: the rows of the next batches, read while the device works on this one."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from crossbias.errors import CrossbiasError

_AHEAD = 2  # batches that each worker has read before they are needed, as in a DataLoader


def read_ahead(
    inputs: Tensor, cut: Sequence[Tensor], *, workers: int, device: torch.device
) -> Iterator[Tensor]:
    """The rows at each tensor of positions, in order; for CUDA in pinned memory.

    Threads copy rows that are pixels or vectors. Images that are decoded whenever they are read
    take processes: threads of one interpreter would wait for each other.
    """
    if getattr(inputs, "decoded_when_read", False):
        yield from _by_processes(inputs, cut, workers, pin=device.type == "cuda")
    elif workers == 0:
        yield from (_read(inputs, positions, device) for positions in cut)
    else:
        yield from _by_threads(inputs, cut, workers, device)


def _by_threads(
    inputs: Tensor, cut: Sequence[Tensor], workers: int, device: torch.device
) -> Iterator[Tensor]:
    pool = ThreadPoolExecutor(workers)
    waiting: deque[Future[Tensor]] = deque()
    try:
        for positions in cut:
            waiting.append(pool.submit(_read, inputs, positions, device))
            if len(waiting) > _AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:  # after an error, or if nobody wants the rest
        pool.shutdown(cancel_futures=True)


def _read(inputs: Tensor, positions: Tensor, device: torch.device) -> Tensor:
    rows = inputs[positions]
    if device.type != "cuda":
        return rows
    with torch.cuda.device(device):  # else a thread takes memory on the first one
        return rows.pin_memory()


class _Rows:
    """Gives the rows at a tensor of positions, or what is wrong with them, to a worker process.

    An error that is raised there would arrive with the text of its traceback.
    """

    def __init__(self, inputs: Tensor) -> None:
        self.inputs = inputs

    def __getitem__(self, positions: Tensor) -> Tensor | CrossbiasError:
        try:
            return self.inputs[positions]
        except CrossbiasError as error:
            return CrossbiasError(str(error))


def _by_processes(
    inputs: Tensor, cut: Sequence[Tensor], workers: int, *, pin: bool
) -> Iterator[Tensor]:
    feeder: Iterable[Tensor | CrossbiasError] = DataLoader(
        cast("Dataset[Tensor | CrossbiasError]", _Rows(inputs)),
        batch_size=None,
        sampler=cut,  # each item is the positions of a whole batch
        num_workers=workers,
        prefetch_factor=_AHEAD if workers else None,
        pin_memory=pin,
        generator=torch.Generator(),  # else the global one is drawn from
    )
    for rows in feeder:
        if isinstance(rows, CrossbiasError):
            raise rows
        yield rows
