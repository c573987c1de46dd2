"""A folder for a hub: it loads again, says nothing about the machine, and runs no code."""

import json
import shutil

import pytest
import torch
from huggingface_hub import ModelCard

import crossbias
from crossbias import BiasedDataset, CrossbiasError
from crossbias.errors import Untrusted
from crossbias.export import save_pretrained
from crossbias.export.hub_folder import published


def samples(split: str) -> BiasedDataset:
    generator = torch.Generator().manual_seed(len(split))
    return BiasedDataset(
        inputs=torch.randint(256, (30, 3, 8, 8), dtype=torch.uint8, generator=generator),
        targets=torch.arange(30) % 2,
        attributes={"place": torch.arange(30) // 2 % 2},
        bias="place",
        name="folder:/home/somebody/birds",
        split=split,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    result = crossbias.fit(
        crossbias.create("erm"),
        samples("train"),
        network=crossbias.Recipe("convnet-1x1"),
        config=crossbias.TrainConfig(epochs=1, device="cpu"),
        folder=tmp_path_factory.mktemp("hub") / "run",
    )
    result.evaluate(samples("test"))
    result.finish()
    return result.folder


@pytest.fixture
def hub(run, tmp_path):
    return save_pretrained(run, tmp_path / "hub")


def test_the_folder_loads_with_the_same_weights_and_answers(run, hub):
    own, other = crossbias.load_run(run), crossbias.load_run(hub)
    for name, tensor in own.network.state_dict().items():
        assert torch.equal(tensor, other.network.state_dict()[name])
    data = samples("test")
    assert torch.equal(own.predict(data.inputs)[1], other.predict(data.inputs)[1])
    assert own.evaluate(data) == other.evaluate(data)


def test_it_has_what_a_hub_shows_and_nothing_of_the_machine(hub):
    names = {"README.md", "config.json", "model.safetensors", "done"}
    assert {path.name for path in hub.iterdir()} == names
    assert ModelCard.load(hub / "README.md").data.library_name == "crossbias"
    for path in hub.iterdir():
        assert b"/home/somebody" not in path.read_bytes()
    config = json.loads((hub / "config.json").read_text())
    assert config["data"]["name"] == "folder:birds"
    assert config["command"] == ""


def test_columns_with_a_slash_keep_their_names():
    config = {"data": {"name": "glyphs", "bias": "a/b", "root": "/data"}, "network": {"name": None}}
    found = published(config | {"command": "c", "resumes": []})
    assert found["data"] == {"name": "glyphs", "bias": "a/b"}
    assert "resumes" not in found


def test_changed_weights_are_refused(hub):
    path = hub / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CrossbiasError, match="is not as the run wrote it"):
        crossbias.load_run(hub)


def test_code_that_a_folder_names_is_not_run_without_trust(hub):
    config = json.loads((hub / "config.json").read_text())
    config["network"] = {"name": "os:system"}
    (hub / "config.json").write_text(json.dumps(config))
    crossbias.runs.RunFolder(hub).finish()  # whoever can write the folder can write new hashes
    with pytest.raises(Untrusted, match="this would import os and call system"):
        crossbias.load_run(hub)


def test_a_damaged_run_and_a_full_folder_are_refused(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    (copy / "model.safetensors").write_bytes(b"")
    with pytest.raises(CrossbiasError, match=r"model.safetensors is not as the run wrote it"):
        save_pretrained(copy, tmp_path / "hub")
    with pytest.raises(CrossbiasError, match="is not an empty folder"):
        save_pretrained(run, copy)
    assert not (tmp_path / "hub").exists()
