"""IE's guidance: features that look more at what is intrinsic, and how far away they are."""

import torch
from torch import Tensor

from crossbias.functional.precision import at_least_float32, no_autocast


def pooled_guidance(maps: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    r"""Features and guidance of IE (Park et al., CVPR 2024), eq. 7, both pooled.

    .. math:: GAP(z), \quad GAP(z \odot IE(z)) = GAP(z) + GAP(z \odot (IE(z) - 1))

    Where nothing is enhanced the two are equal to the last bit. Were they not, the sign of a
    rounding error would be the gradient of their L1 distance.

    Args:
        maps: ``(B, D, h, w)`` features :math:`z`.
        weight: ``(B, h, w)`` the weight :math:`IE(z)`.

    Returns:
        ``(B, D)`` each, in float32 or better.

    >>> pooled_guidance(torch.tensor([[[[1.0, 3.0]]]]), torch.tensor([[[1.0, 2.0]]]))
    (tensor([[2.]]), tensor([[3.5000]]))
    """
    maps, weight = at_least_float32(maps), at_least_float32(weight)
    features = maps.mean((2, 3))
    with no_autocast(maps):
        gained = torch.einsum("bdhw,bhw->bd", maps, weight - 1)
    return features, features + gained / weight[0].numel()


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
