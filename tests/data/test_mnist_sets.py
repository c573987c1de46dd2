"""The data sets made of MNIST and Fashion-MNIST, from small files of the same form."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats
from torch import Tensor

from crossbias import load
from crossbias.data import DATASETS, BiasedDataset
from crossbias.data.assignment import chunked_values
from crossbias.data.augment.augment import augmentation
from crossbias.data.generated.coloring import LFF, LNL, PGD, REBIAS, Palette, color_foreground
from crossbias.data.generated.originals import load_original
from crossbias.errors import CrossbiasError
from crossbias.types import UNKNOWN

NAMES = ("biased-mnist", "colored-mnist-lnl", "colored-mnist", "watermarked-mnist")
EVERY_SPLIT = [(name, split) for name in NAMES for split in DATASETS[name].splits]
TRAIN_SIZES = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
TEST_SIZES = (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)

pytestmark = pytest.mark.usefixtures("small_originals")


def grey(data: BiasedDataset, root: Path) -> Tensor:
    """The digits that a split is made of, in their order."""
    part = "train" if data.split in ("train", "validation") else "t10k"
    images = load_original("mnist", part, root=root).images
    if data.name in ("colored-mnist", "watermarked-mnist"):
        images = {"train": images[:540], "validation": images[540:]}.get(data.split, images)
    return images


def color_of(image: Tensor, digit: Tensor) -> list[float]:
    """The color of a digit by least squares over its pixels, 1 for full."""
    level = digit.double().flatten() / 255
    return ((image.double().flatten(1) / 255 @ level) / (level @ level)).tolist()


def counts_of(sizes: tuple[int, ...], rho: float, confusing: int = 9) -> Tensor:
    """Groups of Biased MNIST made from classes of the given sizes, (10, 10)."""
    targets = torch.arange(10).repeat_interleave(torch.tensor(sizes))
    biases = chunked_values(
        targets, values=10, rho=rho, confusing=confusing, generator=torch.Generator()
    )
    return torch.bincount(targets * 10 + biases, minlength=100).view(10, 10)


@pytest.mark.parametrize(
    ("rho", "conflicting", "groups"), [(0.999, 63, 63), (0.997, 184, 84), (0.995, 305, 80),
                                       (0.990, 606, 89)],
)  # fmt: skip
def test_biased_mnist_has_the_published_number_of_conflicting_images(
    rho: float, conflicting: int, groups: int
) -> None:
    counts = counts_of(TRAIN_SIZES, rho)
    others = counts[~torch.eye(10, dtype=torch.bool)]
    assert (int(counts.sum()), int(others.sum())) == (60_000, conflicting)
    assert int((others > 0).sum()) == groups


def test_the_unbiased_test_split_has_the_published_counts() -> None:
    counts = counts_of(TEST_SIZES, 0.1)
    assert (int(counts.diagonal().sum()), int(counts.sum())) == (996, 10_000)


@pytest.mark.parametrize("rho", [0, 0.1, 0.29, 0.57, 0.9, 0.997, 1])
@pytest.mark.parametrize("confusing", [1, 4, 9])
def test_chunks_are_those_of_the_authors_code(rho: float, confusing: int) -> None:
    for size in (1, 7, 100, 893):
        row = counts_of((size, *(0,) * 9), rho, confusing)[0].tolist()
        aligned = math.floor(size * round(rho * 1000) / 1000 + 1e-9)
        rest = size - aligned
        chunk = math.ceil(rest / confusing)
        expected = [len(range(rest)[start : start + chunk]) for start in range(0, rest, chunk or 1)]
        assert row[0] == aligned
        assert sorted(row[1:], reverse=True) == expected + [0] * (9 - len(expected))


def test_training_is_augmented_as_in_the_paper_by_default() -> None:
    """PGD's appendix A.1, for every method; gray images have no hue. Others are not augmented."""
    crop, jitter, turn = (
        "random-resized-crop(0.9,1.1)",
        "jitter(hue=0.05,saturation=0.05)",
        "rotate(10)",
    )
    assert load("colored-mnist", "train").augment == (crop, jitter, turn)
    watermarked = load("watermarked-mnist", "train")
    assert watermarked.augment == (crop, turn)
    images = watermarked.inputs[:4] / 255.0
    generator = torch.Generator().manual_seed(0)
    assert augmentation(watermarked.augment)(images, generator).shape == images.shape
    assert load("biased-mnist", "train").augment == load("colored-mnist-lnl", "train").augment == ()


