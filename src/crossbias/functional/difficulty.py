"""How hard a sample is for a biased network and for its de-biased partner, over the training."""

import torch
from torch import Tensor

NOT_SEEN = -1.0
"""In a table of losses, which are never negative: this sample had no loss yet."""

_EPSILON = 1e-8  # as in the code of LfF and BiasEnsemble


def moving_average(old: Tensor, new: Tensor, *, weight: float) -> Tensor:
    r"""Exponential moving average of losses, the first one taken as it is.

    .. math:: l_t = \alpha\, l + (1 - \alpha)\, l_{t-1}

    This is eq. 1 of IE (Park et al., CVPR 2024), where :math:`\alpha` weighs the new value. LfF
    (Nam et al., NeurIPS 2020) writes 0.7 for the weight of the old one.

    Args:
        old: ``(B,)`` averages so far; ``NOT_SEEN`` where there is none.
        new: ``(B,)`` losses of this step.
        weight: :math:`\alpha`, of the new value.

    >>> moving_average(torch.tensor([2.0, NOT_SEEN]), torch.tensor([1.0, 5.0]), weight=0.25)
    tensor([1.7500, 5.0000])
    """
    return torch.where(old < 0, new, weight * new + (1 - weight) * old)


def bias_negative_score(
    score: Tensor, losses: Tensor, reference: Tensor, *, weight: float
) -> Tensor:
    r"""Bias-negative score of IE (Park et al., CVPR 2024), eq. 2.

    .. math:: s_t = \alpha_s (l_t - l_{ref}) + (1 - \alpha_s) s_{t-1}

    A biased network's loss on a sample rises over the training where the sample contradicts the
    bias, and falls where it goes along with it.

    Args:
        score: ``(B,)`` scores so far, 0 at first.
        losses: ``(B,)`` averaged losses :math:`l_t` of the biased network.
        reference: ``(B,)`` averaged losses early in the training.
        weight: :math:`\alpha_s`, of the new value.

    >>> zero, one, three = torch.tensor([0.0]), torch.tensor([1.0]), torch.tensor([3.0])
    >>> bias_negative_score(zero, three, one, weight=0.25)
    tensor([0.5000])
    """
    return weight * (losses - reference) + (1 - weight) * score


def class_maximum(losses: Tensor, sizes: Tensor) -> Tensor:
    """The largest loss of each class, 0 where the class has none.

    Args:
        losses: ``(n,)`` those of the first class, then those of the second, and so on;
            ``NOT_SEEN`` counts as 0.
        sizes: ``(classes,)`` number of samples of each class.

    >>> class_maximum(torch.tensor([1.0, 3.0, NOT_SEEN]), torch.tensor([2, 0, 1]))
    tensor([3., 0., 0.])
    """
    # Sizes are not checked against the losses: reading them would wait for the device.
    found: Tensor = torch.segment_reduce(losses, "max", lengths=sizes, unsafe=True)
    return found.clamp(min=0)


def relative_difficulty(biased: Tensor, debiased: Tensor) -> Tensor:
    r"""Sample weight of LfF (Nam et al., NeurIPS 2020), the :math:`w(x)` of IE.

    .. math:: w = \frac{\tilde l_b}{\tilde l_b + \tilde l_d + \epsilon}

    Near 1 for what only the biased network finds hard, near 0 for what only the other does.

    Args:
        biased: ``(B,)`` averaged losses of the biased network, each divided by the largest of its
            class.
        debiased: ``(B,)`` the same of the de-biased network.

    >>> relative_difficulty(torch.tensor([0.6, 0.0]), torch.tensor([0.2, 0.0]))
    tensor([0.7500, 0.0000])
    """
    return biased / (biased + debiased + _EPSILON)


def divided_by_class(losses: Tensor, largest: Tensor) -> Tensor:
    """Losses over the largest of their class.

    >>> divided_by_class(torch.tensor([1.0, 0.0]), torch.tensor([4.0, 0.0]))
    tensor([0.2500, 0.0000])
    """
    return losses / (largest + _EPSILON)
