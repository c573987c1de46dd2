"""The small networks of the papers. Everything larger comes from timm."""

import itertools

import torch.nn.functional as F
from torch import Tensor, nn

from crossbias.networks.fourier import FourierConv2d
from crossbias.networks.fused import FusedSequential
from crossbias.networks.network import Network, averaged
from crossbias.parameters import Count, Fraction

_WIDTHS = (16, 32, 64, 128)


def convnet(*, num_classes: Count, in_channels: Count = 3, kernel: Count = 7) -> Network:
    """The four-layer ConvNet of ReBias (ICML 2020, section 4.1): f with kernel 7.

    Full resolution throughout, batch normalization and ReLU after each convolution.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the image.
        kernel: Side of every convolution; odd. With 1 a feature sees one pixel, its color.
    """
    body = FusedSequential(*_convolutions(in_channels, kernel, last=nn.ReLU()))
    return Network(body, nn.Linear(_WIDTHS[-1], num_classes))


def convnet_1x1(*, num_classes: Count, in_channels: Count = 3) -> Network:
    """The biased network g of ReBias: the same ConvNet with 1 x 1 kernels, blind to shape."""
    return convnet(num_classes=num_classes, in_channels=in_channels, kernel=1)


def convnet_end(*, num_classes: Count, in_channels: Count = 3, kernel: Count = 7) -> Network:
    """The ConvNet as EnD's authors trained it: last ReLU a Tanh, classifier on unit features."""
    body = _UnitNorm(FusedSequential(*_convolutions(in_channels, kernel, last=nn.Tanh())))
    return Network(body, nn.Linear(_WIDTHS[-1], num_classes))


def simple_convnet_1(
    *, num_classes: Count, in_channels: Count = 3, dropout: Fraction = 0.5
) -> Network:
    """Simple ConvNet-1 of the PGD paper (Figure 9a), with the layer order of its release.

    Nothing is padded: images of 28 pixels end in a 1 x 1 map, those of 56 pixels (Watermarked
    MNIST) in the 8 x 8 map that the figure pools. Images need 25 pixels a side.
    """
    return _three_convolutions(num_classes, in_channels, dropout, padding=0)


def small_convnet(
    *, num_classes: Count, in_channels: Count = 3, dropout: Fraction = 0.5
) -> Network:
    """Simple ConvNet-1 with a padding of 2: no paper's, but for images of any size.

    It is what glyphs, the demo and the audit train. Images of 28 pixels end in 8 x 8 maps.
    """
    return _three_convolutions(num_classes, in_channels, dropout, padding=2)


def _three_convolutions(
    num_classes: int, in_channels: int, dropout: float, padding: int
) -> Network:
    body = nn.Sequential(
        nn.Conv2d(in_channels, 8, 4, padding=padding), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Dropout(dropout), nn.AvgPool2d(2),
        nn.Conv2d(8, 32, 4, padding=padding), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Dropout(dropout), nn.AvgPool2d(2),
        nn.Conv2d(32, 64, 4, padding=padding), nn.ReLU(), nn.BatchNorm2d(64),
        nn.Dropout(dropout),
    )  # fmt: skip
    return Network(body, nn.Linear(64, num_classes))


def lnl_convnet(*, num_classes: Count, in_channels: Count = 3, normalized: bool = False) -> Network:
    """The network of LNL's colored MNIST (CVPR 2019, section 5.1), as released.

    The first two convolutions are LNL's f, which gives maps of 14 x 14 for 28-pixel images; the
    other two and the head are its g.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the image.
        normalized: Batch normalization after every convolution, as in the paper; the released
            network has it on the input alone.
    """
    convolutions = [
        nn.Conv2d(in_channels, 32, 5, padding=2),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.Conv2d(32, 64, 3, padding=1, stride=2),
        nn.Conv2d(64, 64, 3, padding=1),
    ]
    layers: list[nn.Module] = [nn.BatchNorm2d(in_channels)]
    for number, convolution in enumerate(convolutions):
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
        after = [nn.BatchNorm2d(convolution.out_channels)] if normalized else []
        layers += [convolution, *after, nn.ReLU()]
        if number == 0:
            layers.append(nn.MaxPool2d(3, stride=2, padding=1))
    return Network(nn.Sequential(*layers), nn.Linear(64, num_classes))


def simple_convnet_2(
    *, num_classes: Count, in_channels: Count = 3, dropout: Fraction = 0.5
) -> Network:
    """Simple ConvNet-2 of the PGD paper (Figure 9b), for its cartoon faces.

    Five convolutions of sizes 6, 6, 5, 5 and 4, each followed by average pooling. The paper says
    nothing about padding, normalization and dropout: ours pads by half a kernel and has the
    others as in Simple ConvNet-1.
    """
    layers: list[nn.Module] = []
    channels = (in_channels, 8, 16, 16, 32, 32)
    for before, after, kernel in zip(channels, channels[1:], (6, 6, 5, 5, 4), strict=False):
        layers += [nn.Conv2d(before, after, kernel, padding=kernel // 2), nn.BatchNorm2d(after)]
        layers += [nn.ReLU(), nn.Dropout(dropout), nn.AvgPool2d(2)]
    return Network(nn.Sequential(*layers[:-1]), nn.Linear(32, num_classes))


def mlp(
    *, num_classes: Count, in_features: Count, width: Count = 100, layers: Count = 2
) -> Network:
    """A multi-layer perceptron with ReLU, for vectors or flattened images."""
    sizes = [in_features] + [width] * layers
    hidden = [
        module
        for before, after in itertools.pairwise(sizes)
        for module in (nn.Linear(before, after), nn.ReLU())
    ]
    return Network(nn.Sequential(nn.Flatten(), *hidden), nn.Linear(width, num_classes))


def linear(*, num_classes: Count, in_features: Count) -> Network:
    """One linear layer, for vectors or flattened images: logistic regression."""
    return Network(nn.Flatten(), nn.Linear(in_features, num_classes))


def mlp_first(*, num_classes: Count, width: Count = 100, layers: Count = 2) -> Network:
    """A perceptron that sees the first coordinate only: the g of ReBias's toy (section 3.2)."""
    seeing = mlp(num_classes=num_classes, in_features=1, width=width, layers=layers)
    return Network(nn.Sequential(_FirstColumn(), seeing.body), seeing.head)


class _FirstColumn(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.flatten(1)[:, :1]


class _UnitNorm(nn.Module):
    """Maps, and their spatial mean divided by its length."""

    def __init__(self, convolutions: nn.Module) -> None:
        super().__init__()
        self.convolutions = convolutions

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        maps = self.convolutions(inputs)
        return maps, F.normalize(averaged(maps))


def _convolutions(in_channels: int, kernel: int, last: nn.Module) -> list[nn.Module]:
    modules: list[nn.Module] = []
    for before, after in itertools.pairwise((in_channels, *_WIDTHS)):
        kind = FourierConv2d if kernel > 1 else nn.Conv2d
        # No bias: the batch normalization that follows subtracts it again.
        convolution = kind(before, after, kernel, padding=kernel // 2, bias=False)
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
        modules += [convolution, nn.BatchNorm2d(after), nn.ReLU()]
    return [*modules[:-1], last]