@pytest.mark.parametrize(("name", "split"), EVERY_SPLIT)
def test_a_split_is_described_completely(name: str, split: str) -> None:
    data = load(name, split)
    side, channels = (56, 1) if name == "watermarked-mnist" else (28, 3)
    sizes = {"biased-mnist": (600, 180), "colored-mnist-lnl": (600, 0)}.get(name, (540, 60))
    size = {"train": sizes[0], "validation": sizes[1]}.get(split, 200)
    assert data.inputs.shape == (size, channels, side, side)
    assert (data.name, data.split) == (name, split)
    assert data.bias == {"biased-mnist": "background", "watermarked-mnist": "object"}.get(
        name, "color"
    )
    assert data.classes == tuple("0123456789")
    assert (data.num_classes, data.num_biases) == (10, 10)
    assert torch.equal(data.alignment(), torch.eye(10, dtype=torch.bool))
    assert data.origin["version"] == DATASETS[name].version
    assert len(data.mean) in (1, channels)


@pytest.mark.parametrize("split", DATASETS["biased-mnist"].splits)
def test_biased_mnist_is_white_where_there_is_ink_and_the_color_elsewhere(
    split: str, small_originals: Path
) -> None:
    data = load("biased-mnist", split, rho=0.5, held_out=0.0)
    palette = torch.tensor(list(REBIAS.values()))
    digits = grey(data, small_originals)
    if split == "validation":  # some of the training digits, in their order
        digits = digits[find_rows(data, digits)]
    ink = (digits > 0).unsqueeze(1)
    expected = torch.where(ink, 255, palette[data.biases][:, :, None, None])
    assert torch.equal(data.inputs.long(), expected)
    assert data.mean == data.std == (0.5, 0.5, 0.5)


def find_rows(data: BiasedDataset, digits: Tensor) -> Tensor:
    """Which digit each image of Biased MNIST was made of, by its shape."""
    shapes = {(digit > 0).numpy().tobytes(): row for row, digit in enumerate(digits)}
    white = (data.inputs == 255).all(1)
    return torch.tensor([shapes[image.numpy().tobytes()] for image in white])


def test_the_palette_of_biased_mnist_has_two_225s() -> None:
    assert list(REBIAS.values()) == [
        (255, 0, 0), (0, 255, 0), (0, 0, 255), (225, 225, 0), (225, 0, 225),
        (0, 255, 255), (255, 128, 0), (255, 0, 128), (128, 0, 255), (128, 128, 128),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("split", "rho"),
    [
        ("train", 0.8),
        ("validation", 0.3),
        ("test", 0.1),
        ("test-biased", 1.0),
        ("test-train-rho", 0.8),
        ("test-rho0", 0.0),
    ],
)
def test_each_split_of_biased_mnist_has_its_rho(split: str, rho: float) -> None:
    counts = load("biased-mnist", split, rho=0.8, validation_rho=0.3, confusing=4).counts()
    for size, aligned in zip(counts.sum(1).tolist(), counts.diagonal().tolist(), strict=True):
        assert aligned == math.floor(size * rho + 1e-9)
    assert ((counts > 0).sum(1) <= 5).all()  # its own color and four others


