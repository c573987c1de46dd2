"""Planted cues: exact counts, readable by a cheap probe, with the image still recoverable."""

import dataclasses
import functools
import math
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import hadamard
from torch import Tensor

from crossbias import load
from crossbias.data import BiasedDataset, plant, plant_values, replant
from crossbias.data.planting.planted_cues import PlantedCue
from crossbias.errors import CrossbiasError

CUES: tuple[PlantedCue, ...] = get_args(PlantedCue)
LUMA = torch.tensor([0.299, 0.587, 0.114], dtype=torch.float64).view(1, 3, 1, 1)
every_cue = pytest.mark.parametrize("bias", CUES)


@functools.cache
def images(count: int = 300, channels: int = 3, side: int = 28, *, seed: int = 0) -> Tensor:
    """Drawn digits on blobs of random color; the last two all black and all white."""
    generator = torch.Generator().manual_seed(seed)
    digits = load("glyphs", "train", size=count, image_size=side, bias="corner", seed=seed).inputs
    blobs = torch.rand(count, channels, 4, 4, generator=generator) * 255
    smooth = torch.nn.functional.interpolate(blobs, size=(side, side), mode="bilinear")
    mixed = (0.5 * digits[:, :channels] + 0.5 * smooth).to(torch.uint8)
    mixed[-2], mixed[-1] = 0, 255
    return mixed


def dataset(classes: int = 10, **changes: object) -> BiasedDataset:
    inputs = images()
    targets = torch.arange(len(inputs)) % classes
    data = BiasedDataset(
        inputs=inputs, targets=targets, attributes={"hospital": targets.flip(0)}, bias="hospital"
    )
    return dataclasses.replace(data, **changes)


