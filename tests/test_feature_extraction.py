"""Features of a frozen network, written once: a data set, and a file for methods that take one."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import crossbias
from crossbias.errors import CrossbiasError
from crossbias.experiment import Experiment, load_trained
from crossbias.feature_extraction import features_of_network, features_of_run
from crossbias.runs.files import hash_of

GLYPHS = {"name": "glyphs", "size": 60, "test_size": 30}
TRAIN = {"epochs": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A run of plain training on glyphs, and the features of its network."""
    home = tmp_path_factory.mktemp("features")
    Experiment({"name": "erm"}, GLYPHS, {}, TRAIN).run(home / "run")
    features_of_run(home / "run", home / "features", device="cpu")
    return home


def test_features_and_labels_are_those_of_the_data_and_the_network(home):
    experiment, network = load_trained(home / "run")
    for split in experiment.source.available_splits:
        data = experiment.split(split)
        found = crossbias.load(f"features:{home / 'features'}", split)
        pixels = data.inputs.float() / 255
        shape = (1, -1, 1, 1)
        inputs = (pixels - torch.tensor(data.mean).view(shape)) / torch.tensor(data.std).view(shape)
        with torch.no_grad():
            expected = network.eval()(inputs).features
        torch.testing.assert_close(found.inputs, expected, rtol=1e-4, atol=1e-5)
        assert torch.equal(found.targets, data.targets)
        assert found.attributes.keys() == data.attributes.keys()
        for name, values in data.attributes.items():
            assert torch.equal(found.attributes[name], values)
        assert (found.classes, found.bias) == (data.classes, data.bias)
        assert dict(found.values) == dict(data.values)
        assert torch.equal(found.alignment(), data.alignment())


def test_a_network_with_these_weights_gives_the_same_features(home, tmp_path):
    network = {"name": "small-convnet", "weights": str(home / "run" / "model.safetensors")}
    experiment = Experiment(data=GLYPHS, network=network, train=TRAIN)
    width = features_of_network(experiment, tmp_path / "f", device="cpu")
    found, expected = (
        np.load(folder / "train.npy") for folder in (tmp_path / "f", home / "features")
    )
    assert found.shape == (60, width)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("method", ["dfr", "group-dro"])
def test_heads_are_trained_on_the_features(home, tmp_path, method):
    data = {"name": f"features:{home / 'features'}"}
    result = Experiment({"name": method}, data, {}, TRAIN).run(tmp_path / "head")
    assert result.config["network"]["name"] == "linear"
    assert result.metrics["test"].overall.n == 30
    again, network = load_trained(tmp_path / "head")
    assert network.head.in_features == again.split("train").inputs.shape[1]


def test_aflite_takes_the_file(home, tmp_path):
    method = {"name": "aflite", "features": str(home / "features" / "train.npy"), "classifiers": 4}
    result = Experiment(method, GLYPHS, {}, TRAIN).run(tmp_path / "run")
    assert result.config["supervision"] == "kind of bias"


def test_the_command_says_what_to_do_next(home, crossbias):
    code, out, err = crossbias("features", "--run", home / "run", "--out", "f", "--device", "cpu")
    assert (code, err.count("Traceback")) == (0, 0)
    assert out.endswith("next: crossbias train --data features:f --method dfr\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--data", "glyphs"], "has random weights, whose features say little"),
        ([], "name either data and a network"),
        (["--data", "glyphs", "--run", "x"], "name either data and a network"),
        (["--run", "x", "--network", "mlp"], "leave the other options out"),
    ],
)
def test_mistakes_are_one_line(crossbias, arguments, words):
    code, _, err = crossbias("features", "--out", "f", *arguments)
    assert code == 2
    assert words in err
    assert len(err.splitlines()) == 1


def test_a_folder_is_written_once_and_damage_is_refused(home, tmp_path):
    with pytest.raises(CrossbiasError, match="exists; choose another folder"):
        features_of_run(home / "run", home / "features", device="cpu")
    copied = Path(shutil.copytree(home / "features", tmp_path / "copy"))
    content = bytearray((copied / "train.npy").read_bytes())
    content[-1] ^= 1
    (copied / "train.npy").write_bytes(content)
    with pytest.raises(CrossbiasError, match=r"train\.npy is damaged or missing"):
        crossbias.load(f"features:{copied}", "train")
    with pytest.raises(CrossbiasError, match="holds no features: it has no"):
        crossbias.load(f"features:{tmp_path}", "train")


@pytest.mark.parametrize(
    "change",
    [
        {"format": 0},
        {"classes": 3},
        {"bias": "none"},
        {"values": {"background": 3}},
        {"alignments": {"background": 3}},
        {"splits": {"../train": ["a", "b"]}},
        {"splits": {"train": ["a"]}},
        {"splits": {"train": {}}},
    ],
)
def test_a_damaged_description_is_one_line(home, tmp_path, change):
    copied = Path(shutil.copytree(home / "features", tmp_path / "copy"))
    about = json.loads((copied / "features.json").read_text())
    (copied / "features.json").write_text(json.dumps(about | change))
    with pytest.raises(CrossbiasError, match="not of this version of crossbias, or damaged"):
        crossbias.load(f"features:{copied}", "train")


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((60, 3)), "holds float64 of shape"),
        (np.zeros(60, np.float32), "not features"),
        (np.array([{}], dtype=object), "damaged"),
        (np.zeros((59, 3), np.float32), "damaged"),
    ],
)
def test_arrays_that_are_no_features_are_refused_also_with_their_hashes(
    home, tmp_path, array, words
):
    copied = Path(shutil.copytree(home / "features", tmp_path / "copy"))
    np.save(copied / "train.npy", array, allow_pickle=True)
    about = json.loads((copied / "features.json").read_text())
    about["splits"]["train"][0] = hash_of(copied / "train.npy")
    (copied / "features.json").write_text(json.dumps(about))
    with pytest.raises(CrossbiasError, match=words):
        crossbias.load(f"features:{copied}", "train")
