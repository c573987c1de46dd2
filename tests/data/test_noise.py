"""Label noise: the exact number of labels becomes wrong, independent of class and bias."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from crossbias import load
from crossbias.data import BiasedDataset, with_label_noise
from crossbias.data.assignment import below, normal
from crossbias.errors import CrossbiasError


def dataset(size: int, classes: int = 10) -> BiasedDataset:
    targets = torch.arange(size) % classes
    return BiasedDataset(
        inputs=torch.zeros(size, 1),
        targets=targets,
        attributes={"color": torch.where(torch.arange(size) < size // 10, 0, targets)},
        bias="color",
        classes=tuple("abcdefghij"[:classes]),
        values={"color": tuple("ABCDEFGHIJ"[:classes])},
    )


@given(
    size=st.integers(0, 300),
    classes=st.integers(2, 10),
    fraction=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_exactly_the_fraction_is_flipped_and_the_clean_labels_stay(
    size: int, classes: int, fraction: float, seed: int
) -> None:
    data = dataset(size, classes)
    noisy = with_label_noise(data, fraction=fraction, seed=seed)
    assert int((noisy.targets != data.targets).sum()) == round(fraction * size)
    assert torch.equal(noisy.attributes["clean"], data.targets)
    assert torch.equal(noisy.attributes["color"], data.attributes["color"])
    assert noisy.values["clean"] == data.classes
    assert noisy.bias == "color"
    assert torch.equal(noisy.alignment(), data.alignment())  # as before the noise


def test_flips_depend_neither_on_the_class_nor_on_the_bias() -> None:
    data = dataset(20_000)
    noisy = with_label_noise(data, fraction=0.1, seed=0)
    flipped = noisy.targets != data.targets
    for column in (data.targets, data.attributes["color"]):
        table = torch.bincount(column * 2 + flipped, minlength=20).view(10, 2)
        assert stats.chi2_contingency(table.numpy()).pvalue > 1e-3


def test_every_wrong_class_is_as_likely() -> None:
    data = dataset(50_000)
    noisy = with_label_noise(data, fraction=1.0, seed=0)
    table = torch.bincount(data.targets * 10 + noisy.targets, minlength=100).view(10, 10)
    assert (table.diagonal() == 0).all()
    wrong = table[~torch.eye(10, dtype=torch.bool)]
    assert stats.chisquare(wrong.numpy()).pvalue > 1e-3


def test_seed_and_split_decide_which() -> None:
    data = dataset(1000)
    flips = [
        with_label_noise(dataclasses.replace(data, split=split), fraction=0.2, seed=seed).targets
        for seed, split in ((0, "train"), (0, "train"), (1, "train"), (0, "validation"))
    ]
    assert torch.equal(flips[0], flips[1])
    assert not torch.equal(flips[0], flips[2])
    assert not torch.equal(flips[0], flips[3])


def test_noise_is_not_put_in_twice_nor_where_there_is_one_class() -> None:
    noisy = with_label_noise(dataset(10), fraction=0.5, seed=0)
    with pytest.raises(CrossbiasError, match="already has an attribute 'clean'"):
        with_label_noise(noisy, fraction=0.5, seed=0)
    with pytest.raises(CrossbiasError, match="only one class"):
        with_label_noise(dataset(10, classes=1), fraction=0.5, seed=0)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_a_fraction_outside_0_to_1_is_refused(fraction: float) -> None:
    with pytest.raises(CrossbiasError, match=r"must be in \[0, 1\]"):
        with_label_noise(dataset(10), fraction=fraction, seed=0)
    with pytest.raises(CrossbiasError, match=r"label_noise of data set 'glyphs' must be in"):
        load("glyphs", "train", size=10, label_noise=fraction)


def test_every_source_takes_label_noise_for_its_training_split() -> None:
    options = {"size": 200, "test_size": 100, "image_size": 16}
    for split in ("train", "validation", "test"):
        clean = load("glyphs", split, **options)
        noisy = load("glyphs", split, label_noise=0.1, **options)
        flipped = int((noisy.targets != clean.targets).sum())
        assert flipped == (20 if split == "train" else 0)
        assert torch.equal(noisy.inputs, clean.inputs)
        assert noisy.origin["label_noise"] == 0.1


@pytest.mark.usefixtures("small_originals")
def test_label_noise_in_biased_mnist_has_a_golden_hash() -> None:
    data = load("biased-mnist", "train", label_noise=0.1, seed=1)
    assert int((data.targets != data.attributes["clean"]).sum()) == 60
    assert data.hash[:16] == "e255eea695906d58"


def test_normal_numbers_are_standard_normal_and_never_infinite() -> None:
    numbers = normal(100_000, generator=torch.Generator().manual_seed(0))
    assert numbers.dtype == torch.float64
    assert numbers.isfinite().all()
    assert stats.kstest(numbers.numpy(), "norm").pvalue > 1e-3


@given(limit=st.integers(1, 1000), seed=st.integers(0, 2**32))
def test_whole_numbers_stay_below_their_limit(limit: int, seed: int) -> None:
    numbers = below(limit, 100, generator=torch.Generator().manual_seed(seed))
    assert int(numbers.min()) >= 0
    assert int(numbers.max()) < limit


def test_whole_numbers_are_as_likely_as_each_other() -> None:
    numbers = below(7, 70_000, generator=torch.Generator().manual_seed(0))
    assert stats.chisquare(torch.bincount(numbers).numpy()).pvalue > 1e-3