def probe(planted: Tensor, bias: PlantedCue) -> Tensor:
    """A few numbers of each image in which the cue shows, (n, D)."""
    pixels = planted.double()
    if bias == "brightness":
        return pixels.mean((1, 2, 3))[:, None]
    if bias == "color":
        mean = pixels.mean((2, 3), keepdim=True)
        return (mean - (mean * LUMA).sum(1, keepdim=True)).flatten(1)
    if bias == "texture":
        height, width = (side // 8 * 8 for side in pixels.shape[2:])
        whole = pixels[:, :, :height, :width].mean(1)
        folded = whole.unflatten(2, (-1, 8)).unflatten(1, (-1, 8)).mean((1, 3))  # (n, 8, 8)
        walsh = torch.from_numpy(hadamard(8)).double()
        return (walsh @ folded @ walsh).flatten(1)[:, 1:] / 64
    corner = pixels[:, :, 3:7, 3:7] if bias == "patch" else pixels[:, :, 17:25, 17:25]
    return corner.flatten(1)


@every_cue
@pytest.mark.parametrize("count", [2, 10, 63])
def test_a_nearest_mean_probe_of_its_kind_reads_the_value(bias: PlantedCue, count: int) -> None:
    values = torch.arange(630) % count
    seen = probe(plant_values(images(630), values, bias=bias, num_values=count), bias)
    new = probe(plant_values(images(630, seed=1), values, bias=bias, num_values=count), bias)
    means = torch.stack([seen[values == value].mean(0) for value in range(count)])
    accuracy = float((torch.cdist(new, means).argmin(1) == values).double().mean())
    assert accuracy > (0.97 if bias in ("texture", "watermark") else 0.999)


def test_a_color_is_no_brightness() -> None:
    """All colors are equally light: no probe of lightness can read them."""
    originals = images()
    lightness = [
        (plant_values(originals, torch.full((300,), value), bias="color", num_values=10) * LUMA)
        .sum(1)
        .mean((1, 2))
        for value in range(10)
    ]
    assert (torch.stack(lightness) - lightness[0]).abs().max() < 0.5


def test_color_keeps_lightness_and_leaves_one_hue() -> None:
    originals, values = images(), torch.arange(300) % 10
    planted = plant_values(originals, values, bias="color", num_values=10).double()
    before, after = ((x * LUMA).sum(1) for x in (originals.double(), planted))
    assert ((after - 40) * 255 / 175 - before).abs().max() < 1
    chroma = planted - after[:, None]
    for value in range(10):
        own = chroma[values == value]
        assert (own - own.mean((0, 2, 3), keepdim=True)).abs().max() < 1.2


def test_texture_can_be_taken_off() -> None:
    originals = images()
    one, other = (
        plant_values(originals, torch.full((300,), value), bias="texture", num_values=4).double()
        for value in (0, 3)
    )
    assert set((one - other).abs().flatten().tolist()) == {0.0, 48.0}
    smaller = (one - 24) * 255 / 207  # plus or minus a constant
    distance = torch.minimum(
        (smaller - 24 * 255 / 207 - originals).abs(), (smaller + 24 * 255 / 207 - originals).abs()
    )
    assert distance.max() < 1


def test_brightness_keeps_the_order_of_the_pixels() -> None:
    originals, values = images(), torch.arange(300) % 5
    planted = plant_values(originals, values, bias="brightness", num_values=5)
    goals = torch.tensor([64.0, 96.0, 128.0, 160.0, 192.0], dtype=torch.float64)
    assert (planted.double().mean((1, 2, 3)) - goals[values]).abs().max() <= 0.5
    for before, after in zip(originals.flatten(1), planted.flatten(1), strict=True):
        assert (after[before.argsort(stable=True)].int().diff() >= 0).all()


@pytest.mark.parametrize(("side", "cell"), [(8, 1), (28, 1), (60, 2)])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_marks_stay_in_their_place(side: int, cell: int, channels: int) -> None:
    generator = torch.Generator().manual_seed(0)
    originals = torch.randint(0, 256, (40, channels, side, side), generator=generator)
    originals, values = originals.to(torch.uint8), torch.arange(40) % 8
    margin = min(side // 8, side - 8 * cell)
    low, high = side - margin - 8 * cell, side - margin
    marked = plant_values(originals, values, bias="watermark", num_values=8)
    mark = marked[:, :, low:high, low:high].clone()
    light = (mark >= 128).unflatten(3, (8, cell)).unflatten(2, (8, cell))
    cells = light[:, :1, :, :1, :, :1]
    assert (light == cells).all()  # whole cells, every channel alike
    assert (cells.flatten(1).sum(1) == 32).all()  # half of them light
    assert len(cells.flatten(1).unique(dim=0)) == 8
    under = mark - 128.0 * light.flatten(4, 5).flatten(2, 3)
    assert (under * 255 / 127 - originals[:, :, low:high, low:high]).abs().max() <= 1.01
    patched = plant_values(originals, values, bias="patch", num_values=8)
    square = patched[:, :, margin : margin + 4 * cell, margin : margin + 4 * cell]
    assert (square == square[:, :, :1, :1]).all()
    assert len(square[:, :, 0, 0].unique(dim=0)) == 8
    marked[:, :, low:high, low:high] = originals[:, :, low:high, low:high]
    patched[:, :, margin : margin + 4 * cell, margin : margin + 4 * cell] = originals[
        :, :, margin : margin + 4 * cell, margin : margin + 4 * cell
    ]
    assert torch.equal(marked, originals)
    assert torch.equal(patched, originals)


def test_a_patch_has_the_pure_colors_of_the_wheel() -> None:
    black = torch.zeros(6, 3, 28, 28, dtype=torch.uint8)
    patch = plant_values(black, torch.arange(6), bias="patch", num_values=6)[:, :, 4, 4]
    red, yellow, green, cyan, blue, magenta = patch.tolist()
    assert (red, green, blue) == ([255, 0, 0], [0, 255, 0], [0, 0, 255])
    assert (yellow, cyan, magenta) == ([255, 255, 0], [0, 255, 255], [255, 0, 255])


@given(
    sizes=st.lists(st.integers(0, 30), min_size=2, max_size=5),
    rho=st.floats(0, 1),
    bias=st.sampled_from(CUES),
    seed=st.integers(0, 2**32),
)
def test_counts_are_exact_in_every_class(
    sizes: list[int], rho: float, bias: PlantedCue, seed: int
) -> None:
    targets = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    inputs = torch.zeros(len(targets), 1, 8, 8, dtype=torch.uint8)
    classes = tuple("abcde"[: len(sizes)])
    data = BiasedDataset(inputs=inputs, targets=targets, classes=classes)
    counts = plant(data, bias=bias, rho=rho, seed=seed).counts()
    for target, size in enumerate(sizes):
        row = counts[target].tolist()
        assert row.pop(target) == math.floor(size * rho + 0.5)
        assert max(row) - min(row) <= 1


@every_cue
def test_only_the_images_and_the_bias_change(bias: PlantedCue) -> None:
    data = dataset(classes=5).subset(torch.arange(20, 120))
    planted = plant(data, bias=bias, rho=0.9, seed=3)
    assert planted.bias == bias
    assert list(planted.attributes) == ["hospital", bias]
    assert torch.equal(planted.attributes["hospital"], data.attributes["hospital"])
    assert torch.equal(planted.targets, data.targets)
    assert torch.equal(planted.index, data.index)
    assert torch.equal(planted.alignment(), torch.eye(5, dtype=torch.bool))
    assert planted.values[bias] == tuple(f"{bias} {value}" for value in range(5))
    assert planted.hash != data.hash
    assert torch.equal(data.inputs, images()[20:120])  # the given images are not modified
    expected = plant_values(data.inputs, planted.biases, bias=bias, num_values=5)
    assert torch.equal(planted.inputs, expected)


def test_the_seed_and_the_split_decide_which_images_conflict() -> None:
    data = dataset()
    draws = [plant(data, bias="patch", rho=0.5, seed=seed).hash for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]
    test = dataclasses.replace(data, split="test")
    assert plant(test, bias="patch", rho=0.5).hash != draws[0]


@every_cue
def test_replanting_changes_the_cue_and_nothing_else(bias: PlantedCue) -> None:
    """A counterfactual: the other value's image is what planting that value gives."""
    data = dataset()
    planted = plant(data, bias=bias, rho=0.9)
    other = (planted.biases + 1) % 10
    counterfactual = replant(data, other, bias=bias)
    assert torch.equal(counterfactual.biases, other)
    assert torch.equal(counterfactual.targets, planted.targets)
    assert (counterfactual.inputs != planted.inputs).flatten(1).any(1).all()
    assert torch.equal(replant(data, planted.biases, bias=bias).inputs, planted.inputs)


def test_color_turns_grey_images_into_colored_ones() -> None:
    data = dataset(inputs=images(channels=1), mean=(0.1,), std=(0.3,))
    planted = plant(data, bias="color", rho=1.0)
    assert planted.inputs.shape == (300, 3, 28, 28)
    assert (planted.mean, planted.std) == ((0.1,), (0.3,))  # one number holds for every channel


def test_large_sets_are_planted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.arange(300) % 10
    whole = {bias: plant_values(images(), values, bias=bias, num_values=10) for bias in CUES}
    monkeypatch.setattr("crossbias.data.planting.planted_cues._CHUNK", 7 * 3 * 28 * 28 + 1)
    for bias in CUES:
        assert torch.equal(plant_values(images(), values, bias=bias, num_values=10), whole[bias])


VECTORS = BiasedDataset(inputs=torch.zeros(4, 2), targets=torch.arange(4) % 2)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (VECTORS, {"bias": "patch", "rho": 0.9}, r"uint8 images .* got \(4, 2\) torch.float32"),
        (dataset(), {"bias": "hue", "rho": 0.9}, "no cue 'hue'; there are: color, watermark"),
        (dataset(), {"bias": "patch", "rho": 1.2}, r"rho of the planted bias must be in \[0, 1\]"),
        (dataset(classes=1), {"bias": "patch", "rho": 0.9}, "only one class"),
        (dataset(classes=100), {"bias": "patch", "rho": 0.9}, "2 to 63 values, got 100"),
        (
            dataset(inputs=images()[:, :, :7]),
            {"bias": "patch", "rho": 0.9},
            r"8 x 8 pixels or more, got \(300, 3, 7, 28\)",
        ),
        (
            dataset(inputs=images()[:, :2]),
            {"bias": "color", "rho": 0.9},
            "1 or 3 channels, got 2",
        ),
    ],
)
def test_what_cannot_be_planted_is_refused(data, options, message) -> None:
    with pytest.raises(CrossbiasError, match=message):
        plant(data, **options)