def test_held_out_digits_are_not_trained_on(small_originals: Path) -> None:
    digits = load_original("mnist", "train", root=small_originals).images
    for held_out, sizes in ((0.0, (600, 180)), (0.1, (540, 60)), (0.5, (300, 300))):
        parts = [
            set(find_rows(load("biased-mnist", split, held_out=held_out), digits).tolist())
            for split in ("train", "validation")
        ]
        assert (len(parts[0]), len(parts[1])) == sizes
        assert parts[0] | parts[1] == set(range(600))
        assert bool(parts[0] & parts[1]) == (held_out == 0)
    other = find_rows(load("biased-mnist", "validation", seed=1), digits)
    assert set(other.tolist()) != set(
        find_rows(load("biased-mnist", "validation"), digits).tolist()
    )


def test_foreground_colors_are_grey_times_color_rounded() -> None:
    generator = torch.Generator().manual_seed(0)
    digits = torch.randint(0, 256, (40, 5, 7), generator=generator).to(torch.uint8)
    colors = torch.rand(40, 3, dtype=torch.float64, generator=generator) * 1.4 - 0.2
    images = color_foreground(digits, colors)
    exact = digits.numpy()[:, None] * colors.numpy()[:, :, None, None]
    assert (np.abs(images.numpy() - np.clip(exact, 0, 255)) < 0.503).all()
    every = torch.arange(256, dtype=torch.uint8).view(256, 1, 1)
    own = torch.arange(256).double()[:, None].expand(-1, 3) / 255
    assert torch.equal(color_foreground(torch.full_like(every, 255), own)[:, 0], every)
    assert torch.equal(color_foreground(every, torch.ones_like(own))[:, 2], every)


def lnl_colors(data: BiasedDataset) -> tuple[np.ndarray, np.ndarray]:
    """The color of each image, and its mean color."""
    return data.inputs.amax((2, 3)).numpy(), np.array(list(LNL.values()))[data.biases.numpy()]


def test_lnl_digits_have_one_flat_color_above_128_and_are_black_elsewhere(
    small_originals: Path,
) -> None:
    data = load("colored-mnist-lnl", "train")
    ink = load_original("mnist", "train", root=small_originals).images > 128
    color = data.inputs.amax((2, 3))
    assert torch.equal(data.inputs, color[:, :, None, None] * ink[:, None])
    assert color.min() >= 1
    assert color.max() <= 254


@pytest.mark.parametrize("split", ["train", "test", "test-color-1"])
def test_lnl_colors_are_normal_drawn_again_outside_and_rounded_down(split: str) -> None:
    colors, means = lnl_colors(load("colored-mnist-lnl", split, sigma2=0.04))
    draw = np.random.default_rng(0)
    for channel in range(3):
        mean, scale = means[:, channel], 0.2 * 255
        expected = stats.truncnorm((1 - mean) / scale, (255 - mean) / scale, mean, scale)
        unrounded = colors[:, channel] + draw.uniform(size=len(colors))
        # Uniform, if that is what they are; what rounding hid matters little within one level.
        assert stats.kstest(expected.cdf(unrounded), "uniform").pvalue > 1e-3


def test_lnl_in_gray_has_the_lightness_that_pillow_computes() -> None:
    color, gray = (load("colored-mnist-lnl", "test", gray=shown) for shown in (False, True))
    for image, shown in zip(color.inputs, gray.inputs, strict=True):
        expected = np.array(Image.fromarray(image.permute(1, 2, 0).numpy()).convert("L"))
        assert np.abs(shown.numpy().astype(int) - expected).max() <= 1  # they round otherwise


def test_lnl_splits_have_the_mean_colors_of_the_paper() -> None:
    train, test = (load("colored-mnist-lnl", split) for split in ("train", "test"))
    assert torch.equal(train.biases, train.targets)
    counts = test.counts()
    assert (counts.amax(1) - counts.amin(1) <= 1).all()
    for color in range(10):
        assert (load("colored-mnist-lnl", f"test-color-{color}").biases == color).all()


