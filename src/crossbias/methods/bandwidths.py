"""Kernel widths by the median heuristic, measured on training data."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from crossbias.data.order import batches, epoch_order
from crossbias.functional import median_bandwidth
from crossbias.networks.network import buffers_kept
from crossbias.seeds import global_randomness_kept, seed_global
from crossbias.types import Output

if TYPE_CHECKING:
    from crossbias.train.run import Run

_FRACTION = 0.25  # of the training batches, as in the released code of ReBias


def median_widths(
    run: "Run", networks: Sequence[nn.Module], chosen: Callable[[Output], Tensor], *, minimum: int
) -> Tensor:
    """The median distance between two samples of a batch, for each network.

    The networks see a quarter of the training batches in the mode they are in, without
    augmentation, always the same ones. Nothing of them changes: running statistics and random
    generators are put back.

    Args:
        run: The run whose data is looked at.
        networks: As ``Run.build`` made them.
        chosen: The representation ``(B, D)`` in a network's output.
        minimum: Samples a batch must have for one process.

    Returns:
        ``(networks,)`` positive numbers, the mean over the processes.
    """
    seed = run.seed("widths")
    order = epoch_order(len(run.data), 0, seed)
    cut = batches(order, run.config.batch_size, minimum * run.devices.world)
    cut = cut[: math.ceil(_FRACTION * len(cut))]
    with torch.no_grad(), buffers_kept(*networks), global_randomness_kept(run.device):
        seed_global(seed, run.device)  # of dropout
        seen = [
            [chosen(network(batch.inputs)) for network in networks]
            for batch in run.loader(run.data).batches(cut)
        ]
        widths = torch.stack([median_bandwidth(*of_one) for of_one in zip(*seen, strict=True)])
    return run.devices.sum(widths.float()) / run.devices.world
