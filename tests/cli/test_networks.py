"""Networks by name on the command line: what fits, what is refused, and how it is said."""

import importlib.util
import json
from pathlib import Path

import torch

SMALL = ["--data", "glyphs", "--set", "data.size=24", "--set", "data.test_size=12", "--method",
         "erm", "--set", "train.steps=1", "--batch-size", "12", "--device", "cpu",
         "--out", "run"]  # fmt: skip


def test_a_network_that_does_not_fit_is_one_line_and_leaves_no_folder(crossbias):
    code, out, err = crossbias("train", *SMALL, "--network", "vit_tiny_patch16_224")
    assert (code, out) == (2, "")
    assert err.startswith("crossbias: network 'vit_tiny_patch16_224' does not fit the data")
    assert err.count("\n") == 1
    assert not Path("run").exists()


def test_of_several_processes_the_first_says_the_error(crossbias, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert crossbias("train", "--method", "erm", "--data", "nothing") == (2, "", "")


OWN = """
from torch import nn


class Own(nn.Module):
    def __init__(self, num_classes: int, in_channels: int, width: int = 4) -> None:
        super().__init__()
        self.layer, self.answer = nn.Conv2d(in_channels, width, 3), nn.Linear(width, num_classes)

    def forward(self, images):
        return self.answer(self.layer(images).relu().mean((2, 3)))
"""


def test_an_own_class_with_weights_is_trained_and_judged_without_them(crossbias):
    Path("own_networks.py").write_text(OWN)
    own = importlib.util.spec_from_file_location("own_networks", "own_networks.py")
    module = importlib.util.module_from_spec(own)
    own.loader.exec_module(module)
    torch.save(module.Own(7, 3, width=5).state_dict(), "w.pt")
    setting = ["--network", "own_networks:Own", "--set", "network.width=5"]
    code, _, err = crossbias("train", *SMALL, *setting, "--set", "network.weights=w.pt")
    assert code == 0, err
    assert err.count("the head has 7 classes there and has 10 classes here") == 1
    Path("w.pt").unlink()
    assert crossbias("evaluate", "run", "--trust")[0] == 0


def test_options_of_timm_by_name(crossbias):
    small = {"img_size": 28, "patch_size": 7, "depth": 1, "embed_dim": 16, "num_heads": 2}
    setting = [part for key, value in small.items() for part in ("--set", f"network.{key}={value}")]
    vit = ["train", *SMALL, "--network", "vit_tiny_patch16_224", *setting]
    code, _, err = crossbias(*vit, "--set", "network.kernel=3")
    assert code == 2
    assert "network 'vit_tiny_patch16_224' has no parameter 'kernel'" in err
    assert not Path("run").exists()
    assert crossbias(*vit)[0] == 0
    assert json.loads(Path("run/config.json").read_text())["network"]["img_size"] == 28
    assert crossbias("evaluate", "run", "--trust")[0] == 0


def test_the_list_says_how_other_networks_are_named(crossbias):
    _, out, _ = crossbias("list", "networks")
    for said in ("network.weights=FILE", "torchvision.models:resnet18", "my_module:MyNetwork"):
        assert said in out
