"""IE's guidance: features that look more at what is intrinsic, and how far away they are."""

import torch
from torch import Tensor

from crossbias.functional.precision import at_least_float32, no_autocast


def guided_features(maps: Tensor, weight: Tensor) -> Tensor:
    r"""Pooled guidance of IE (Park et al., CVPR 2024), eq. 7: GAP of :math:`z \odot IE(z)`.

    Args:
        maps: ``(B, D, h, w)`` features :math:`z`.
        weight: ``(B, h, w)`` the weight :math:`IE(z)`.

    Returns:
        ``(B, D)`` in float32 or better.

    >>> guided_features(torch.tensor([[[[1.0, 3.0]]]]), torch.tensor([[[1.0, 2.0]]]))
    tensor([[3.5000]])
    """
    positions = weight[0].numel()
    with no_autocast(maps):
        maps, weight = at_least_float32(maps), at_least_float32(weight)
        return torch.einsum("bdhw,bhw->bd", maps, weight) / positions


def guidance_distance(features: Tensor, guided: Tensor) -> Tensor:
    r"""L1 distance of IE (Park et al., CVPR 2024), eq. 9, without its weight.

    .. math:: \| GAP(z) - GAP(g(z)) \|_1

    Args:
        features: ``(B, D)`` pooled features.
        guided: ``(B, D)`` pooled guidance.

    Returns:
        ``(B,)`` in float32 or better.

    >>> guidance_distance(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.5, 4.0]]))
    tensor([2.5000])
    """
    return (at_least_float32(features) - at_least_float32(guided)).abs().sum(1)
