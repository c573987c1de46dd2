import itertools
import math

import pytest
import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.data.generated import glyphs, strokes
from crossbias.data.generated.glyphs import COLORS, GREY, NOISE, WHITE, Glyphs
from crossbias.errors import CrossbiasError
from crossbias.parameters import validated

BIASES = ("background", "foreground", "corner")
PALETTE = torch.tensor(list(COLORS.values())).double()
SIZES = [7, 10, 95, 100, 333]
RHOS = [0, 0.1, 0.5, 0.95, 0.99, 1]


def nearest_color(colors: Tensor) -> Tensor:
    """The bias value whose color is closest to each of (n, 3)."""
    return torch.cdist(colors.double(), PALETTE).argmin(1)


def assert_exact(data: BiasedDataset, rho: float) -> None:
    counts = data.counts()
    sizes = counts.sum(1)
    assert sizes.max() - sizes.min() <= 1
    for target, row in enumerate(counts.tolist()):
        own = row.pop(target)
        assert own == math.floor(int(sizes[target]) * rho + 0.5)
        assert max(row) - min(row) <= 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rho", RHOS)
def test_counts_are_exact(size: int, rho: float) -> None:
    source = Glyphs(size=size, test_size=size + 3, image_size=16, rho=rho)
    train, biased = source.load("train"), source.load("test-biased")
    assert (len(train), len(biased)) == (size, size + 3)
    assert_exact(train, rho)
    assert_exact(biased, rho)
    assert_exact(source.load("validation"), rho)


@pytest.mark.parametrize("size", [*SIZES, 200])
def test_the_test_split_is_unbiased(size: int) -> None:
    counts = Glyphs(test_size=size, image_size=16, rho=0.99).load("test").counts()
    assert counts.sum() == size
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("image_size", [16, 28, 45])
def test_a_split_is_described_completely(bias: glyphs.ColoredPart, image_size: int) -> None:
    data = Glyphs(size=30, image_size=image_size, bias=bias).load("train")
    assert data.inputs.shape == (30, 3, image_size, image_size)
    assert data.inputs.dtype == torch.uint8
    assert (data.name, data.split, data.bias) == ("glyphs", "train", bias)
    assert list(data.attributes) == [bias]
    assert data.classes == tuple("0123456789")
    assert data.values[bias] == tuple(COLORS)
    assert torch.equal(data.alignment(), torch.eye(10, dtype=torch.bool))
    assert data.mean == data.std == (0.5, 0.5, 0.5)


def test_alignment_is_known_where_the_counts_do_not_show_it() -> None:
    data = Glyphs(size=7, test_size=7, image_size=16).load("test")
    assert torch.equal(data.alignment(), torch.eye(10, dtype=torch.bool))


def test_every_background_pixel_shows_the_bias() -> None:
    data = Glyphs(size=300, rho=0.1).load("train")
    ink = Glyphs(size=300, rho=0.1, bias="corner").load("train").inputs.amax(1)
    ink[:, :4, :4] = 255  # the colored mark
    empty = ink <= GREY[0] - NOISE + 2  # no ink, or the noise could not be this dark
    image, y, x = empty.nonzero(as_tuple=True)
    assert len(image.unique()) == 300
    assert torch.equal(nearest_color(data.inputs[image, :, y, x]), data.biases[image])


def test_the_stroke_shows_the_bias() -> None:
    data = Glyphs(size=300, rho=0.1, bias="foreground").load("train")
    white = Glyphs(size=300, rho=0.1, bias="corner").load("train").inputs.amin(1)
    ink = (white >= WHITE[0] - NOISE).unsqueeze(1).double()
    color = (data.inputs * ink).sum((2, 3)) / ink.sum((2, 3))
    assert torch.equal(nearest_color(color), data.biases)
    corners = data.inputs[:, :, ::27, ::27].double()
    assert (corners.mean((0, 2, 3)) - GREY[0]).abs().max() < 5


@pytest.mark.parametrize(("image_size", "side"), [(16, 2), (28, 4), (64, 9)])
def test_only_the_corner_shows_the_bias(image_size: int, side: int) -> None:
    data = Glyphs(size=100, rho=0.1, bias="corner", image_size=image_size).load("train")
    mark = data.inputs[:, :, :side, :side].permute(0, 2, 3, 1)
    expected = data.biases.repeat_interleave(side * side)
    assert torch.equal(nearest_color(mark.reshape(-1, 3)), expected)
    rest = data.inputs.clone()
    rest[:, :, :side, :side] = 0
    assert torch.equal(rest, rest[:, :1].expand_as(rest))  # gray


@pytest.mark.parametrize("split", Glyphs.splits)
def test_corner_drawings_do_not_depend_on_rho(split: str) -> None:
    options = {"size": 200, "test_size": 200, "bias": "corner"}
    low, high = (Glyphs(rho=rho, **options).load(split) for rho in (0.1, 0.99))
    assert torch.equal(low.targets, high.targets)
    assert split == "test" or not torch.equal(low.biases, high.biases)
    low.inputs[:, :, :4, :4] = high.inputs[:, :, :4, :4] = 0
    assert torch.equal(low.inputs, high.inputs)


