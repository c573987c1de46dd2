"""The real files: published counts and the bytes of whole splits. See conftest.py."""

import math

import pytest
import torch

from crossbias import load
from crossbias.data import create_source
from crossbias.data.generated.originals import Collection, load_original
from crossbias.data.source import data_root

ROOT = data_root()


@pytest.mark.parametrize("collection", ["mnist", "fashion-mnist"])
def test_the_originals_have_the_published_sizes(collection: Collection) -> None:
    sizes = {"mnist": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)}
    train = torch.bincount(load_original(collection, "train", root=ROOT).labels).tolist()
    assert train == list(sizes.get(collection, (6000,) * 10))
    assert len(load_original(collection, "t10k", root=ROOT).labels) == 10_000


@pytest.mark.parametrize(
    ("rho", "conflicting"), [(0.999, 63), (0.997, 184), (0.995, 305), (0.990, 606)]
)
def test_biased_mnist_has_the_published_conflicts(rho: float, conflicting: int) -> None:
    data = load("biased-mnist", "train", rho=rho)
    assert len(data) == 60_000
    assert int((data.biases != data.targets).sum()) == conflicting


@pytest.mark.parametrize(
    ("split", "aligned"),
    [("test", 996), ("test-biased", 10_000), ("test-rho0", 0), ("test-train-rho", 9965)],
)
def test_the_test_splits_of_biased_mnist_have_the_published_counts(
    split: str, aligned: int
) -> None:
    data = load("biased-mnist", split)
    assert len(data) == 10_000
    assert int((data.biases == data.targets).sum()) == aligned


@pytest.mark.parametrize(
    "name", ["biased-mnist", "colored-mnist-lnl", "colored-mnist", "watermarked-mnist"]
)
def test_the_sizes_that_a_check_compares_are_those_of_the_real_files(name: str) -> None:
    source = create_source(name)
    for split in ("train", source.test_splits[-1]):
        assert source.published(split)["images"] == len(source.load(split, root=ROOT))


def test_end_validates_on_18000_unbiased_images() -> None:
    data = load("biased-mnist", "validation")
    assert len(data) == 18_000
    assert int(data.counts().diagonal().sum()) in range(1790, 1801)


@pytest.mark.parametrize("name", ["colored-mnist", "watermarked-mnist"])
def test_pgd_trains_on_the_first_90_percent(name: str) -> None:
    labels = load_original("mnist", "train", root=ROOT).labels
    train, validation = (load(name, split, rho=0.995) for split in ("train", "validation"))
    assert torch.equal(torch.cat((train.targets, validation.targets)), labels)
    assert len(train) == 54_000
    sizes = torch.bincount(labels[:54_000]).tolist()
    conflicting = sum(size - math.floor(size * 0.995 + 0.5) for size in sizes)
    assert int((train.biases != train.targets).sum()) == conflicting == 271


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("biased-mnist", {}, "8aa38b28216c60da"),
        ("colored-mnist-lnl", {}, "7d7d48dfd35ef6ae"),
        ("colored-mnist", {}, "1dbc2eda5a1b51f7"),
        ("watermarked-mnist", {}, "7e51cd883a4509d3"),
    ],
)
def test_golden_hash_of_a_whole_split(name: str, options: dict[str, str], expected: str) -> None:
    assert load(name, "test", **options).hash[:16] == expected
