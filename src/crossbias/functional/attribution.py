"""Where a network with average pooling and a linear head looks, and where IE tells it to look."""

import torch
from torch import Tensor

from crossbias.functional.precision import at_least_float32, no_autocast


def cam(maps: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    r"""Grad-CAM (Selvaraju et al., ICCV 2017) of a pooled linear head, in closed form.

    Where the logits are a linear layer of the average-pooled maps, the gradient of logit
    :math:`y` with respect to every position of map :math:`k` is :math:`w_{yk} / hw`, so up to
    that constant, which the normalization removes,

    .. math:: E_n = \frac{\mathrm{ReLU}(w_y \cdot z_n)}{\max_m \mathrm{ReLU}(w_y \cdot z_m)}

    This is :math:`E(z)` of IE (Park et al., CVPR 2024); its gradient needs no second backward.

    Args:
        maps: ``(B, D, h, w)`` what is pooled into the head's input, :math:`z`.
        weight: ``(K, D)`` the head's weight.
        target: ``(B,)`` the class to explain, for each sample.

    Returns:
        ``(B, h, w)`` in [0, 1], in float32 or better; all zeros where no position speaks for
        the class.

    >>> maps = torch.tensor([[[[1.0, 2.0, -4.0]]]])
    >>> weight = torch.tensor([[1.0], [-1.0]])
    >>> cam(maps, weight, torch.tensor([0]))
    tensor([[[0.5000, 1.0000, 0.0000]]])
    >>> cam(maps, weight, torch.tensor([1]))
    tensor([[[0., 0., 1.]]])
    """
    with no_autocast(maps):
        rows = at_least_float32(weight)[target]  # (B, D)
        evidence = torch.einsum("bdhw,bd->bhw", at_least_float32(maps), rows).relu()
    peak = evidence.amax((1, 2), keepdim=True)
    return evidence / peak.masked_fill(peak == 0, 1)


def intrinsic_weight(
    maps: Tensor, partner_maps: Tensor, cam: Tensor, partner_cam: Tensor, *, tau: float
) -> Tensor:
    r"""Intrinsic feature enhancement weight of IE (Park et al., CVPR 2024), eqs. 4-6.

    For each position :math:`n` of a sample, :math:`i^*` is the position of its partner, a
    bias-negative sample of the same class, with the most similar feature
    (:math:`i^* = \arg\max_i z^{BN}_i \cdot z_n`), and

    .. math:: c_n = \frac{z^{BN}_{i^*} \cdot z_n}{\max_{i,j} z^{BN}_i \cdot z_j}, \qquad
        r_n = \Big(\frac{2 E^{BN}_{i^*}}{E^{BN}_{i^*} + E_n}\Big)^\tau, \qquad
        \mathrm{IE}_n = \max(c_n r_n, 1)

    The paper leaves open what holds where nothing is alike or nothing is looked at: if no two
    features have a positive product, :math:`c = 0`, and where both explanation maps are 0,
    :math:`r = 0`; the weight is 1 there. Gradient flows through the sample's own explanation map
    alone, :math:`\partial r_n / \partial E_n = -\tau r_n / (E^{BN}_{i^*} + E_n)`: the weight
    falls where the sample looks more. Pass ``cam.detach()`` for a weight without gradient.

    Args:
        maps: ``(B, D, h, w)`` features :math:`z` of the samples.
        partner_maps: ``(B, D, h', w')`` features :math:`z^{BN}` of their partners.
        cam: ``(B, h, w)`` explanation maps :math:`E(z)`, non-negative (see ``cam``).
        partner_cam: ``(B, h', w')`` explanation maps :math:`E(z^{BN})`.
        tau: Amplification :math:`\tau`, at least 0.

    Returns:
        ``(B, h, w)`` weights between 1 and :math:`2^\tau`, in float32 or better.

    >>> maps = torch.tensor([[[[1.0, 2.0]]]])
    >>> used, partner_used = torch.tensor([[[1.0, 0.25]]]), torch.tensor([[[0.0, 0.75]]])
    >>> intrinsic_weight(maps, maps, used, partner_used, tau=2.0)
    tensor([[[1.0000, 2.2500]]])
    """
    if not tau >= 0:
        raise ValueError(f"tau of the intrinsic weight must be at least 0, got {tau}")
    common, match = _common_features(maps.detach(), partner_maps.detach())
    exploited = at_least_float32(cam).flatten(1)  # E(z)_n
    partner_exploited = at_least_float32(partner_cam.detach()).flatten(1).gather(1, match)
    unused = partner_exploited == 0  # E(z^BN)_i*: r is 0, of which no power has to be taken
    together = (partner_exploited + exploited).masked_fill(unused, 1)
    relative = (2 * partner_exploited / together).masked_fill(unused, 1)
    enhanced = common * relative**tau  # with r of eq. 5; at most 1 where r should be 0
    return torch.where(enhanced > 1, enhanced, 1).view_as(cam)  # eq. 6


def _common_features(maps: Tensor, partner_maps: Tensor) -> tuple[Tensor, Tensor]:
    """The score c of eq. 4, and the partner's most similar position i*, ``(B, hw)`` each."""
    z, partner_z = at_least_float32(maps).flatten(2), at_least_float32(partner_maps).flatten(2)
    with no_autocast(maps):
        similarity = partner_z.mT @ z  # (B, partner's h'w', h w): z_i^BN . z_n
    best, match = similarity.max(1)  # (B, hw): its value at i*, and i*
    highest = best.amax(1, keepdim=True)
    return best / highest.masked_fill(highest <= 0, torch.inf), match


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
