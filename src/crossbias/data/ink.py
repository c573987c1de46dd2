"""From strokes to pixels: the distance of every pixel to the nearest piece of a stroke."""

import math

import torch
from torch import Tensor


def ink(pieces: Tensor, radius: Tensor, *, image_size: int) -> Tensor:
    """Draw strokes with a round pen.

    Args:
        pieces: ``(n, P, 2, 2)`` start and end, x and y, of straight pieces, in pixels. None may
            have length 0.
        radius: ``(n, 1)`` half the thickness of the stroke, in pixels.
        image_size: Height and width of the images in pixels.

    Returns:
        ``(n, image_size, image_size)`` uint8: 255 from half a pixel inside the edge of the stroke,
        0 from half a pixel outside.
    """
    inner, outer = ((radius + side).square().float().unsqueeze(2) for side in (-0.5, 0.5))
    amount = (outer - _squared_distance(pieces, image_size)) / (outer - inner)
    return amount.clamp_(0, 1).mul_(255).add_(0.5).to(torch.uint8)


def _squared_distance(pieces: Tensor, image_size: int) -> Tensor:
    """From the center of each pixel to the nearest piece, (n, S, S) float32."""
    nearest = torch.full((len(pieces), image_size, image_size), math.inf, dtype=torch.float32)
    beyond, aside = torch.empty_like(nearest), torch.empty_like(nearest)
    frames = (part.unbind(1) for part in _frames(pieces, image_size))
    for along_x, along_y, across_x, across_y, half, scale in zip(*frames, strict=True):
        torch.add(along_x, along_y, out=beyond).abs_().sub_(half).clamp_(min=0)
        torch.sub(across_x, across_y, out=aside)
        distance = beyond.mul_(beyond).add_(aside.mul_(aside)).mul_(scale)
        torch.minimum(nearest, distance, out=nearest)
    return nearest


def _frames(pieces: Tensor, image_size: int) -> tuple[Tensor, ...]:
    """The pixels as seen from the middle of each piece, along it and across it.

    Each position is a sum over the pixel's column and row. Positions come multiplied with the
    length of the piece, which spares a square root.

    Returns:
        Position along by column (n, P, 1, S) and by row (n, P, S, 1), position across likewise,
        then half the length (n, P, 1, 1), and what undoes the multiplication once squared.
    """
    start, end = pieces.unbind(2)  # (n, P, 2) each
    span_x, span_y = (end - start).float().unsqueeze(3).chunk(2, 2)  # (n, P, 1, 1) each
    middle_x, middle_y = ((start + end) / 2).float().unsqueeze(3).chunk(2, 2)
    centers = torch.arange(image_size, dtype=torch.float32) + 0.5
    x, y = centers - middle_x, centers.unsqueeze(1) - middle_y
    square = span_x * span_x + span_y * span_y
    return x * span_x, y * span_y, x * span_y, y * span_x, square / 2, 1 / square