def test_drawings_do_not_depend_on_rho_or_the_kind_of_bias() -> None:
    def ink(data: BiasedDataset, rows: Tensor) -> Tensor:
        color = PALETTE[data.biases[rows]]
        value, channel = color.min(1, keepdim=True)  # the darkest: white ink changes it most
        plane = data.inputs[rows].take_along_dim(channel.view(-1, 1, 1, 1), 1).squeeze(1)
        return (plane - value.unsqueeze(2)) / (255 - value.unsqueeze(2))

    rows = torch.arange(200)
    low, high = (Glyphs(size=200, rho=rho).load("train") for rho in (0.1, 0.99))
    marked = Glyphs(size=200, bias="corner").load("train")
    assert not torch.equal(low.biases, high.biases)
    tolerance = NOISE / 255 + 0.02  # noise is the same, but cut off below a color of 0
    assert (ink(low, rows) - ink(high, rows)).abs().max() < tolerance
    grey = (marked.inputs[:, 0].double() - GREY[0]) / (255 - GREY[0])
    difference = (ink(high, rows) - grey).abs()
    assert difference[:, 4:].max() < tolerance


@pytest.mark.parametrize("bias", BIASES)
def test_the_seed_decides_everything(bias: glyphs.ColoredPart) -> None:
    source = Glyphs(size=150, bias=bias)
    data, again, other = (source.load("train", seed=seed) for seed in (3, 3, 4))
    assert data.hash == again.hash
    assert data.hash != other.hash
    assert not torch.equal(data.targets, other.targets)
    assert not torch.equal(data.biases, other.biases)
    assert not (data.inputs == other.inputs).flatten(1).all(1).any()


def test_no_image_occurs_twice() -> None:
    source = Glyphs(size=500, test_size=300, rho=1)
    images = [source.load(split).inputs.flatten(1) for split in Glyphs.splits]
    everything = torch.cat(images)
    assert len(everything) == 1400
    assert len(everything.unique(dim=0)) == 1400


def test_splits_are_drawn_independently() -> None:
    source = Glyphs(size=100, test_size=100, bias="corner", image_size=16)
    for one, other in itertools.combinations(Glyphs.splits, 2):
        a, b = source.load(one), source.load(other)
        assert not torch.equal(a.targets, b.targets)
        assert (a.inputs[:, :, 2:] != b.inputs[:, :, 2:]).flatten(1).any(1).all()


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("chunk", [1, 13 * 28 * 28, 1_000_000])
def test_chunks_do_not_change_images(
    bias: glyphs.ColoredPart, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = Glyphs(size=60, bias=bias).load("train").hash
    monkeypatch.setattr(strokes, "CHUNK", chunk)
    monkeypatch.setattr(glyphs, "CHUNK", chunk)
    assert Glyphs(size=60, bias=bias).load("train").hash == expected


def test_the_global_generator_and_default_dtype_play_no_part() -> None:
    expected = Glyphs(size=60).load("train").hash
    before = torch.get_rng_state()
    torch.set_default_dtype(torch.float64)
    try:
        assert Glyphs(size=60).load("train").hash == expected
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(torch.get_rng_state(), before)


def luminance(color: tuple[int, int, int]) -> float:
    """Relative luminance as the Web Content Accessibility Guidelines define it."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in color)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("color", COLORS)
def test_digits_are_legible_in_and_on_every_color(color: str) -> None:
    light, middle, dark = (0.05 + luminance(rgb) for rgb in (WHITE, COLORS[color], GREY))
    assert light / middle > 2.5
    assert middle / dark > 2.5


def test_noise_cannot_turn_one_color_into_another() -> None:
    assert len(COLORS) == 10
    closest = min(math.dist(*pair) for pair in itertools.combinations(COLORS.values(), 2))
    assert closest / 2 > math.dist((0, 0, 0), (NOISE,) * 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 1.5}, r"rho of data set 'glyphs' must be in \[0, 1\], got 1\.5"),
        ({"rho": -0.1}, r"rho of data set 'glyphs' must be in \[0, 1\], got -0\.1"),
        ({"size": 0}, "size of data set 'glyphs' must be at least 1, got 0"),
        ({"test_size": 2.5}, "test_size of data set 'glyphs' must be a whole number, got 2.5"),
        ({"image_size": 15}, "image_size of data set 'glyphs' must be at least 16, got 15"),
        ({"bias": "texture"}, "one of 'background', 'foreground', 'corner', got 'texture'"),
        ({"imagesize": 28}, r"no parameter 'imagesize' \(did you mean 'image_size'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(CrossbiasError, match=message):
        validated(Glyphs, options, "data set 'glyphs'")


def test_options_are_read_from_text() -> None:
    text = {"size": "20", "test_size": "30", "image_size": "16", "rho": "0.5", "bias": "corner"}
    source = Glyphs(**validated(Glyphs, text, "data set 'glyphs'"))
    assert source.load("train").inputs.shape == (20, 3, 16, 16)
    assert source.load("validation").counts().diagonal().tolist() == [2] * 10
    assert source.test_splits == ("test", "test-biased")


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(CrossbiasError, match=r"no split 'test-bias' \(did you mean 'test-biased'"):
        Glyphs().load("test-bias")


@pytest.mark.parametrize(
    ("bias", "split", "image_size", "expected"),
    [
        ("background", "train", 28, "1896c45e7e569031"),
        ("foreground", "test", 28, "2da4c8e613fd8c52"),
        ("corner", "validation", 40, "555f81664e8c6783"),
    ],
)
def test_golden_hash(bias: glyphs.ColoredPart, split: str, image_size: int, expected: str) -> None:
    source = Glyphs(size=100, test_size=100, image_size=image_size, rho=0.9, bias=bias)
    assert source.load(split, seed=1).hash[:16] == expected
