"""Sources: their options are their keywords, whether a dataclass or a constructor declares them."""

from pathlib import Path

import pytest
import torch

from crossbias.data import DATASETS, BiasedDataset, Folder, Source, create_source
from crossbias.errors import CrossbiasError
from crossbias.parameters import Fraction, parameters_of


class Halves(Source):
    """What an author may write without knowing about dataclasses."""

    name = "halves"
    summary = "two classes"
    splits = ("train", "test")
    network = "mlp"

    def __init__(self, *, rho: Fraction = 0.5, size: int = 4) -> None:
        self.rho = rho
        self.size = size

    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        targets = torch.arange(self.size) % 2
        return BiasedDataset(inputs=torch.zeros(self.size, 2), targets=targets, split=split)


def test_an_author_may_write_a_plain_constructor() -> None:
    source = create_source(f"{__name__}:Halves", rho="0.25")
    assert source.options() == {"rho": 0.25, "size": 4}
    data = source.load("test", seed=3)
    assert dict(data.origin) == {
        "version": 1, "seed": 3, "label_noise": 0.0, "rho": 0.25, "size": 4,
    }  # fmt: skip
    with pytest.raises(CrossbiasError, match="halves has no split 'tests'"):
        source.load("tests")


@pytest.mark.parametrize("name", DATASETS)
def test_options_are_keywords_with_their_defaults_in_the_order_of_the_class(name: str) -> None:
    kind = DATASETS[name]
    parameters = parameters_of(kind)
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters.values())
    expected = {key: parameter.default for key, parameter in parameters.items() if key != "path"}
    if name == "folder":
        expected["target"] = "class"
    assert list(kind().options().items()) == list(expected.items())


def test_the_options_of_a_folder_in_the_order_of_the_record() -> None:
    assert list(Folder(path="x", labels="labels.csv", target="ill").options().items()) == [
        ("labels", "labels.csv"),
        ("file", "file"),
        ("target", "ill"),
        ("bias", None),
        ("attributes", None),
        ("split_by", "split"),
        ("group_by", None),
        ("cluster", None),
        ("validation", 0.1),
        ("test", 0.2),
        ("size", 224),
        ("fit", "crop"),
        ("channels", 3),
        ("depth", None),
        ("store", "pixels"),
        ("tags", ()),
    ]


@pytest.mark.parametrize(
    ("given", "target"),
    [({}, "class"), ({"target": "ill"}, "ill"), ({"labels": "labels.csv"}, None)],
)
def test_only_a_folder_without_labels_has_a_target_by_default(given, target) -> None:
    assert Folder(path="x", **given).target == target
