from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.interpolate import CubicHermiteSpline

from crossbias.data.digits import HEIGHT, PIECES, WAYS, WIDTH, ways

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
    pieces = torch.einsum("pek,kd->ped", ways().weights[row], ways().points[row])
    pieces += torch.tensor([WIDTH / 2, HEIGHT / 2])
    count = int(ways().pieces[row])
    np.testing.assert_allclose(pieces[:count].numpy(), np.array(expected), atol=1e-12)
    assert torch.equal(pieces[count:], pieces[count - 1].expand_as(pieces[count:]))


def test_weights_move_a_curve_with_its_points() -> None:
    torch.testing.assert_close(ways().weights.sum(-1), torch.ones_like(ways().weights[..., 0]))


def test_each_digit_owns_its_rows() -> None:
    assert ways().first.tolist() == [0, 2, 5, 7, 9, 11, 13, 15, 18, 20]
    assert int(ways().choices.sum()) == len(ways().points) == len(EVERY_WAY)


def test_every_point_is_on_the_paper_and_every_way_uses_its_height() -> None:
    for way in EVERY_WAY:
        points = np.concatenate(strokes_of(way))
        assert (points >= 0).all()
        assert (points <= [WIDTH, HEIGHT]).all()
        assert np.ptp(points[:, 1]) >= HEIGHT - 1
