"""What is chosen for a person's own images where nothing is said."""

import json
import signal
from functools import partial
from pathlib import Path

import pytest
import torch
from PIL import Image

import crossbias
from crossbias import BiasedDataset, Recipe
from crossbias.data.images.encoded_images import EncodedImage
from crossbias.defaults import (
    BACKBONES,
    cached_backbone,
    is_own,
    network_for,
    normalizes_batches,
    options_in_words,
    side_for,
    side_of_images,
    side_of_network,
    training_for,
)
from crossbias.experiment import Experiment
from crossbias.methods import ERM
from crossbias.networks import create_network
from crossbias.networks.papers import small_convnet
from crossbias.progress import Progress


class Heard(Progress):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def header(self, lines):
        self.lines += lines


@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    """Two classes of 20 dark or light images with 40 pixels, and no weights on this machine."""
    monkeypatch.setattr("crossbias.defaults.cached_backbone", lambda: None)
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))
    for number in range(40):
        shade = 60 + 130 * (number % 2) + number
        path = tmp_path / "images" / ("dark", "light")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (50, 40), (shade, shade, shade)).save(path)
    return tmp_path / "images"


def test_load_reads_images_at_the_size_that_a_training_chooses(own, monkeypatch, tmp_path):
    name = f"folder:{own}"
    train = {"epochs": 1, "device": "cpu"}
    network = {"name": "small-convnet"}
    run = Experiment(data={"name": name}, network=network, train=train).run(tmp_path / "run")
    loaded = {split: crossbias.load(name, split) for split in ("train", "test")}
    assert {data.inputs.shape[1:] for data in loaded.values()} == {(3, 40, 40)}
    assert loaded["train"].hash == run.config["data"]["hashes"]["train"]
    assert loaded["train"].origin["size"] == 40
    assert crossbias.load(name, "train", size=24).inputs.shape[1:] == (3, 24, 24)
    monkeypatch.setattr("crossbias.defaults.side_of_images", lambda images: 500)
    assert crossbias.load(name, "train").inputs.shape[1:] == (3, 64, 64)


def test_pretrained_weights_and_a_gpu_allow_larger_images():
    sides = {
        (gpu, pretrained): side_for(gpu=gpu, pretrained=pretrained)
        for gpu in (False, True)
        for pretrained in (False, True)
    }
    assert sides == {(False, False): 64, (False, True): 96, (True, False): 128, (True, True): 224}
    assert side_for(gpu=True, pretrained=True, largest=80) == 80


@pytest.mark.parametrize(
    ("samples", "gpu", "pretrained", "epochs", "batch_size", "lr"),
    [
        (1_400, False, False, 30, 64, 1e-3),
        (100, False, False, 100, 64, 1e-3),
        (50_000, False, False, 5, 128, 1e-3),
        (1_400, False, True, 10, 64, 1e-3),
        (1_400, True, False, 100, 64, 1e-3),
        (50_000, True, False, 20, 128, 1e-3),
        (1_400, True, True, 29, 64, 1e-3),
    ],
)
def test_length_and_rate_follow_from_size_device_and_weights(
    samples, gpu, pretrained, epochs, batch_size, lr
):
    found = training_for(samples, (3, 64, 64), gpu=gpu, pretrained=pretrained)
    assert (found["epochs"], found["batch_size"]) == (epochs, batch_size)
    assert found["lr"] == pytest.approx(lr)
    assert (found["optimizer"], found["weight_decay"]) == ("adamw", 0.05)
    assert found["schedule"] == "cosine"
    crossbias.TrainConfig(**found)


def test_trained_weights_that_a_full_step_could_ruin_get_a_tenth_of_the_rate():
    def rate(gently, **given):
        options = {"gpu": False, "pretrained": True, "gently": gently, "given": given}
        return training_for(100, (3, 64, 64), **options)["lr"]

    assert rate(gently=False) == pytest.approx(1e-3)
    assert rate(gently=True) == pytest.approx(1e-4)
    assert rate(gently=False, optimizer="sgd") == pytest.approx(5e-3)


