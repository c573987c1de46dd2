"""Networks for clips (B, C, T, H, W): 3D-ResNet18 and the 2D-ResNet18 that sees single frames."""

import itertools

from torch import nn

from crossbias.networks.bagnet import ResidualBlock
from crossbias.networks.network import Network
from crossbias.parameters import Count

_WIDTHS = (32, 64, 128, 256)
_BLOCKS = 2  # of a stage


def resnet18_3d(*, num_classes: Count, in_channels: Count = 3) -> Network:
    """3D-ResNet18 of ReBias (ICML 2020, Table A2): f for clips, sees 19 frames.

    The first kernel of each block and of the network spans three frames. Only space is made
    smaller from stage to stage, never time.
    """
    return _resnet18(num_classes, in_channels, frames=3)


def resnet18_2d(*, num_classes: Count, in_channels: Count = 3) -> Network:
    """2D-ResNet18 of ReBias (ICML 2020, Table A2): g for clips, sees single frames.

    The table prints 32 channels for all its stages beside output sizes of 64, 128 and 256; these
    are the sizes, as in the released code.
    """
    return _resnet18(num_classes, in_channels, frames=1)


def _resnet18(num_classes: int, in_channels: int, *, frames: int) -> Network:
    layers: list[nn.Module] = [
        _convolution(in_channels, _WIDTHS[0], frames=frames, kernel=7, stride=2),
        nn.BatchNorm3d(_WIDTHS[0]),
        nn.ReLU(),
        nn.MaxPool3d((1, 3, 3), stride=(1, 2, 2), padding=(0, 1, 1)),
    ]
    for before, width in itertools.pairwise((_WIDTHS[0], *_WIDTHS)):
        stride = 1 if before == width else 2
        layers.append(_block(before, width, frames=frames, stride=stride))
        layers += [_block(width, width, frames=frames, stride=1) for _ in range(_BLOCKS - 1)]
    return Network(nn.Sequential(*layers), nn.Linear(_WIDTHS[-1], num_classes))


def _block(before: int, width: int, *, frames: int, stride: int) -> ResidualBlock:
    """A basic residual block; its first kernel spans ``frames`` frames, its second one."""
    residual = nn.Sequential(
        _convolution(before, width, frames=frames, kernel=3, stride=stride),
        nn.BatchNorm3d(width),
        nn.ReLU(),
        _convolution(width, width, frames=1, kernel=3, stride=1),
        nn.BatchNorm3d(width),
    )
    if stride == 1 and before == width:
        return ResidualBlock(residual, nn.Identity())
    narrow = _convolution(before, width, frames=1, kernel=1, stride=stride)
    return ResidualBlock(residual, nn.Sequential(narrow, nn.BatchNorm3d(width)))


def _convolution(before: int, after: int, *, frames: int, kernel: int, stride: int) -> nn.Conv3d:
    layer = nn.Conv3d(
        before,
        after,
        (frames, kernel, kernel),
        stride=(1, stride, stride),
        padding=(frames // 2, kernel // 2, kernel // 2),
        bias=False,
    )
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer
