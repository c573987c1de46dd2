"""How people write digits: for each digit several ways, as strokes through points."""

from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

import torch
from torch import Tensor

WIDTH: Final = 12
HEIGHT: Final = 18

WAYS: Final = {
    0: (
        "6,0 11,5 11,13 6,18 1,13 1,5 6,0",
        "9,2 4,0 1,8 4,17 9,16 11,8 7,0",
    ),
    1: (
        "6,0 6,18",
        "2,5 6,0 | 6,0 6,18",
        "2,4 6,0 | 6,0 6,18 | 2,18 10,18",
    ),
    2: (
        "1,5 3,1 7,0 11,4 9,9 5,13 1,18 | 1,18 11,18",
        "1,4 5,0 10,3 8,10 4,16 1,17 2,14 6,15 11,18",
    ),
    3: (
        "1,2 6,0 10,4 8,8 4,9 | 4,9 9,10 11,14 7,18 1,16",
        "1,0 10,0 | 10,0 5,7 | 5,7 10,9 11,14 6,18 1,16",
    ),
    4: (
        "8,0 1,12 | 1,12 11,12 | 8,0 8,18",
        "3,0 2,9 | 2,9 11,9 | 10,1 8,18",
    ),
    5: (
        "10,0 3,0 | 3,0 2,8 | 2,8 7,6 11,11 9,16 5,18 1,16",
        "11,1 4,0 | 4,0 3,7 | 3,7 8,9 10,13 6,18 1,17",
    ),
    6: (
        "9,0 4,5 1,12 4,18 9,17 10,12 6,9 2,12",
        "5,0 2,7 1,13 4,18 9,17 11,13 8,10 2,13",
    ),
    7: (
        "1,0 11,0 | 11,0 4,18",
        "1,0 11,0 | 11,0 5,18 | 4,9 11,9",
        "1,3 2,0 | 2,0 11,1 | 11,1 7,9 6,18",
    ),
    8: (
        "6,8 2,4 6,0 10,4 6,8 1,13 6,18 11,13 6,8",
        "6,0 10,4 6,8 2,4 6,0 | 6,8 11,13 6,18 1,13 6,8",
    ),
    9: (
        "10,4 6,0 1,5 5,10 10,4 | 10,4 9,18",
        "10,3 6,0 2,3 3,8 7,9 10,3 | 10,3 10,11 7,17 2,17",
    ),
}
"""The ways of writing each digit, on paper ``WIDTH`` wide and ``HEIGHT`` high, y pointing down.

A way is a list of strokes, separated by ``|``. A stroke of two points is straight. A stroke of
more points is a smooth curve through them, closed if it ends where it began. Strokes that name
the same point stay joined there, however the point is moved.
"""

PIECES: Final = 4  # number of straight pieces that approximate each span of a curve

Point = tuple[float, float]
Mixture = dict[Point, float]  # a place on a curve, as weights of the points of the stroke
Piece = tuple[Mixture, Mixture]  # from start to end


class Way(NamedTuple):
    """One way of writing one digit: straight pieces whose ends are mixtures of points."""

    points: Tensor  # (K, 2) float64, x and y from the middle of the paper
    weights: Tensor  # (P, 2, K) float64, weights of the points in the start and end of a piece


@cache
def ways() -> tuple[Way, ...]:
    """All ways of writing, digit by digit.

    >>> len(ways())
    22
    """
    return tuple(_way(_pieces(way)) for digit in WAYS.values() for way in digit)


def _way(pieces: list[Piece]) -> Way:
    names = sorted({point for piece in pieces for end in piece for point in end})
    points = torch.tensor(names, dtype=torch.float64)
    middle = torch.tensor([WIDTH / 2, HEIGHT / 2], dtype=torch.float64)
    weights = [[[end.get(name, 0.0) for name in names] for end in piece] for piece in pieces]
    return Way(points - middle, torch.tensor(weights, dtype=torch.float64))


def _pieces(way: str) -> list[Piece]:
    pieces = []
    for stroke in way.split("|"):
        path = _path([_point(word) for word in stroke.split()])
        pieces += list(pairwise(path))
    return pieces


def _point(word: str) -> Point:
    x, y = word.split(",")
    return float(x), float(y)


def _path(points: list[Point]) -> list[Mixture]:
    """The corners of the polygon that approximates a stroke."""
    if len(points) == 2:
        return [{point: 1.0} for point in points]
    closed = points[0] == points[-1]
    before, after = (points[-2], points[1]) if closed else (points[0], points[-1])
    padded = [before, *points, after]
    path = [
        _catmull_rom(padded[span : span + 4], piece / PIECES)
        for span in range(len(points) - 1)
        for piece in range(PIECES)
    ]
    return [*path, {points[-1]: 1.0}]


def _catmull_rom(points: list[Point], t: float) -> Mixture:
    """The place at ``t`` in [0, 1] between the middle two of four points of a smooth curve.

    The spline of Catmull and Rom (1974) passes through each point, parallel to the line between
    its neighbors.
    """
    weights = (
        (-(t**3) + 2 * t**2 - t) / 2,
        (3 * t**3 - 5 * t**2 + 2) / 2,
        (-3 * t**3 + 4 * t**2 + t) / 2,
        (t**3 - t**2) / 2,
    )
    mixture = dict.fromkeys(points, 0.0)
    for point, weight in zip(points, weights, strict=True):
        mixture[point] += weight  # the same point occurs twice at the ends of an open stroke
    return mixture
