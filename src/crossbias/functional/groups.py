"""Losses of groups, and weights that grow where they are large."""

import torch
from torch import Tensor

from crossbias.functional.precision import at_least_float32


def group_means(losses: Tensor, group: Tensor, *, num_groups: int) -> Tensor:
    """Mean loss of each group in a batch, 0 for a group that the batch does not have.

    Args:
        losses: ``(B,)`` one for each sample.
        group: ``(B,)`` numbers of groups.
        num_groups: Number of groups, in this batch or not.

    Returns:
        ``(num_groups,)`` in float32 or better.

    >>> group_means(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 2, 2]), num_groups=3)
    tensor([1., 0., 4.])
    """
    member = group == torch.arange(num_groups, device=group.device)[:, None]  # (G, B)
    return (member * at_least_float32(losses)).sum(1) / member.sum(1).clamp(min=1)


def exponentiated_gradient(log_weights: Tensor, losses: Tensor, *, step_size: float) -> Tensor:
    r"""One step of GroupDRO's weights towards the groups with large losses.

    .. math:: q_g \leftarrow \frac{q_g \exp(\eta\, l_g)}{\sum_{g'} q_{g'} \exp(\eta\, l_{g'})}

    This is the update of q in Algorithm 1 of Sagawa et al. (ICLR 2020). It is computed on
    logarithms: a weight that became 0 could never grow again.

    Args:
        log_weights: ``(G,)`` logarithms of :math:`q`, which sums to 1.
        losses: ``(G,)`` those of the groups, :math:`l`.
        step_size: :math:`\eta`.

    >>> even = torch.tensor([0.5, 0.5]).log()
    >>> exponentiated_gradient(even, torch.tensor([3.0, 0.0]).log1p(), step_size=1.0).exp()
    tensor([0.8000, 0.2000])
    """
    raised = at_least_float32(log_weights) + step_size * at_least_float32(losses)
    return torch.log_softmax(raised, 0)
