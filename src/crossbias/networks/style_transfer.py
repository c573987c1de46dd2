"""Style transfer by AdaIN: the networks of the released code, with weights that a user names."""

from pathlib import Path

import torch
from torch import Tensor, nn

from crossbias.errors import CrossbiasError
from crossbias.functional import adaptive_instance_normalization, channel_statistics
from crossbias.networks.weights import read_weights

SMALLEST_SIDE = 9  # pixels: an eighth of it, rounded up, must have two positions to reflect

# Channels of VGG-19's convolutions up to relu4_1; None is a pooling.
_WIDTHS = (64, 64, None, 128, 128, None, 256, 256, 256, 256, None, 512)


class StyleTransfer(nn.Module):
    """Encoder and decoder of AdaIN (Huang & Belongie, ICCV 2017).

    The encoder is VGG-19 with reflected borders up to relu4_1, behind a 1 x 1 convolution that
    changes the colors to those of its training. The decoder is its mirror image. Layers have the
    numbers of the released PyTorch weights, ``vgg_normalised.pth`` and ``decoder.pth``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = _encoder(), _decoder()

    @classmethod
    def from_files(cls, encoder: Path, decoder: Path) -> "StyleTransfer":
        """The networks with released weights, in evaluation mode.

        Args:
            encoder: Weights of VGG-19; layers after relu4_1 are not used.
            decoder: Weights of the decoder.
        """
        transfer = cls()
        for network, path in ((transfer.encoder, encoder), (transfer.decoder, decoder)):
            needed, found = network.state_dict(), read_weights(path)
            wrong = [
                name
                for name, tensor in needed.items()
                if name not in found or found[name].shape != tensor.shape
            ]
            if wrong:
                name = wrong[0]
                there = tuple(found[name].shape) if name in found else "nothing"
                raise CrossbiasError(
                    f"the weights in {path} are not those of AdaIN: {name} must be "
                    f"{tuple(needed[name].shape)}, got {there}; name the files vgg_normalised.pth "
                    f"and decoder.pth of a released AdaIN"
                )
            network.load_state_dict({name: found[name] for name in needed})
        return transfer.eval().requires_grad_(False)

    def style(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation of each channel, both (B, 512), of style images (B, 3, H, W)."""
        return channel_statistics(self.encoder(images))

    def forward(self, images: Tensor, mean: Tensor, deviation: Tensor, strength: float) -> Tensor:
        """Images in another style, of the same size and in [0, 1].

        Args:
            images: ``(B, 3, H, W)`` in [0, 1], with sides of 9 pixels or more.
            mean: ``(B, 512)`` of the style.
            deviation: ``(B, 512)`` of the style.
            strength: 1 for the style alone, 0 for the image's own.
        """
        own = self.encoder(images)
        styled = adaptive_instance_normalization(own, mean, deviation)
        decoded: Tensor = self.decoder(torch.lerp(own, styled, strength))
        return decoded[..., : images.shape[-2], : images.shape[-1]].clamp(0, 1)


def _encoder() -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(3, 3, 1)]
    before = 3
    for width in _WIDTHS:
        if width is None:
            layers.append(nn.MaxPool2d(2, ceil_mode=True))
        else:
            layers += _convolution(before, width)
            before = width
    return nn.Sequential(*layers)


def _decoder() -> nn.Sequential:
    """The encoder's convolutions and poolings in the opposite order, without a ReLU at the end."""
    layers: list[nn.Module] = []
    widths = [3, *_WIDTHS]
    for place in range(len(widths) - 1, 0, -1):
        width, after = widths[place], widths[place - 1]
        if width is None:
            layers.append(nn.UpsamplingNearest2d(scale_factor=2))
        else:
            layers += _convolution(width, after if after is not None else widths[place - 2] or 0)
    return nn.Sequential(*layers[:-1])


def _convolution(before: int, after: int) -> list[nn.Module]:
    return [nn.ReflectionPad2d(1), nn.Conv2d(before, after, 3), nn.ReLU()]