def test_a_cue_is_not_planted_twice() -> None:
    planted = plant(dataset(), bias="color", rho=0.9)
    with pytest.raises(CrossbiasError, match="already has an attribute 'color'; plant into"):
        plant(planted, bias="color", rho=0.9)
    assert list(plant(planted, bias="patch", rho=0.9).attributes) == ["hospital", "color", "patch"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (torch.zeros(2, dtype=torch.int64), "300 images need as many int64 values"),
        (torch.zeros(300), "300 images need as many int64 values"),
        (torch.full((300,), 10), r"values must lie in 0\.\.9"),
        (torch.full((300,), -1), r"values must lie in 0\.\.9"),
    ],
)
def test_values_that_do_not_fit_are_refused(values: Tensor, message: str) -> None:
    with pytest.raises(CrossbiasError, match=message):
        replant(dataset(), values, bias="patch")


@pytest.mark.parametrize(
    ("bias", "expected"),
    [
        ("color", "445f6f2aeebf3ef1"),
        ("watermark", "a69257cee91dc09b"),
        ("brightness", "9ceab4dc41cc9657"),
        ("texture", "86023030434c6258"),
        ("patch", "bdd4ce8668915ec2"),
    ],
)
def test_golden_hash(bias: PlantedCue, expected: str) -> None:
    data = load("glyphs", "train", size=100, rho=0.9, seed=1)
    assert plant(data, bias=bias, rho=0.9, seed=1).hash[:16] == expected
