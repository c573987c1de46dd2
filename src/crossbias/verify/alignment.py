"""Which values of an attribute go along with which class, by name."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset


class Alignment(NamedTuple):
    """What training data says about one attribute."""

    values: tuple[str, ...]
    aligned: Tensor  # (classes, values) bool

    def of(self, values: Sequence[str]) -> Tensor:
        """The table for another split's values; one that was never seen goes along with no class.

        >>> Alignment(("red", "blue"), torch.eye(2) > 0).of(["blue", "green"]).tolist()
        [[False, False], [True, False]]
        """
        places = {name: place for place, name in enumerate(self.values)}
        table = torch.zeros(len(self.aligned), len(values), dtype=torch.bool)
        for column, name in enumerate(values):
            if name in places:
                table[:, column] = self.aligned[:, places[name]]
        return table


def alignments_of(data: BiasedDataset) -> dict[str, Alignment]:
    """The alignment of every attribute, declared or read from the counts."""
    return {
        name: Alignment(data.values[name], data.with_bias(name).alignment())
        for name in data.attributes
    }
