"""Whether two columns of labels are independent, also where samples come in clusters."""

from typing import Final

import torch
from torch import Tensor

CLEAR: Final = 0.05
"""An association with a larger p-value may be chance."""


def independence(one: Tensor, other: Tensor, *, cluster: Tensor | None = None) -> float:
    """The p-value of Pearson's chi-square test that two columns are independent.

    Clusters inflate the statistic. It is divided by the mean of its generalized design effects (Rao
    and Scott 1981), and compared with an F distribution whose second degrees of freedom are the
    clusters less one, times those of the table. The effects come from the sums over each cluster of

        z[a, b] = (1[one = a] - p[a]) (1[other = b] - q[b]),

    whose squares, relative to p[a] q[b], are (r - 1)(c - 1) n on average if samples are
    independent.

    Args:
        one: ``(n,)`` int64, labels from 0.
        other: ``(n,)`` int64, labels from 0.
        cluster: ``(n,)`` int64, equal for samples that belong together; None where all are
            independent.

    >>> columns = torch.tensor([[0] * 40 + [1] * 40, [0] * 30 + [1] * 10 + [0] * 10 + [1] * 30])
    >>> f"{independence(*columns):.3g}", round(independence(*columns, cluster=torch.arange(80)), 6)
    ('7.74e-06', 2.6e-05)
    """
    from scipy.special import chdtrc, fdtrc

    n = len(one)
    pairs, group = torch.unique(torch.stack([one, other]), dim=1, return_inverse=True)
    of_one, of_other, of_pair = (torch.bincount(each).double() for each in (one, other, group))
    expected = of_one[pairs[0]] * of_other[pairs[1]] / n
    freedom = (int((of_one > 0).sum()) - 1) * (int((of_other > 0).sum()) - 1)
    if not freedom:
        return 1.0
    # Pearson's statistic, over the pairs that occur: sum of count²/expected, less n.
    statistic = float((of_pair.square() / expected).sum()) - n
    if cluster is None:
        return float(chdtrc(freedom, max(0.0, statistic)))
    members = torch.unique(cluster, return_inverse=True)[1]
    squares = (
        _squares(members, group, n / expected)
        - _squares(members, one, n / of_one)
        - _squares(members, other, n / of_other)
        + float(torch.bincount(members).double().square().sum())
    )
    effect = max(1.0, squares / n / freedom)
    clusters = int(members.max()) + 1
    second = freedom * max(clusters - 1, 1)
    return float(fdtrc(freedom, second, max(0.0, statistic) / effect / freedom))


def _squares(members: Tensor, label: Tensor, weight: Tensor) -> float:
    """The sum over clusters and labels of weight[label] * (samples of both)²."""
    pairs, place = torch.unique(torch.stack([members, label]), dim=1, return_inverse=True)
    return float((torch.bincount(place).double().square() * weight[pairs[1]]).sum())