@pytest.mark.parametrize(
    ("name", "found"),
    [("resnet18", True), ("mobilenetv3_small_050", True), ("convnext_atto", False)],
)
def test_networks_with_batch_normalization_are_told_from_others(name, found):
    before = torch.get_rng_state()
    assert normalizes_batches(Recipe(name), (3, 64, 64)) == found
    assert torch.equal(torch.get_rng_state(), before)
    assert normalizes_batches(create_network(name, num_classes=2), (3, 64, 64)) == found
    assert not normalizes_batches(Recipe("vit_tiny_patch16_224"), (3, 64, 64))  # cannot be built


def test_augmentation_follows_from_the_shape():
    def augment(*shape):
        return training_for(100, shape, gpu=False, pretrained=False)["augment"]

    assert augment(3, 64, 64) == ("flip", "random-resized-crop(0.5,1)")
    assert augment(1, 32, 40) == ("flip", "crop(4)")
    assert augment(7) == ()


def test_what_is_given_is_not_chosen_and_the_rest_fits_it():
    given = {"optimizer": "sgd", "epochs": 3}
    found = training_for(1_400, (3, 64, 64), gpu=False, pretrained=False, given=given)
    assert "epochs" not in found
    assert "optimizer" not in found
    assert (found["lr"], found["weight_decay"]) == (0.05, 0.0)
    steps = training_for(1_400, (3, 64, 64), gpu=False, pretrained=False, given={"steps": "9"})
    assert "epochs" not in steps


def test_the_network_follows_from_the_shape_and_the_weights_at_hand():
    assert network_for((3, 64, 64)) == {"name": "resnet18"}
    assert network_for((1, 64, 64), backbone="resnet50") == {"name": "resnet50", "pretrained": True}
    assert network_for((12,)) == {"name": "mlp"}
    assert network_for((3, 8, 64, 64), backbone="resnet50") == {"name": "resnet18-3d"}


def test_sides_of_files_and_of_networks(tmp_path):
    for number, size in enumerate([(30, 20), (90, 100), (64, 48)]):
        Image.new("L", size).save(tmp_path / f"{number}.png")
    (tmp_path / "3.png").write_text("no image")
    files = sorted(tmp_path.iterdir())
    images = [EncodedImage(str(file), str(file), partial(open, file, "rb"), 0) for file in files]
    assert side_of_images(images) == 48
    assert side_of_images(images[3:]) is None
    assert side_of_images([]) is None
    assert side_of_network("vit_tiny_patch16_224") == 224
    assert side_of_network("resnet18") is None
    assert side_of_network("convnet") is None
    assert side_of_network("my.module:network") is None


def test_weights_count_as_at_hand_if_they_are_in_the_cache(tmp_path, monkeypatch):
    import timm

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert cached_backbone() is None
    wanted = timm.get_pretrained_cfg(BACKBONES[1]).hf_hub_id
    model = tmp_path / f"models--{wanted.replace('/', '--')}"
    (model / "snapshots" / "abc").mkdir(parents=True)
    (model / "snapshots" / "abc" / "model.safetensors").touch()
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("abc")
    assert cached_backbone() == BACKBONES[1]


def test_options_are_written_as_they_would_be_typed():
    tables = {"network": {"name": "resnet18", "pretrained": True}, "data": {"size": 64}}
    augment = {"augment": ("flip", "crop(4)"), "lr": 0.001}
    assert options_in_words(**tables, train=augment) == (
        "--network resnet18 --set network.pretrained=true --set data.size=64 "
        "--set 'train.augment=flip,crop(4)' --set train.lr=0.001"
    )


def test_a_folder_and_nothing_else_trains_and_says_what_was_chosen(own, tmp_path):
    heard = Heard()
    experiment = Experiment(
        data={"name": f"folder:{own}"}, train={"device": "cpu", "epochs": 1},
        network={"name": "small-convnet"},
    )  # fmt: skip
    experiment.run(tmp_path / "run", progress=heard)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["method"]["name"] == "erm"
    assert config["data"]["size"] == 40  # that of the files; 64 would add nothing
    assert config["data"]["shape"] == [3, 40, 40]
    assert config["train"]["schedule"] == "cosine"
    assert config["train"]["augment"] == ["flip", "crop(5)"]
    assert config["train"]["epochs"] == 1
    test, chosen, method = heard.lines[-3:]
    assert test == "test      8 test samples"
    assert chosen.startswith("chosen    --set data.size=40 --set train.batch_size=64 ")
    assert chosen.endswith("; give any of these to change it")
    assert "epochs" not in chosen
    assert method == "no method was named: this is plain training; see --method"


