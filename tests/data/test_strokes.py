import math

import numpy as np
import pytest
import torch
from torch import Tensor

from crossbias.data import strokes
from crossbias.data.digits import HEIGHT, WIDTH, ways
from crossbias.data.strokes import Hand, _hand, _ink, _pieces, draw
from crossbias.seeds import generator_for

DIGITS = torch.arange(10).repeat(30)


def drawn(digits: Tensor = DIGITS, image_size: int = 28, seed: int = 0) -> Tensor:
    return draw(digits, image_size=image_size, generator=generator_for(seed, "test"))


def distance(point: np.ndarray, start: np.ndarray, end: np.ndarray) -> float:
    span = end - start
    position = np.clip(np.dot(point - start, span) / np.dot(span, span), 0, 1)
    return float(np.linalg.norm(point - start - position * span))


def test_ink_equals_pixel_by_pixel_distance() -> None:
    generator = torch.Generator().manual_seed(0)
    pieces = 16 * torch.rand(5, 2, 2, 3, dtype=torch.float64, generator=generator)
    radius = torch.tensor([0.6, 1.0, 2.5], dtype=torch.float64)
    ink = _ink(pieces, radius, 16)
    assert ink.shape == (3, 16, 16)
    for image in range(3):
        inner, outer = (float(radius[image]) + side for side in (-0.5, 0.5))
        for y in range(16):
            for x in range(16):
                center = np.array([x + 0.5, y + 0.5])
                near = min(distance(center, *piece[:, :, image].numpy()) for piece in pieces)
                full = (outer**2 - near**2) / (outer**2 - inner**2)
                assert abs(int(ink[image, y, x]) - 255 * min(max(full, 0), 1)) < 0.51


def test_a_piece_without_length_is_a_dot() -> None:
    pieces = torch.full((1, 2, 2, 1), 8.5, dtype=torch.float64)
    ink = _ink(pieces, torch.tensor([2.0], dtype=torch.float64), 16)[0]
    assert ink[8, 8] == ink[8, 9] == ink[7, 8] == 255
    assert ink[8, 11] == ink[5, 8] == 0
    assert torch.equal(ink, ink.T)


def test_pieces_equal_matrix_products() -> None:
    hand = _hand(DIGITS, generator_for(0, "test"))
    pieces = _pieces(hand)
    for image in range(0, len(DIGITS), 7):
        one = Hand(*(parameter[..., image].numpy() for parameter in hand))
        angle = 2 * math.atan(one.turn)
        rotation = np.array(
            [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
        )
        shear = np.array([[1, -one.shear], [0, 1]])
        scale = np.diag([one.width / WIDTH, one.height / HEIGHT])
        written = ways().points[one.way].numpy() + one.jitter
        points = written @ (rotation @ shear @ scale).T
        expected = ways().weights[one.way].numpy() @ points
        moved = pieces[..., image].numpy() - expected[: len(pieces)]
        np.testing.assert_allclose(moved, np.broadcast_to(moved[0, 0], moved.shape), atol=1e-12)


def test_digits_are_shifted_as_asked_where_there_is_room() -> None:
    hand = _hand(DIGITS, generator_for(0, "test"))
    pieces = _pieces(hand)
    low, high = pieces.amin((0, 1)), pieces.amax((0, 1))
    shift = (low + high) / 2 - 0.5
    free = (low - hand.radius > 1e-9) & (high + hand.radius < 1 - 1e-9)
    torch.testing.assert_close(shift[free], hand.shift[free])
    assert free.float().mean() > 0.9
    assert (shift.abs() <= hand.shift.abs() + 1e-9).all()


def test_ink_stays_inside_the_image() -> None:
    border = torch.ones(28, 28, dtype=torch.bool)
    border[1:-1, 1:-1] = False
    ink = drawn(torch.arange(10).repeat(200)).double()
    assert (ink * border).sum() < 0.01 * ink.sum()


def test_the_drawing_is_the_same_at_every_size() -> None:
    small, large = drawn(image_size=28).double(), drawn(image_size=84).double()
    shrunk = large.view(-1, 28, 3, 28, 3).mean((2, 4))
    assert (small - shrunk).abs().mean() < 3  # of 255: only the edges' antialiasing differs


@pytest.mark.parametrize("chunk", [1, 7, 10_000])
def test_chunks_do_not_change_drawings(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = drawn()
    monkeypatch.setattr(strokes, "CHUNK", chunk)
    assert torch.equal(drawn(), expected)


def test_threads_do_not_change_drawings() -> None:
    before = torch.get_num_threads()
    images = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        images.append(drawn())
    torch.set_num_threads(before)
    assert torch.equal(images[0], images[1])
    assert torch.equal(images[0], images[2])


def test_every_way_of_writing_occurs_about_equally_often() -> None:
    hand = _hand(torch.arange(10).repeat(600), generator_for(0, "test"))
    counts = torch.bincount(hand.way, minlength=len(ways().points))
    expected = 600 / ways().choices.double().repeat_interleave(ways().choices)
    assert ((counts - expected).abs() < 0.2 * expected).all()


def test_drawings_show_their_digit_and_differ() -> None:
    known, new = (drawn(torch.arange(10).repeat(n), seed=n) for n in (200, 40))
    nearest = torch.cdist(new.flatten(1).double(), known.flatten(1).double()).argmin(1)
    assert (nearest % 10 == torch.arange(10).repeat(40)).double().mean() > 0.9
    assert len(known.flatten(1).unique(dim=0)) == len(known)
