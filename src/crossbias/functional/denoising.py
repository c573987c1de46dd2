"""Telling wrong labels from rare samples."""

import torch
from torch import Tensor

from crossbias.functional.precision import at_least_float32


def clean_samples(cross_entropy: Tensor, entropy: Tensor) -> Tensor:
    r"""Which labels look right, as in PGD (ICLR 2022 submission), eq. 2.

    A rare sample has a high loss, but the network is also unsure of it; a sample with a wrong
    label has a high loss although the network is sure. So the loss is compared with the entropy
    of the prediction:

    .. math:: \frac{\mathrm{CE}_i}{H_i} < \delta, \qquad
        \delta = \frac{\sum_i \mathrm{CE}_i}{\sum_i H_i}

    which is computed as :math:`\mathrm{CE}_i < \delta H_i`: the entropy of a network that is sure
    is 0. A loss of 0 is that of a sample fitted exactly, whose ratio tends to 0: it is clean.

    Args:
        cross_entropy: ``(n,)`` losses, not negative.
        entropy: ``(n,)`` entropies of the predictions, not negative.

    Returns:
        ``(n,)`` bool. Some sample is always left out, up to rounding and unless all losses are 0:
        delta is a mean.

    >>> clean_samples(torch.tensor([0.1, 1.5, 1.5]), torch.tensor([0.2, 1.6, 0.1]))
    tensor([ True,  True, False])
    """
    loss = at_least_float32(cross_entropy)
    threshold = noise_threshold(cross_entropy, entropy)
    return (loss < threshold * at_least_float32(entropy)) | (loss == 0)


def noise_threshold(cross_entropy: Tensor, entropy: Tensor) -> Tensor:
    r"""The slope :math:`\delta` of the line that parts clean from noisy (PGD, eq. 2, Figure 6).

    Args:
        cross_entropy: ``(n,)`` losses.
        entropy: ``(n,)`` entropies of the predictions.

    Returns:
        A scalar, in float32 or better; finite where all entropies are 0.

    >>> noise_threshold(torch.tensor([1.0, 3.0]), torch.tensor([0.5, 1.5]))
    tensor(2.)
    """
    total = at_least_float32(entropy).sum()
    smallest = torch.finfo(total.dtype).tiny
    largest = torch.finfo(total.dtype).max
    return (at_least_float32(cross_entropy).sum() / total.clamp(min=smallest)).clamp(max=largest)
