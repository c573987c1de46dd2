"""Drawing digits: strokes by slow twins, pixels that never depend on how they are computed."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from crossbias.data.generated import strokes
from crossbias.data.generated.handwriting import HEIGHT, WAYS, WIDTH, ways
from crossbias.data.generated.strokes import Hand, _hand, _pieces, draw, ink
from crossbias.seeds import generator_for

DIGITS = torch.arange(10).repeat(30)


def drawn(digits: Tensor = DIGITS, image_size: int = 28, seed: int = 0) -> Tensor:
    return draw(digits, image_size=image_size, generator=generator_for(seed, "test"))


@pytest.fixture(params=range(len(ways())))
def same_way(request: pytest.FixtureRequest) -> Hand:
    hand = _hand(DIGITS, generator_for(0, "test"))
    return Hand(*(parameter[hand.way == request.param] for parameter in hand))


def test_pieces_equal_matrix_products(same_way: Hand) -> None:
    points, weights = (table.numpy() for table in ways()[int(same_way.way[0])])
    for image, pieces in enumerate(_pieces(same_way).numpy()):
        hand = Hand(*(parameter[image].squeeze().numpy() for parameter in same_way))
        angle = 2 * math.atan(hand.turn)
        rotation = np.array(
            [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
        )
        shear = np.array([[1, -hand.shear], [0, 1]])
        scale = np.diag([hand.width / WIDTH, hand.height / HEIGHT])
        written = points + hand.jitter[: len(points)]
        moved = pieces - weights @ written @ (rotation @ shear @ scale).T
        np.testing.assert_allclose(moved, np.broadcast_to(moved[0, 0], moved.shape), atol=1e-12)


def test_digits_are_shifted_as_asked_where_there_is_room(same_way: Hand) -> None:
    pieces = _pieces(same_way)
    low, high = pieces.amin((1, 2)), pieces.amax((1, 2))
    shift = (low + high) / 2 - 0.5
    free = (low - same_way.radius > 1e-9) & (high + same_way.radius < 1 - 1e-9)
    torch.testing.assert_close(shift[free], same_way.shift[free])
    assert free.double().mean() > 0.7
    assert (shift.abs() <= same_way.shift.abs() + 1e-9).all()


def test_a_shift_moves_no_stroke_out_of_the_image(same_way: Hand) -> None:
    pieces = _pieces(same_way._replace(shift=4 * same_way.shift))
    low = pieces.amin((1, 2)) - same_way.radius
    high = pieces.amax((1, 2)) + same_way.radius
    fits = high - low <= 1
    assert fits.any()
    assert (low[fits] > -1e-9).all()
    assert (high[fits] < 1 + 1e-9).all()
    torch.testing.assert_close((low + high)[~fits], torch.ones_like(low)[~fits])  # centered


def test_ink_stays_inside_the_image() -> None:
    border = torch.ones(28, 28, dtype=torch.bool)
    border[1:-1, 1:-1] = False
    ink = drawn(torch.arange(10).repeat(200)).double()
    assert (ink * border).sum() < 0.01 * ink.sum()


def test_the_drawing_is_the_same_at_every_size() -> None:
    small, large = drawn(image_size=28).double(), drawn(image_size=84).double()
    shrunk = large.view(-1, 28, 3, 28, 3).mean((2, 4))
    assert (small - shrunk).abs().mean() < 3  # of 255: only the edges' antialiasing differs


@pytest.mark.parametrize("chunk", [1, 7 * 28 * 28, 1_000_000])
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
    counts = torch.bincount(hand.way, minlength=len(ways()))
    expected = torch.tensor([600 / len(digit) for digit in WAYS.values() for _ in digit])
    assert ((counts - expected).abs() < 0.2 * expected).all()


def test_drawings_show_their_digit_and_differ() -> None:
    known, new = (drawn(torch.arange(10).repeat(n), seed=n) for n in (200, 40))
    nearest = torch.cdist(new.flatten(1).double(), known.flatten(1).double()).argmin(1)
    assert (nearest % 10 == torch.arange(10).repeat(40)).double().mean() > 0.9
    assert len(known.flatten(1).unique(dim=0)) == len(known)


def distance(point: np.ndarray, start: np.ndarray, end: np.ndarray) -> float:
    span = end - start
    position = np.clip(np.dot(point - start, span) / np.dot(span, span), 0, 1)
    return float(np.linalg.norm(point - start - position * span))


def test_ink_equals_pixel_by_pixel_distance() -> None:
    generator = torch.Generator().manual_seed(0)
    pieces = 16 * torch.rand(3, 5, 2, 2, dtype=torch.float64, generator=generator)
    radius = torch.tensor([[0.6], [1.0], [2.5]], dtype=torch.float64)
    images = ink(pieces, radius, image_size=16)
    assert images.shape == (3, 16, 16)
    for image in range(3):
        inner, outer = (float(radius[image]) + side for side in (-0.5, 0.5))
        for y in range(16):
            for x in range(16):
                center = np.array([x + 0.5, y + 0.5])
                near = min(distance(center, *piece) for piece in pieces[image].numpy())
                full = (outer**2 - near**2) / (outer**2 - inner**2)
                assert abs(int(images[image, y, x]) - 255 * min(max(full, 0), 1)) < 0.51
