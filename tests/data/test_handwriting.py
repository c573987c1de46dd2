from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.interpolate import CubicHermiteSpline

from crossbias.data.generated.handwriting import HEIGHT, PIECES, WAYS, WIDTH, Way, ways

EVERY_WAY = [way for digit in WAYS.values() for way in digit]


def strokes_of(way: str) -> list[np.ndarray]:
    return [
        np.array([[float(number) for number in word.split(",")] for word in stroke.split()])
        for stroke in way.split("|")
    ]


def curve(points: np.ndarray) -> np.ndarray:
    """Slow twin: the cubic Hermite spline whose tangents are the Catmull-Rom ones."""
    if len(points) == 2:
        return points
    closed = (points[0] == points[-1]).all()
    before, after = (points[-2], points[1]) if closed else (points[0], points[-1])
    padded = np.concatenate(([before], points, [after]))
    tangents = (padded[2:] - padded[:-2]) / 2
    spans = len(points) - 1
    spline = CubicHermiteSpline(np.arange(len(points)), points, tangents)
    return spline(np.linspace(0, spans, spans * PIECES + 1))


@pytest.mark.parametrize("row", range(len(EVERY_WAY)))
def test_pieces_lie_on_the_hermite_spline(row: int) -> None:
    expected = [pair for points in strokes_of(EVERY_WAY[row]) for pair in pairwise(curve(points))]
    points, weights = ways()[row]
    pieces = torch.einsum("pek,kd->ped", weights, points) + torch.tensor([WIDTH / 2, HEIGHT / 2])
    np.testing.assert_allclose(pieces.numpy(), np.array(expected), atol=1e-12)


@pytest.mark.parametrize("way", ways())
def test_a_curve_moves_with_its_points(way: Way) -> None:
    torch.testing.assert_close(way.weights.sum(2), torch.ones_like(way.weights[..., 0]))


def test_strokes_that_meet_share_the_point() -> None:
    assert [len(way.points) for way in ways()[2:5]] == [2, 3, 5]  # the ways of writing 1


def test_every_point_is_on_the_paper_and_every_way_uses_its_height() -> None:
    for way in EVERY_WAY:
        points = np.concatenate(strokes_of(way))
        assert (points >= 0).all()
        assert (points <= [WIDTH, HEIGHT]).all()
        assert np.ptp(points[:, 1]) >= HEIGHT - 1