def test_without_variance_every_lnl_digit_has_its_mean_color() -> None:
    """As far as it lies inside of the limits: a channel is neither 0 nor 255."""
    colors, means = lnl_colors(load("colored-mnist-lnl", "train", sigma2=0))
    assert (colors == means.clip(1, 254)).all()


@pytest.mark.parametrize("name", ["colored-mnist", "watermarked-mnist"])
@pytest.mark.parametrize(
    ("split", "rho"),
    [
        ("train", 0.8),
        ("validation", 0.8),
        ("test", 0.1),
        ("test-majority", 1.0),
        ("test-minority", 0.0),
    ],
)
def test_counts_of_pgd_sets_are_exact(name: str, split: str, rho: float) -> None:
    for row, counts in enumerate(load(name, split, rho=0.8).counts().tolist()):
        own, size = counts[row], sum(counts)
        others = counts[:row] + counts[row + 1 :]
        assert own == math.floor(size * rho + 0.5)
        assert max(others) - min(others) <= 1


@pytest.mark.parametrize(
    ("options", "palette", "deviation"),
    [
        ({}, PGD, 1e-4),
        ({"variant": "paper"}, PGD, 1e-2),
        ({"variant": "paper", "difficulty": 0.0005}, PGD, math.sqrt(0.0005)),
        ({"palette": "lff", "difficulty": 0.05}, LFF, 0.05),
    ],
)
def test_pgd_colors_have_the_stated_noise(
    options: dict[str, object], palette: Palette, deviation: float, small_originals: Path
) -> None:
    data = load("colored-mnist", "train", rho=0.5, **options)
    digits = grey(data, small_originals)
    colors = np.array([color_of(*pair) for pair in zip(data.inputs, digits, strict=True)])
    means = np.array(list(palette.values()))[data.biases.numpy()] / 255
    inside = (means > 3 * deviation) & (means < 1 - 3 * deviation)
    noise = (colors - means)[inside]
    rounding = 1e-3  # of bytes, averaged over a digit
    assert abs(noise.mean()) < 4 * deviation / math.sqrt(len(noise)) + rounding
    assert abs(noise.std() - deviation) < 0.1 * deviation + rounding


def test_a_noisy_color_is_cut_after_multiplication_by_pgd_and_before_by_lff(
    small_originals: Path,
) -> None:
    """Where the noise makes a color brighter than possible, half-gray pixels tell them apart."""
    images = {}
    for palette in ("pgd", "lff"):
        data = load("colored-mnist", "train", difficulty=2.0, palette=palette)
        digits = grey(data, small_originals)
        half = ((digits > 100) & (digits < 150)).unsqueeze(1).expand_as(data.inputs)
        images[palette] = int(data.inputs[half].max())
    assert images["lff"] < 150
    assert images["pgd"] > 250


