"""AdaIN: give features the channel statistics of a style."""

from torch import Tensor

from crossbias.functional.precision import at_least_float32

_EPSILON = 1e-5  # added to a variance, as in the released code


def channel_statistics(features: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel over the positions of an image.

    Args:
        features: ``(B, D, h, w)`` with two positions or more.

    Returns:
        Both ``(B, D)``, in float32 or better. 1e-5 is added to the variance.

    >>> import torch
    >>> mean, deviation = channel_statistics(torch.tensor([[[[1.0, 3.0]]]]))
    >>> mean, deviation.round(decimals=3)
    (tensor([[2.]]), tensor([[1.4140]]))
    """
    flat = at_least_float32(features).flatten(2)
    return flat.mean(2), (flat.var(2) + _EPSILON).sqrt()


def adaptive_instance_normalization(features: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    r"""Features with the channel statistics of a style (AdaIN, Huang & Belongie, ICCV 2017, eq. 8).

    .. math:: \sigma(y) \, \frac{x - \mu(x)}{\sigma(x)} + \mu(y)

    Args:
        features: ``(B, D, h, w)`` of the image, the paper's :math:`x`.
        mean: ``(B, D)`` of the style, :math:`\mu(y)`.
        deviation: ``(B, D)`` of the style, :math:`\sigma(y)`.

    Returns:
        ``(B, D, h, w)`` in float32 or better.

    >>> import torch
    >>> x, mean, deviation = torch.tensor([[[[1.0, 3.0]]]]), torch.zeros(1, 1), torch.ones(1, 1)
    >>> adaptive_instance_normalization(x, mean, deviation).round(decimals=3)
    tensor([[[[-0.7070,  0.7070]]]])
    """
    own_mean, own_deviation = (each[..., None, None] for each in channel_statistics(features))
    normalized = (at_least_float32(features) - own_mean) / own_deviation
    return normalized * deviation[..., None, None] + mean[..., None, None]
