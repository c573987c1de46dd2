"""Drawing digits with random strokes, many images at a time, each in its own handwriting.

The same seed gives the same pixels for every chunk size, number of threads and platform. The
random parameters of all images are drawn first, as uniform numbers. After that there are only
elementwise operations that IEEE 754 defines to the last bit (+, -, *, /, minimum, maximum). So a
rotation uses the tangent of half its angle instead of a sine, points are mixed one after the
other instead of by a matrix product, and ink fades with the squared distance instead of its root.
"""

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import torch
from torch import Tensor

from crossbias.data.generated.handwriting import HEIGHT, WAYS, WIDTH, ways

CHUNK: Final = 28_000
"""Pixels drawn at a time; affects only memory and speed.

So many stay in the processor's cache. Torch also processes tensors of fewer than 32,768 numbers
in one thread, and steps this short lose more by waiting for a second thread than they gain.
"""


class Hand(NamedTuple):
    """The handwriting of every image. Lengths and positions are fractions of the image's side."""

    way: Tensor  # (n,) int64, position in ways()
    jitter: Tensor  # (n, K, 2), displacement of each point, in the units of the paper
    turn: Tensor  # (n, 1), tangent of half the rotation angle
    shear: Tensor  # (n, 1), shift to the right per unit of height
    width: Tensor  # (n, 1), width of the paper
    height: Tensor  # (n, 1), height of the paper
    shift: Tensor  # (n, 2), from the middle of the image to the middle of the digit
    radius: Tensor  # (n, 1), half the thickness of the stroke


def draw(digits: Tensor, *, image_size: int, generator: torch.Generator) -> Tensor:
    """Draw every digit (n,) in its own handwriting, (n, image_size, image_size) uint8 ink."""
    hand = _hand(digits, generator)
    order = hand.way.argsort(stable=True)
    hand = Hand(*(parameter[order] for parameter in hand))
    images = torch.empty(len(digits), image_size, image_size, dtype=torch.uint8)
    for rows in _chunks(hand.way, max(1, CHUNK // image_size**2)):
        some = Hand(*(parameter[rows] for parameter in hand))
        pieces, radius = _pieces(some) * image_size, some.radius * image_size
        images[rows] = ink(pieces, radius, image_size=image_size)
    return images[order.argsort()]


def _chunks(way: Tensor, size: int) -> Iterator[slice]:
    """Runs of at most ``size`` images that are written the same way; ``way`` is sorted."""
    first = 0
    for count in torch.bincount(way).tolist():
        last = first + count
        for start in range(first, last, size):
            yield slice(start, min(start + size, last))
        first = last


def _hand(digits: Tensor, generator: torch.Generator) -> Hand:
    """Draw all random parameters.

    The ranges keep the digits legible and about as hard as MNIST: after training on 5,000 images
    of 28 pixels, a linear classifier is right on about 87% of new images and a small
    convolutional network on 99%.
    """

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        numbers = torch.rand(len(digits), *shape, dtype=torch.float64, generator=generator)
        return low + (high - low) * numbers

    choices = torch.tensor([len(WAYS[digit]) for digit in range(10)])
    first = choices.cumsum(0) - choices
    return Hand(
        way=first[digits] + (uniform(0, 1) * choices[digits]).long(),
        jitter=uniform(-1.2, 1.2, max(len(way.points) for way in ways()), 2),
        turn=uniform(-0.13, 0.13, 1),
        shear=uniform(-0.2, 0.4, 1),
        width=uniform(0.36, 0.6, 1),
        height=uniform(0.55, 0.8, 1),
        shift=uniform(-0.08, 0.08, 2),
        radius=uniform(0.028, 0.062, 1),
    )


def _pieces(hand: Hand) -> Tensor:
    """Start and end of each straight piece in the image, (n, P, 2, 2): piece, end, x and y.

    All images must be written the same way.
    """
    points, weights = ways()[int(hand.way[0])]
    x, y = (points + hand.jitter[:, : len(points)]).unbind(2)  # (n, K) each
    x, y = x / WIDTH * hand.width, y / HEIGHT * hand.height
    x = x - hand.shear * y
    scale = 1 + hand.turn * hand.turn
    cosine, sine = (1 - hand.turn * hand.turn) / scale, 2 * hand.turn / scale
    moved = torch.stack((cosine * x - sine * y, sine * x + cosine * y), 2)  # (n, K, 2)
    pieces = moved.new_zeros(len(moved), len(weights), 2, 2)
    for point in range(len(points)):
        pieces += weights[..., point, None] * moved[:, None, None, point]
    return pieces + _place(pieces, hand)[:, None, None]


def _place(pieces: Tensor, hand: Hand) -> Tensor:
    """How far to move the pieces, (n, 2): the shift, reduced where it would leave the image."""
    low, high = pieces.amin((1, 2)), pieces.amax((1, 2))
    room = (0.5 - (high - low) / 2 - hand.radius).clamp(min=0)
    return 0.5 - (low + high) / 2 + hand.shift.clamp(-room, room)


def ink(pieces: Tensor, radius: Tensor, *, image_size: int) -> Tensor:
    """Draw strokes with a round pen of radius (n, 1) pixels, (n, image_size, image_size) uint8.

    The pieces (n, P, 2, 2) are straight, in pixels, each with start and end, x and y; none may have
    length 0. Ink is 255 from half a pixel inside the edge of the stroke, 0 from half a pixel
    outside.
    """
    inner, outer = ((radius + side).square().float().unsqueeze(2) for side in (-0.5, 0.5))
    amount = (outer - _squared_distance(pieces, image_size)) / (outer - inner)
    return amount.clamp_(0, 1).mul_(255).add_(0.5).to(torch.uint8)


def _squared_distance(pieces: Tensor, image_size: int) -> Tensor:
    """Squared distance from the center of each pixel to the nearest piece, (n, S, S) float32."""
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
    """Positions of the pixels relative to the middle of each piece, along it and across it.

    Each position is the sum of a part for the pixel's column and one for its row. All lengths are
    multiplied by the length of the piece, which avoids a square root. The result has the parts of
    the position along the piece by column (n, P, 1, S) and by row (n, P, S, 1), the same two for
    the position across it, half the length of the piece (n, P, 1, 1), and the factor that removes
    the multiplication from a squared distance.
    """
    start, end = pieces.unbind(2)  # (n, P, 2) each
    span_x, span_y = (end - start).float().unsqueeze(3).chunk(2, 2)  # (n, P, 1, 1) each
    middle_x, middle_y = ((start + end) / 2).float().unsqueeze(3).chunk(2, 2)
    centers = torch.arange(image_size, dtype=torch.float32) + 0.5
    x, y = centers - middle_x, centers.unsqueeze(1) - middle_y
    square = span_x * span_x + span_y * span_y
    return x * span_x, y * span_y, x * span_y, y * span_x, square / 2, 1 / square