def test_random_colors_fill_the_cube(small_originals: Path) -> None:
    data = load("colored-mnist", "test-random-color")
    assert (data.biases == UNKNOWN).all()
    digits = grey(data, small_originals)
    colors = np.array([color_of(*pair) for pair in zip(data.inputs, digits, strict=True)])
    for channel in range(3):
        assert stats.kstest(colors[:, channel], "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(colors.T) - np.eye(3)).max() < 0.25


@pytest.mark.parametrize("offset", [0, 8, 16, 28])
def test_the_canvas_holds_the_digit_and_an_object_of_the_class_that_the_bias_names(
    offset: int, small_originals: Path
) -> None:
    data = load("watermarked-mnist", "train", rho=0.5, offset=offset)
    digits = grey(data, small_originals)
    fashion = load_original("fashion-mnist", "train", root=small_originals)
    objects = {
        image.numpy().tobytes(): int(label)
        for image, label in zip(fashion.images[:540], fashion.labels[:540], strict=True)
    }
    tops = []
    for image, digit, bias in zip(data.inputs[:, 0], digits, data.biases, strict=True):
        left, right = image[:, :28], image[:, 28:]
        down = next(
            top
            for top in range(offset + 1)
            if objects.get(left[top : top + 28].numpy().tobytes()) == int(bias)
        )
        up = next(
            top for top in range(offset + 1) if torch.equal(right[28 - top : 56 - top], digit)
        )
        assert int(left.long().sum()) == int(left[down : down + 28].long().sum())
        assert int(right.long().sum()) == int(digit.long().sum())
        tops.append((down, up))
    for places in zip(*tops, strict=True):
        assert set(places) == set(range(offset + 1))
    if offset:
        assert abs(np.corrcoef(np.array(tops).T)[0, 1]) < 0.2


def test_objects_of_one_class_vary() -> None:
    data = load("watermarked-mnist", "train", rho=1.0, offset=0)
    threes = data.inputs[data.targets == 3, 0, :28, :28].flatten(1)
    assert len(threes.unique(dim=0)) > len(threes) // 2


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides_what_is_random(name: str) -> None:
    first, again, other = (load(name, "train", seed=seed) for seed in (3, 3, 4))
    assert first.hash == again.hash != other.hash
    assert torch.equal(first.targets, other.targets)  # the files' own order


@pytest.mark.parametrize("name", NAMES)
def test_the_global_generator_is_left_alone(name: str) -> None:
    before = torch.get_rng_state()
    load(name, "test")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", NAMES)
def test_test_splits_are_made_independently(name: str) -> None:
    splits = DATASETS[name](**{}).test_splits
    hashes = [load(name, split).hash for split in splits]
    assert len(set(hashes)) == len(splits)
    if name == "colored-mnist-lnl":
        noises = [load(name, split, sigma2=10.0).inputs.amax((2, 3)) for split in splits[1:4]]
        assert not any(torch.equal(*pair) for pair in itertools.combinations(noises, 2))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("biased-mnist", {"rho": 1.1}, r"rho of data set 'biased-mnist' must be in \[0, 1\]"),
        ("biased-mnist", {"confusing": 10}, r"confusing .* must be in \[1, 9\], got 10"),
        ("biased-mnist", {"confusing": 0}, r"confusing .* must be in \[1, 9\], got 0"),
        ("biased-mnist", {"held_out": 0.6}, r"held_out .* must be in \[0, 0.5\], got 0.6"),
        ("colored-mnist-lnl", {"sigma2": -1}, "sigma2 .* must be at least 0, got -1"),
        ("colored-mnist-lnl", {"sigma": 1}, "did you mean 'sigma2'"),
        ("colored-mnist", {"palette": "rebias"}, "one of 'pgd', 'lff', got 'rebias'"),
        ("watermarked-mnist", {"offset": 29}, r"offset .* must be in \[0, 28\], got 29"),
        ("watermarked-mnist", {"offset": 1.5}, "offset .* must be a whole number, got 1.5"),
    ],
)
def test_bad_options_are_refused(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(CrossbiasError, match=message):
        load(name, "train", **options)


@pytest.mark.parametrize(
    ("name", "split", "options", "expected"),
    [
        ("biased-mnist", "train", {"rho": 0.9}, "93ba5dea27d7bb39"),
        ("biased-mnist", "validation", {"confusing": 3}, "22c555c225274f91"),
        ("colored-mnist-lnl", "train", {}, "3e597efa9fdb089f"),
        ("colored-mnist-lnl", "test-color-4", {"sigma2": 0.05}, "6cea66191b8958b1"),
        ("colored-mnist", "train", {}, "9f544a622414d325"),
        ("colored-mnist", "validation", {"palette": "lff", "variant": "paper"}, "7fcc7ea7af24f3de"),
        ("colored-mnist", "test-random-color", {}, "3580be16f0fbce4e"),
        ("watermarked-mnist", "train", {"offset": 16}, "da242bc98500fdab"),
    ],
)
def test_golden_hash(name: str, split: str, options: dict[str, object], expected: str) -> None:
    assert load(name, split, seed=1, **options).hash[:16] == expected
