"""Cutting a data set into splits by fraction, the same in every group."""

import math
from collections.abc import Hashable, Mapping, Sequence

import torch

from crossbias.data.assignment import shuffled
from crossbias.errors import CrossbiasError
from crossbias.seeds import generator_for


def split_by_fraction(
    groups: Sequence[Hashable], fractions: Mapping[str, float], *, seed: int
) -> list[str]:
    """A split for every sample; every split has its fraction of every group, up to rounding.

    Samples are dealt out group by group, each to the split that is furthest behind, so that
    groups of one or two samples do not all round to the same split.

    Args:
        groups: The group of each sample, such as (target, bias).
        fractions: Of each split, with sum 1.
        seed: Of which samples go where.

    >>> split_by_fraction("aaaabbbb", {"train": 0.75, "test": 0.25}, seed=0).count("test")
    2
    """
    if min(fractions.values()) < 0 or not math.isclose(sum(fractions.values()), 1):
        raise CrossbiasError(f"fractions of the splits must have the sum 1, got {dict(fractions)}")
    members: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    generator = generator_for(seed, "splits")
    order = [
        row for rows in members.values() for row in shuffled(torch.tensor(rows), generator).tolist()
    ]
    found = [""] * len(groups)
    behind = dict.fromkeys(fractions, 0.0)
    for row in order:
        for split, fraction in fractions.items():
            behind[split] += fraction
        found[row] = max(behind, key=lambda split: behind[split])
        behind[found[row]] -= 1
    return found
