"""BagNet18: a ResNet18 that sees small patches only, the biased network of ReBias for texture."""

from typing import Literal

import torch
from torch import Tensor, nn

from crossbias.networks.network import Network
from crossbias.parameters import Count

_WIDTHS = (64, 128, 256, 512)
_STRIDES = (2, 2, 2, 1)
_BLOCKS = 2  # of a stage
_WIDE_STAGES = {5: 1, 9: 2, 17: 3, 33: 4}  # receptive field: stages that begin with a 3 x 3 kernel


def bagnet18(
    *,
    num_classes: Count,
    in_channels: Count = 3,
    receptive_field: Literal[5, 9, 17, 33] = 33,
) -> Network:
    """BagNet18 (Brendel & Bethge, ICLR 2019, with basic blocks): g of ReBias for texture.

    A 1 x 1 and a 3 x 3 convolution, then four stages of two blocks; the first block of the first
    few stages has a 3 x 3 kernel, all others are 1 x 1. No kernel is padded. ReBias states 43
    pixels, which this construction cannot give; 33 is its largest.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the image.
        receptive_field: Side in pixels of the patch that one place of the maps sees.
    """
    wide = _WIDE_STAGES[receptive_field]
    stem = [
        nn.Conv2d(in_channels, _WIDTHS[0], 1, bias=False),
        nn.Conv2d(_WIDTHS[0], _WIDTHS[0], 3, bias=False),
        nn.BatchNorm2d(_WIDTHS[0], momentum=0.001),
        nn.ReLU(),
    ]
    blocks: list[nn.Module] = []
    before = _WIDTHS[0]
    for stage, (width, stride) in enumerate(zip(_WIDTHS, _STRIDES, strict=True)):
        for block in range(_BLOCKS):
            first = block == 0
            kernel = 3 if first and stage < wide else 1
            blocks.append(_block(before, width, kernel=kernel, stride=stride if first else 1))
            before = width
    body = nn.Sequential(*stem, *blocks)
    for module in body.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return Network(body, nn.Linear(before, num_classes))


def bagnet18_released(*, num_classes: Count, in_channels: Count = 3) -> Network:
    """The BagNet18 of ReBias's released code, which sees 5 x 5 pixels instead of the stated 43."""
    return bagnet18(num_classes=num_classes, in_channels=in_channels, receptive_field=5)


class ResidualBlock(nn.Module):
    """The rectified sum of a residual and a shortcut."""

    def __init__(self, residual: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.residual, self.shortcut = residual, shortcut

    def forward(self, maps: Tensor) -> Tensor:
        """Unpadded kernels make smaller maps; the shortcut loses its last rows and columns."""
        residual = self.residual(maps)
        height, width = residual.shape[-2:]
        return torch.relu(residual + self.shortcut(maps)[..., :height, :width])


def _block(before: int, width: int, *, kernel: int, stride: int) -> ResidualBlock:
    """A basic residual block whose first kernel is k x k, not padded, and second 1 x 1."""
    residual = nn.Sequential(
        nn.Conv2d(before, width, kernel, stride=stride, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, width, 1, bias=False),
        nn.BatchNorm2d(width),
    )
    if stride == 1 and before == width:
        return ResidualBlock(residual, nn.Identity())
    narrow = nn.Conv2d(before, width, 1, stride=stride, bias=False)
    return ResidualBlock(residual, nn.Sequential(narrow, nn.BatchNorm2d(width)))
