"""REPAIR: how much of the task a representation solves, and which samples to keep."""

from typing import Literal

import torch
from torch import Tensor

from crossbias.functional.partners import refilled
from crossbias.functional.precision import at_least_float32

Keep = Literal["threshold", "rank", "class-rank", "sample"]
"""By which rule samples are kept: the paper's T, R, PR and S."""


def representation_bias(
    losses: Tensor,
    target: Tensor,
    weight: Tensor,
    *,
    all_weights: Tensor,
    all_targets: Tensor,
    classes: int,
) -> Tensor:
    r"""Bias of weighted data (REPAIR, Li & Vasconcelos, CVPR 2019, section 3), from a batch.

    .. math:: R = 1 - \frac{\sum_i z_i \mathrm{CE}_i}{-\sum_i z_i \log q_{y_i}}, \qquad
        z_i = \frac{w_i}{\frac1n \sum_j w_j}, \quad
        q_k = \frac{\sum_{j: y_j = k} w_j}{\sum_j w_j}

    with the sums of R over the batch and the others over all data. It is 1 where the probe solves
    the task, and 0 where it does no better than knowing how frequent the classes are.

    Args:
        losses: ``(B,)`` cross-entropies of the probe.
        target: ``(B,)`` class numbers.
        weight: ``(B,)`` positive weights of these samples.
        all_weights: ``(n,)`` those of all samples.
        all_targets: ``(n,)`` class numbers of all samples.
        classes: Number of classes.

    Returns:
        A scalar, in float32 or better.

    >>> even, target = torch.ones(2), torch.tensor([0, 1])
    >>> of_all = {"all_weights": even, "all_targets": target, "classes": 2}
    >>> representation_bias(torch.tensor([0.0, 0.6931]), target, even, **of_all)
    tensor(0.5000)
    """
    whole = at_least_float32(all_weights)
    shares = whole.new_zeros(classes).index_add(0, all_targets, whole) / whole.sum()
    relative = at_least_float32(weight) / whole.mean()
    smallest = torch.finfo(whole.dtype).tiny  # of a class whose weights all vanish
    surprise = -shares.clamp(min=smallest).log()[target]
    chance = (relative * surprise).mean().clamp(min=torch.finfo(whole.dtype).eps)
    return 1 - (relative * at_least_float32(losses)).mean() / chance


def kept_by_weight(
    weights: Tensor,
    target: Tensor,
    *,
    keep: Keep,
    classes: int,
    threshold: float,
    fraction: float,
    generator: torch.Generator,
) -> Tensor:
    """Which samples REPAIR keeps (section 4.2); a class of which none is left is kept whole.

    Args:
        weights: ``(n,)`` in [0, 1], on the CPU.
        target: ``(n,)`` class numbers.
        keep: ``threshold`` keeps weights above the threshold, ``rank`` a fraction of all samples
            with the largest weights, ``class-rank`` that fraction of each class, ``sample`` each
            sample with its weight as the probability.
        classes: Number of classes.
        threshold: For ``threshold``.
        fraction: For ``rank`` and ``class-rank``.
        generator: Draws for ``sample``.

    Returns:
        ``(n,)`` bool.

    >>> weights, target = torch.tensor([0.9, 0.8, 0.1, 0.4]), torch.tensor([0, 0, 1, 1])
    >>> options = {"classes": 2, "threshold": 0.5, "fraction": 0.5, "generator": torch.Generator()}
    >>> kept_by_weight(weights, target, keep="class-rank", **options)
    tensor([ True, False, False,  True])
    """
    if keep == "threshold":
        kept = weights > threshold
    elif keep == "sample":
        kept = torch.rand(len(weights), generator=generator, dtype=torch.float64) < weights
    else:
        part = target if keep == "class-rank" else torch.zeros_like(target)
        sizes = torch.bincount(part)
        order = weights.argsort(descending=True, stable=True)
        order = order[part[order].argsort(stable=True)]  # by class, the largest weights first
        place = torch.arange(len(order)) - (sizes.cumsum(0) - sizes)[part[order]]
        kept = torch.zeros_like(target, dtype=torch.bool)
        kept[order] = place < (fraction * sizes.double()).round()[part[order]]
    return refilled(kept, target, classes)
