"""PGD: which labels to trust, how much a sample adds to the prejudice, how often to draw it."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from crossbias.functional.precision import at_least_float32

_SMALLEST_NORM = 1e-12

NoiseThreshold = Literal["losses", "ratios"]
"""Whether losses, or losses over entropies, are summed for delta of PGD's eq. 2."""


def magnitude_score(norms: Tensor, target: Tensor) -> Tensor:
    r"""Magnitude score M of PGD (ICLR 2022 submission), eq. 1, in logarithms.

    .. math:: M(i) = \frac{1/\|\nabla_i\|}{\sum_j 1/\|\nabla_j\|}

    with the sum over the samples of i's class.

    Args:
        norms: ``(n,)`` gradient norms; zero counts as very small.
        target: ``(n,)`` class numbers.

    Returns:
        ``(n,)`` log M, in float64.

    >>> magnitude_score(torch.tensor([1.0, 3.0]), torch.tensor([0, 0])).exp()
    tensor([0.7500, 0.2500], dtype=torch.float64)
    """
    return _by_class(
        norms.double().clamp(min=_SMALLEST_NORM),
        target,
        lambda norm: -norm.log() - torch.logsumexp(-norm.log(), 0),
    )


def direction_score(log_density: Tensor, target: Tensor, *, floor: float) -> Tensor:
    r"""Direction score D of PGD (ICLR 2022 submission), eq. 1, in logarithms.

    .. math:: D(i) = p_{dir}(i) / \sum_j p_{dir}(j)

    with the sum over the samples of i's class.

    Args:
        log_density: ``(n,)`` log density of each sample's gradient direction among its class, up
            to a constant, as ``vmf_log_density`` gives it.
        target: ``(n,)`` class numbers.
        floor: Smallest density relative to the class's largest: without one a few outliers,
            whose density is practically zero, would take all draws.

    Returns:
        ``(n,)`` log D, in float64.
    """
    smallest = torch.tensor(floor, dtype=torch.float64).log()

    def normalized(density: Tensor) -> Tensor:
        density = (density - density.max()).clamp(min=smallest.item())
        return density - torch.logsumexp(density, 0)

    return _by_class(log_density.double(), target, normalized)


def acceptance(magnitude: Tensor, direction: Tensor, target: Tensor, *, balance: float) -> Tensor:
    r"""Sampling probability of PGD (ICLR 2022 submission), section 4.2.

    With the weighted harmonic mean of the two scores,

    .. math:: S(i) = \frac{1 + \lambda}{1/M(i) + \lambda/D(i)}, \qquad
        p_s(i) = \frac{\min_j S(j)}{S(i)}

    with the minimum over the samples of i's class. The formula of S is reconstructed: the text
    names a harmonic mean and a balance of 0 for the magnitude alone. It says that the score "is
    computed for each class separately", and C is taken to be so too: scores are shares of a class,
    and with one C for all, a class with a few samples fitted almost exactly, whose share is
    large, would take most draws. Drawing uniformly and accepting with :math:`p_s` (Algorithm 1) is
    drawing in proportion to :math:`p_s`.

    Args:
        magnitude: ``(n,)`` log M.
        direction: ``(n,)`` log D.
        target: ``(n,)`` class numbers.
        balance: The paper's lambda: 0 for the magnitude alone, infinity for the direction alone.

    Returns:
        ``(n,)`` probabilities in (0, 1], float64; each class has a sample of probability 1.

    >>> equal, target = torch.tensor([0.5, 0.5]).log(), torch.tensor([0, 0])
    >>> acceptance(torch.tensor([0.75, 0.25]).log(), equal, target, balance=0.0)
    tensor([0.3333, 1.0000], dtype=torch.float64)
    """
    magnitude, direction = magnitude.double(), direction.double()
    if balance == float("inf"):
        score = direction
    else:
        weight = torch.tensor(balance, dtype=torch.float64).log()  # -inf for 0
        score = -torch.logaddexp(-magnitude, weight - direction)  # log S up to a constant
    return _by_class(score, target, lambda own: (own.min() - own).exp())


def _by_class(values: Tensor, target: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a function to the values of each class by themselves."""
    result = torch.empty_like(values)
    for number in range(int(target.max()) + 1):
        rows = target == number
        if rows.any():
            result[rows] = function(values[rows])
    return result


def clean_samples(
    cross_entropy: Tensor, entropy: Tensor, *, threshold: NoiseThreshold = "losses"
) -> Tensor:
    r"""Which labels look right, as in PGD (ICLR 2022 submission), eq. 2.

    A rare sample has a high loss, but the network is also unsure of it; a sample with a wrong
    label has a high loss although the network is sure. So the loss is compared with the entropy
    of the prediction:

    .. math:: \frac{\mathrm{CE}_i}{H_i} < \delta

    which is computed as :math:`\mathrm{CE}_i < \delta H_i`: the entropy of a network that is sure
    is 0. A loss of 0 is that of a sample fitted exactly, whose ratio tends to 0: it is clean.

    Args:
        cross_entropy: ``(n,)`` losses, not negative.
        entropy: ``(n,)`` entropies of the predictions, not negative.
        threshold: How delta is computed (see ``noise_threshold``).

    Returns:
        ``(n,)`` bool. With delta of the losses some sample is always left out, up to rounding and
        unless all losses are 0: delta is a mean of the ratios.

    >>> clean_samples(torch.tensor([0.1, 1.5, 1.5]), torch.tensor([0.2, 1.6, 0.1]))
    tensor([ True,  True, False])
    """
    loss = at_least_float32(cross_entropy)
    delta = noise_threshold(cross_entropy, entropy, threshold=threshold)
    return (loss < delta * at_least_float32(entropy)) | (loss == 0)


def noise_threshold(
    cross_entropy: Tensor, entropy: Tensor, *, threshold: NoiseThreshold = "losses"
) -> Tensor:
    r"""The slope :math:`\delta` of the line that parts clean from noisy (PGD, eq. 2, Figure 6).

    .. math:: \delta = \frac{\sum_i \mathrm{CE}_i}{\sum_i H_i} \quad\text{or}\quad
        \delta = \frac{\sum_i L_i}{\sum_i H_i}, \qquad L_i = \frac{\mathrm{CE}_i}{H_i}

    The equation has the second, read literally. The paper keeps 5 of 2,846 wrong labels (Table 16),
    which only the first does.

    Args:
        cross_entropy: ``(n,)`` losses.
        entropy: ``(n,)`` entropies of the predictions.
        threshold: ``losses`` for the first, ``ratios`` for the second. One sample of which the
            network is wrongly sure can make the second as large as one likes.

    Returns:
        A scalar, in float32 or better; finite where all entropies are 0.

    >>> noise_threshold(torch.tensor([1.0, 3.0]), torch.tensor([0.5, 1.5]))
    tensor(2.)
    >>> noise_threshold(torch.tensor([1.0, 3.0]), torch.tensor([0.5, 1.5]), threshold="ratios")
    tensor(2.)
    >>> noise_threshold(torch.tensor([1.0, 3.0]), torch.tensor([0.5, 0.5]), threshold="ratios")
    tensor(8.)
    """
    loss, uncertainty = at_least_float32(cross_entropy), at_least_float32(entropy)
    smallest, largest = torch.finfo(loss.dtype).tiny, torch.finfo(loss.dtype).max
    if threshold == "ratios":
        loss = (loss / uncertainty.clamp(min=smallest)).clamp(max=largest / len(loss))
    return (loss.sum() / uncertainty.sum().clamp(min=smallest)).clamp(max=largest)
