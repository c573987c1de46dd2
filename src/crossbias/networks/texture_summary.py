"""The parts of HEX: a summary of an image's texture, and features divided by their norms."""

import torch
from torch import Tensor, nn

from crossbias.functional import cooccurrence, gray_levels, neighbor_difference
from crossbias.networks.network import pooled

_FEATURES = 32  # of the summary, in all of the authors' experiments
_DEAD = 1e-6  # the norm of a feature that was 0 in the whole batch


class TextureSummary(nn.Module):
    """Features from a neural gray-level co-occurrence matrix, and their part in a classifier.

    Args:
        classes: Number of logits.
        levels: Number of gray levels, and of thresholds.
        row: Rows between neighbors.
        column: Columns between neighbors.

    Attributes:
        head: The part of the shared classifier that sees the texture.
    """

    def __init__(self, classes: int, *, levels: int, row: int, column: int) -> None:
        super().__init__()
        self.levels, self.row, self.column = levels, row, column
        self.first = nn.Parameter(torch.rand(levels) * levels)  # lambda
        self.second = nn.Parameter(torch.rand(levels) * levels)  # theta
        self.summary = nn.Linear(levels**2, _FEATURES)
        self.head = nn.Linear(_FEATURES, classes, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """Features ``(B, 32)`` of images ``(B, C, H, W)`` in [0, 1]."""
        gray = gray_levels(images, levels=self.levels)
        difference = neighbor_difference(gray, row=self.row, column=self.column)
        matrix = cooccurrence(difference, gray, self.first, self.second)
        features: Tensor = self.summary(matrix.flatten(1)).relu()
        return features


class NormalizedBody(nn.Module):
    """A body whose features are divided by their norms over a batch, for evaluation.

    In evaluation mode the norms are moving averages, so that an answer does not depend on the
    other images of a batch. In training mode the features stay as they are: HEX divides them
    itself, by the norms of the whole batch, of which a process sees only a share.

    Args:
        body: As for ``Network``.
        features: Number of its features.
    """

    norms: Tensor

    def __init__(self, body: nn.Module, features: int) -> None:
        super().__init__()
        self.body = body
        self.register_buffer("norms", torch.zeros(features))  # 0 before the first batch

    def forward(self, inputs: Tensor) -> tuple[Tensor | None, Tensor]:
        """Maps, if there are any, and features."""
        maps, features = pooled(self.body(inputs))
        if self.training:
            return maps, features
        return maps, features / torch.where(self.norms > _DEAD, self.norms, 1.0)

    @torch.no_grad()
    def track(self, norms: Tensor) -> None:
        """Take the norms of a training batch into the moving averages."""
        mixed = self.norms.lerp(norms.to(self.norms.dtype), 0.1)  # as batch normalization does
        self.norms.copy_(torch.where(self.norms > _DEAD, mixed, norms))
