"""IE's maps E(z) and IE(z) of chosen pairs, as in the paper's Figure 3."""

from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from crossbias.functional import cam, intrinsic_weight
from crossbias.methods.bias_ensemble import Division
from crossbias.networks.network import Network
from crossbias.types import Output

if TYPE_CHECKING:
    from crossbias.train.run import Run

GUIDANCE_STAGES: Final = ("guidance-pictures", "guidance-maps")
"""Stages that hold pictures of samples, and their maps E(z) and IE(z)."""

_CLASSES = 16  # at most this many pairs are saved, one for each class


def intrinsic_maps(
    own: Output, partner: Output, weight: Tensor, target: Tensor | None, *, tau: float
) -> tuple[Tensor, Tensor]:
    """Explanation maps and intrinsic feature enhancement weights of samples (IE, eqs. 4-6).

    Gradient flows through the samples' own explanation maps alone, where it is enabled.

    Args:
        own: Output of the network for the samples.
        partner: Its output for their partners of the same class.
        weight: ``(K, D)`` of its head.
        target: ``(B,)`` classes to explain; what the network predicts if ``None``.
        tau: Amplification.

    Returns:
        ``(B, h, w)`` E(z), between 0 and 1, and ``(B, h, w)`` IE(z), at least 1.
    """

    def explained(output: Output) -> Tensor:
        assert output.maps is not None
        return cam(output.maps, weight, output.logits.argmax(1) if target is None else target)

    assert own.maps is not None
    assert partner.maps is not None
    used = explained(own)
    with torch.no_grad():
        partner_used = explained(partner)
    return used, intrinsic_weight(own.maps, partner.maps, used, partner_used, tau=tau)


def save_guidance_maps(run: "Run", network: Network, pairs: Tensor, *, tau: float) -> None:
    """Keep the maps of pairs of training samples in the run's folder, under ``stages``.

    ``guidance-pairs.pt`` holds the rows ``(pairs, 2)`` of samples and partners in the training
    set, ``guidance-maps.pt`` the samples' maps E(z) and IE(z), ``(pairs, 2, h, w)``, and
    ``guidance-pictures.pt`` the samples themselves, ``(pairs, C, H, W)``, for the report.

    Args:
        run: The run; without a folder nothing is kept.
        network: The trained network, in evaluation mode.
        pairs: ``(pairs, 2)`` rows.
        tau: Amplification of the weight.
    """
    if run.folder is None or not len(pairs):
        return

    @torch.no_grad()
    def compute() -> Tensor:
        loader, (first, second) = run.loader(run.data), pairs.to(run.device).unbind(1)
        target = torch.zeros(run.data.full_size, dtype=torch.int64)
        target[run.data.index] = run.data.targets
        with run.devices.autocast():
            own, partner = network(loader.fetch(first)), network(loader.fetch(second))
        classes = target[pairs[:, 0]].to(run.device)
        return torch.stack(intrinsic_maps(own, partner, network.head.weight, classes, tau=tau), 1)

    run.stage("guidance-pairs", lambda: pairs)
    run.stage(GUIDANCE_STAGES[1], compute)
    if run.data.inputs.ndim == 4:
        place = torch.zeros(run.data.full_size, dtype=torch.int64)
        place[run.data.index] = torch.arange(len(run.data))
        run.stage(GUIDANCE_STAGES[0], lambda: run.data.pictures(place[pairs[:, 0]]))


def telling_pairs(run: "Run", division: Division, losses: Tensor, score: Tensor) -> Tensor:
    """One pair of each class: the sample most in line with the bias, and the one least.

    Args:
        run: The run.
        division: The first sample of a pair is aligned, the second a candidate.
        losses: ``(full_size,)`` losses of the biased network; the first has the smallest.
        score: ``(full_size,)`` bias-negative scores; the second has the largest, if positive.

    Returns:
        ``(pairs, 2)`` rows; no pair of a class that lacks one of the two.
    """
    losses, score = losses.cpu(), score.cpu()
    aligned, negative = division.aligned & (losses >= 0), division.candidates & (score > 0)
    pairs = []
    for number in range(min(run.data.num_classes, _CLASSES)):
        own = run.data.index[run.data.targets == number]
        first, second = own[aligned[own]], own[negative[own]]
        if len(first) and len(second):
            pairs.append((first[losses[first].argmin()], second[score[second].argmax()]))
    return torch.tensor(pairs, dtype=torch.int64).view(-1, 2)
