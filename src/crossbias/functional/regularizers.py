"""Terms that shape the features of a batch by its target and bias labels."""

from typing import Literal, get_args

from torch import Tensor

from crossbias.functional.precision import at_least_float32, no_autocast, unit_rows
from crossbias.types import UNKNOWN

EnDVariant = Literal["paper", "released"]


def end_terms(
    features: Tensor, target: Tensor, bias: Tensor, *, variant: EnDVariant
) -> tuple[Tensor, Tensor]:
    r"""The two terms of EnD (Tartaglione et al., CVPR 2021), before alpha and beta of eq. 5.

    Both read the cosine similarities :math:`g_{ij}` of the batch (eqs. 2-4), clamped to [-1, 1].
    The first asks samples of one bias value to be orthogonal, the second samples of one target
    but different bias values to be parallel. With ``variant="paper"`` (eqs. 6-12):

    .. math:: R_\perp = \frac1B \sum_b \frac{1}{M_b^2} \sum_{i,j \in b} |g_{ij}|, \qquad
        R_\parallel = 1 - \frac1M \sum_i \frac{1}{|O_i|} \sum_{j \in O_i} g_{ij}

    over the :math:`B` bias values present in the batch, :math:`O_i` being the samples with i's
    target and another bias, and the second mean over the samples that have any (eq. 12).

    ``variant="released"`` is what the authors' code, and so the paper's tables, computed:

    .. math:: R_\perp = \frac1P \sum_b \Big|\sum_{i>j \in b} g_{ij}\Big|, \qquad
        R_\parallel = 1 - \frac1Q \sum_{(i, j)} \frac{1 + g_{ij}}{2}

    over all :math:`P` pairs of one bias value, and over the :math:`Q` pairs of one target and
    different bias in which the sample with the smaller bias number comes later in the batch;
    it depends on the order of the batch. The two variants differ several-fold in scale, so
    alpha and beta tuned for one do not fit the other.

    Args:
        features: ``(M, D)`` outputs :math:`y` of the regularized layer, in any scale; a zero
            vector is orthogonal to everything.
        target: ``(M,)`` class numbers, the paper's :math:`\mathcal T`.
        bias: ``(M,)`` bias numbers, :math:`\mathcal B`. Samples whose bias is ``UNKNOWN`` (-1)
            take part in nothing.
        variant: ``"paper"`` or ``"released"``.

    Returns:
        :math:`R_\perp` (disentangling) and :math:`R_\parallel` (entangling), scalars in float32
        or better; a term to which no sample or pair contributes is 0.

    Raises:
        ValueError: The variant is not one of the two, or the shapes do not fit.

    >>> import torch
    >>> features = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> target, bias = torch.tensor([0, 1, 0]), torch.tensor([1, 1, 0])
    >>> end_terms(features, target, bias, variant="paper")
    (tensor(1.), tensor(1.))
    >>> end_terms(features, target, bias, variant="released")
    (tensor(1.), tensor(0.5000))
    """
    if variant not in get_args(EnDVariant):
        raise ValueError(f"variant must be 'paper' or 'released', got {variant!r}")
    if features.ndim != 2 or not features.shape[:1] == target.shape == bias.shape:
        raise ValueError(
            "end_terms needs (M, D) features with (M,) target and bias, got "
            f"{tuple(features.shape)}, {tuple(target.shape)} and {tuple(bias.shape)}"
        )
    with no_autocast(features):
        unit = unit_rows(at_least_float32(features))
        similarity = (unit @ unit.T).clamp(-1, 1)  # g, (M, M)
        if variant == "paper":
            return _disentangling(similarity, bias), _entangling(similarity, target, bias)
        return (
            _released_disentangling(similarity, bias),
            _released_entangling(similarity, target, bias),
        )


def has_entangling_pairs(target: Tensor, bias: Tensor) -> Tensor:
    """Whether two samples of the batch share a target and differ in bias (EnD, eq. 12).

    Args:
        target: ``(M,)`` class numbers.
        bias: ``(M,)`` bias numbers, ``UNKNOWN`` (-1) where not known.

    Returns:
        A scalar, 1 or 0.

    >>> import torch
    >>> has_entangling_pairs(torch.tensor([0, 0, 1]), torch.tensor([1, 0, 1]))
    tensor(1.)
    >>> has_entangling_pairs(torch.tensor([0, 0, 1]), torch.tensor([1, 1, 0]))
    tensor(0.)
    """
    return _entangling_pairs(target, bias).any().float()


def _entangling_pairs(target: Tensor, bias: Tensor) -> Tensor:
    """Which pairs share a target and differ in bias, both known, (M, M) bool."""
    known = bias != UNKNOWN
    return (target[:, None] == target) & (bias[:, None] != bias) & known & known[:, None]


def _disentangling(similarity: Tensor, bias: Tensor) -> Tensor:
    """Eq. 7; sums over bias values are sums over samples, each weighed by 1 / M_b."""
    same = _same_bias(bias)
    size = same.sum(1).clamp(min=1)  # M_b of each sample's bias
    present = ((bias != UNKNOWN) / size).sum().round()  # B
    per_sample = (similarity.abs() * same).sum(1)
    return (per_sample / size**2).sum() / present.clamp(min=1)


def _entangling(similarity: Tensor, target: Tensor, bias: Tensor) -> Tensor:
    """Eq. 10 over the samples for which eq. 12 holds."""
    other = _entangling_pairs(target, bias)
    size = other.sum(1)
    qualified = (size > 0).sum()
    mean = ((similarity * other).sum(1) / size.clamp(min=1)).sum() / qualified.clamp(min=1)
    return (1 - mean) * (qualified > 0)


def _released_disentangling(similarity: Tensor, bias: Tensor) -> Tensor:
    same = _same_bias(bias)
    pairs = same.tril(-1)  # i > j
    inner = same.to(similarity.dtype) @ (similarity * pairs).sum(1)  # its bias's sum, per sample
    return (inner.abs() / same.sum(1).clamp(min=1)).sum() / pairs.sum().clamp(min=1)


def _released_entangling(similarity: Tensor, target: Tensor, bias: Tensor) -> Tensor:
    known = bias != UNKNOWN
    # row i comes later in the batch than column j and has the smaller bias number
    pairs = ((target[:, None] == target) & (bias[:, None] < bias) & known[:, None]).tril(-1)
    count = pairs.sum()
    mean = (similarity * pairs).sum() / count.clamp(min=1)
    return (1 - mean) / 2 * (count > 0)  # 1 - mean of (1 + g) / 2


def _same_bias(bias: Tensor) -> Tensor:
    """Which pairs share a known bias value, (M, M) bool."""
    return (bias[:, None] == bias) & (bias != UNKNOWN)
