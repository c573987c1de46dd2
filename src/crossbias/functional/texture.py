"""HEX: a neural gray-level co-occurrence matrix, and a projection that takes its part away."""

import torch
import torch.nn.functional as F
from torch import Tensor

from crossbias.functional.precision import at_least_float32, no_autocast

_LUMINANCE = (0.299, 0.587, 0.114)  # BT.601
_LARGEST = 128  # side to which the release shrinks images; statistics of texture need no more
_SMALLEST = 1e-5  # of a clipped difference, in the release: no entry of the matrix is exactly 0
_SQUARE = 1e-12  # of a norm's square, as in tf.nn.l2_normalize
_RIDGE = 1e-6  # relative to the mean square of the columns


def gray_levels(images: Tensor, *, levels: int) -> Tensor:
    r"""The gray image in whole levels, as in the code of HEX (Wang et al., ICLR 2019).

    .. math:: \lfloor (n - 1) \, x / \max x \rfloor

    Args:
        images: ``(B, C, H, W)`` in [0, 1]. Three channels are red, green and blue; others are
            averaged. An image with a side above 128 is shrunk.
        levels: Number of levels, the paper's :math:`n`.

    Returns:
        ``(B, H, W)`` from 0 to levels - 1, in float32 or better; 0 for a black image.

    >>> gray_levels(torch.tensor([[[[0.0, 0.1], [0.3, 0.4]]]]), levels=5)
    tensor([[[0., 1.],
             [3., 4.]]])
    """
    images = at_least_float32(images)
    weights = images.new_tensor(_LUMINANCE) if images.shape[1] == 3 else None
    with no_autocast(images):
        gray = images.mean(1) if weights is None else torch.einsum("bchw,c->bhw", images, weights)
    height, width = (min(side, _LARGEST) for side in gray.shape[1:])
    gray = F.adaptive_avg_pool2d(gray, (height, width))
    brightest = gray.amax((1, 2), keepdim=True)
    # 1e-4 of a level more: a gray value that is meant to be a level may be rounded to less.
    scaled = (levels - 1) * gray / torch.where(brightest > 0, brightest, 1.0)
    return (scaled + 1e-4).floor()


def neighbor_difference(gray: Tensor, *, row: int, column: int) -> Tensor:
    """Each pixel's neighbor minus the pixel, as in the code of HEX.

    Args:
        gray: ``(B, H, W)`` gray levels.
        row: How many rows above the neighbor is.
        column: How many columns to the left it is. With 0 and 0 the levels themselves are
            returned, as in the authors' example.

    Returns:
        ``(B, H, W)``; a neighbor outside of the image counts as 0.

    >>> neighbor_difference(torch.tensor([[[1.0, 5.0, 7.0]]]), row=0, column=1)
    tensor([[[-1., -4., -2.]]])
    """
    if row == column == 0:
        return gray
    height, width = gray.shape[1:]
    return F.pad(gray, (column, 0, row, 0))[:, :height, :width] - gray


def cooccurrence(difference: Tensor, gray: Tensor, first: Tensor, second: Tensor) -> Tensor:
    r"""Neural gray-level co-occurrence matrix of HEX (Wang et al., ICLR 2019), section 3.1.

    .. math:: G_{kl} = \sum_p \mathrm{clip}(d_p - \lambda_k) \, \mathrm{clip}(x_p - \theta_l)

    with both differences clipped to [1e-5, 1] and the sum over the pixels.

    Args:
        difference: ``(B, H, W)`` the paper's :math:`d`, as ``neighbor_difference`` gives it.
        gray: ``(B, H, W)`` gray levels :math:`x`.
        first: ``(n,)`` learned thresholds :math:`\lambda`.
        second: ``(n,)`` learned thresholds :math:`\theta`.

    Returns:
        ``(B, n, n)``, in float32 or better.

    >>> pixels = torch.tensor([[[2.0, 3.0]]])
    >>> cooccurrence(pixels, pixels, torch.tensor([1.0, 2.5]), torch.tensor([0.0, 2.5]))
    tensor([[[2.0000, 0.5000],
             [0.5000, 0.2500]]])
    """
    above = (difference.flatten(1)[:, None] - first[:, None]).clamp(_SMALLEST, 1)  # (B, n, pixels)
    over = (gray.flatten(1)[:, None] - second[:, None]).clamp(_SMALLEST, 1)
    with no_autocast(gray):
        return at_least_float32(above) @ at_least_float32(over).transpose(1, 2)


def column_norms(x: Tensor) -> Tensor:
    """The 2-norm of each column over the batch, at least 1e-6: HEX divides features by it.

    >>> column_norms(torch.tensor([[3.0, 0.0], [4.0, 0.0]]))
    tensor([5.0000e+00, 1.0000e-06])
    """
    return at_least_float32(x).square().sum(0).clamp(min=_SQUARE).sqrt()


def without_texture(logits: Tensor, texture: Tensor) -> Tensor:
    r"""The part of the logits that those of the texture do not explain (HEX, eq. 4).

    .. math:: F_L = F_A - F_G (F_G^T F_G + \epsilon I)^{-1} F_G^T F_A

    The paper has no :math:`\epsilon`. The matrix is singular where the texture says nothing, and
    the authors' own advice is about the NaN that follow. It is a millionth of the matrix's mean
    diagonal here, and all is computed in float64.

    Args:
        logits: ``(B, K)`` from representation and texture, :math:`F_A`.
        texture: ``(B, K)`` from the texture alone, :math:`F_G`.

    Returns:
        ``(B, K)``, orthogonal over the batch to every column of ``texture``; the logits themselves
        where the texture is 0. It is 0 where the batch is not larger than the rank of ``texture``.

    >>> logits, texture = torch.tensor([[1.0], [2.0], [3.0]]), torch.ones(3, 1)
    >>> without_texture(logits, texture).round(decimals=3).tolist()
    [[-1.0], [0.0], [1.0]]
    """
    own, other = at_least_float32(logits).double(), at_least_float32(texture).double()
    gram = other.T @ other  # (K, K)
    ridge = _RIDGE * gram.diagonal().mean().detach() + _SQUARE
    eye = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    explained: Tensor = other @ torch.linalg.solve(gram + ridge * eye, other.T @ own)
    return (own - explained).to(at_least_float32(logits).dtype)