def test_a_resumed_run_keeps_what_was_chosen(own, tmp_path, monkeypatch):
    """Even where something else would be chosen now."""
    folder = tmp_path / "run"
    experiment = Experiment(
        data={"name": f"folder:{own}"},
        train={"device": "cpu"},
        network={"name": "small-convnet"},
    )

    class Stops(Heard):
        def begin(self, *_):
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(crossbias.errors.Interrupted):
        experiment.run(folder, progress=Stops())
    before = json.loads((folder / "config.json").read_text())
    assert before["train"]["epochs"] == 100
    monkeypatch.setattr("crossbias.defaults._SIDES", {(False, False): 16})
    again, heard = Experiment.from_run(folder).updated(train={"device": "cpu"}), Stops()
    with pytest.raises(crossbias.errors.Interrupted):
        again.run(folder, resume=True, progress=heard)
    after = json.loads((folder / "config.json").read_text())
    assert len(after.pop("resumes")) == 1
    assert after.pop("crc32") != before.pop("crc32")  # of the whole file
    assert after == before
    assert heard.lines
    assert not [line for line in heard.lines if line.startswith("chosen")]


def square(*, num_classes: int, img_size: int = 24):
    return small_convnet(num_classes=num_classes, dropout=0.0)


@pytest.mark.parametrize(
    ("network", "size"),
    [
        ({"name": f"{__name__}:square", "img_size": "24"}, 24),
        ({"name": f"{__name__}:square"}, 40),
    ],
)
def test_a_network_that_insists_on_a_size_gets_it(network, size, own, tmp_path):
    config = {"device": "cpu", "steps": 1}
    experiment = Experiment(data={"name": f"folder:{own}"}, train=config, network=network)
    result = experiment.run(tmp_path / "run")
    assert result.config["data"]["shape"] == [3, size, size]


def test_a_chosen_network_comes_with_the_hint_about_pretrained_weights(own, tmp_path):
    heard = Heard()
    train = {"device": "cpu", "steps": 1, "batch_size": 8}
    data = {"name": f"folder:{own}", "size": 16}
    result = Experiment(data=data, train=train).run(tmp_path / "run", progress=heard)
    assert result.config["network"] == {"name": "resnet18"}
    hint = next(line for line in heard.lines if line.startswith("hint"))
    assert hint.endswith("--set network.pretrained=true downloads those of resnet18")


def test_named_data_keeps_its_settings(tmp_path):
    heard = Heard()
    data = {"name": "glyphs", "size": 40, "image_size": 16}
    train = {"device": "cpu", "steps": 2}
    experiment = Experiment(data=data, train=train, method={"name": "erm"})
    result = experiment.run(tmp_path / "run", progress=heard)
    plain = crossbias.TrainConfig(device="cpu", steps=2)
    assert result.config["train"] == vars(plain)
    assert not [line for line in heard.lines if line.startswith(("chosen", "no method"))]
    assert not is_own(experiment.split("train"))


def test_fit_chooses_for_tensors_where_nothing_is_given(monkeypatch):
    monkeypatch.setattr("crossbias.train.fit.cached_backbone", lambda: None)
    vectors = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    data = BiasedDataset(inputs=vectors, targets=(vectors[:, 0] > 0).long())
    heard = Heard()
    result = crossbias.fit(ERM(), data, progress=heard)
    assert result.config["network"]["name"] == "mlp"
    assert (result.config["train"]["epochs"], result.config["train"]["batch_size"]) == (100, 64)
    assert heard.lines[-1].startswith("chosen    network mlp; epochs 100, batch_size 64, ")
    accuracy = result.evaluate(crossbias.BiasedDataset(
        inputs=vectors, targets=data.targets, split="test"
    ))["test"].overall.value  # fmt: skip
    assert accuracy > 0.95


def test_fit_takes_what_is_given(data, network):
    heard = Heard()
    config = crossbias.TrainConfig(epochs=1, device="cpu")
    crossbias.fit(ERM(), data, network=network, config=config, progress=heard)
    assert not [line for line in heard.lines if line.startswith("chosen")]
