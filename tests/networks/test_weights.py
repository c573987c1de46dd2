"""Networks by name: their options, weights from a file, and a hub that cannot be reached."""

import socket

import pytest
import timm
import torch
import torchvision
from safetensors.torch import save_file
from torch import nn

from crossbias import Recipe
from crossbias.errors import CrossbiasError
from crossbias.networks import create_network
from crossbias.networks import weights as module
from crossbias.networks.weights import hub_if_reachable

SIZES = {"num_classes": 3, "shape": (3, 32, 32)}


def small(num_classes: int = 3, width: int = 4) -> nn.Module:
    layers = [nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(width, num_classes))


SMALL = f"{__name__}:small"


def trained(num_classes: int = 3, **options) -> dict[str, torch.Tensor]:
    state = small(num_classes, **options).state_dict()
    return {name: tensor + 1 for name, tensor in state.items()}


def write(state, path):
    if path.suffix == ".safetensors":
        save_file({name: tensor.contiguous() for name, tensor in state.items()}, path)
    else:
        torch.save(state, path)
    return str(path)


@pytest.mark.parametrize(
    ("name", "wrap"),
    [
        ("plain.safetensors", lambda state: state),
        ("plain.pth", lambda state: state),
        ("checkpoint.pt", lambda state: {"epoch": 3, "state_dict": state}),
        ("parallel.pt", lambda state: {f"module.{key}": value for key, value in state.items()}),
    ],
)
def test_weights_come_from_a_file(name, wrap, tmp_path):
    state = trained()
    file = write(wrap(state), tmp_path / name)
    network = Recipe(SMALL, {"weights": file}).build(**SIZES)
    assert torch.equal(network.body[0].weight, state["0.weight"])
    assert torch.equal(network.head.bias, state["4.bias"])
    assert network.note == ""


def test_a_head_for_other_classes_is_left_out_and_the_network_says_so(tmp_path):
    state = trained(1000)
    file = write(state, tmp_path / "w.safetensors")
    network = Recipe(SMALL, {"weights": file}).build(**SIZES)
    assert torch.equal(network.body[1].running_mean, state["1.running_mean"])
    assert network.head.bias.abs().max() < 1
    assert network.note == (
        f"weights from {file}: the head has 1000 classes there and has 3 classes here, so it "
        f"starts with new weights"
    )


def test_the_model_of_a_run_is_a_file_of_weights_too(tmp_path):
    first = Recipe(SMALL).build(**SIZES)
    file = write(first.state_dict(), tmp_path / "model.safetensors")
    second = Recipe(SMALL, {"weights": file}).build(**SIZES)
    for name, tensor in first.state_dict().items():
        assert torch.equal(second.state_dict()[name], tensor), name
    papers = create_network("convnet", num_classes=3, kernel=3)
    file = write(papers.state_dict(), tmp_path / "papers.safetensors")
    again = create_network("convnet", num_classes=3, kernel=3, weights=file)
    assert torch.equal(again.head.weight, papers.head.weight)


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (lambda: trained(width=5), r"0.bias is 5 there and 4 here"),
        (lambda: trained() | {"extra.weight": torch.zeros(1)}, "it has extra.weight, which"),
        (lambda: {"4.weight": torch.zeros(3, 4)}, "it lacks 0.bias, 0.weight and 4 more"),
    ],
)
def test_weights_of_another_network_are_refused(state, problem, tmp_path):
    recipe = Recipe(SMALL, {"weights": write(state(), tmp_path / "w.pt")})
    with pytest.raises(CrossbiasError, match=f"w.pt are of another network: {problem}"):
        recipe.build(**SIZES)


class Payload:
    """Would run code while it is read."""

    def __reduce__(self):
        return print, ("never",)


def test_files_that_are_not_weights_are_refused(tmp_path, capsys):
    torch.save({"a": Payload()}, tmp_path / "code.pt")
    torch.save({"a": 3}, tmp_path / "number.pt")
    (tmp_path / "text.safetensors").write_text("hello")
    for name in ("code.pt", "number.pt", "text.safetensors"):
        with pytest.raises(CrossbiasError, match=f"{name} cannot be read .*save them as") as raised:
            create_network(SMALL, weights=str(tmp_path / name))
        assert "\n" not in str(raised.value)
    with pytest.raises(CrossbiasError, match=r"there is no file of weights .*none.pt"):
        create_network(SMALL, weights=str(tmp_path / "none.pt"))
    assert capsys.readouterr().out == ""


def test_torchvisions_builders_take_a_file(tmp_path):
    model = torchvision.models.shufflenet_v2_x0_5(num_classes=7)
    file = write(model.state_dict(), tmp_path / "w.pth")
    name = "torchvision.models:shufflenet_v2_x0_5"
    network = Recipe(name, {"weights": file}).build(**SIZES)
    assert torch.equal(network.body.model.conv1[0].weight, model.conv1[0].weight)
    assert "7 classes there" in network.note
    with pytest.raises(CrossbiasError, match=r"there is no file of weights .*DEFAULT'; name one"):
        Recipe(name, {"weights": "DEFAULT"}).build(**SIZES)


def with_own_weights(num_classes: int, weights: str = "") -> nn.Module:
    if weights != "imagenet":
        raise ValueError(f"no weights {weights}")
    return small(num_classes)


def test_a_reader_s_own_weights_keyword_is_passed_on():
    name = f"{__name__}:with_own_weights"
    assert Recipe(name, {"weights": "imagenet"}).build(**SIZES).num_classes == 3
    with pytest.raises(
        CrossbiasError,
        match=r"cannot be built with num_classes=3, weights=me \(ValueError: no weights me\); give "
        r"or change an option with --set network.NAME=VALUE",
    ):
        Recipe(name, {"weights": "me"}).build(**SIZES)


def test_options_of_timm_are_its_own_keywords():
    options = {"img_size": "32", "patch_size": "8", "depth": "1", "embed_dim": "24",
               "num_heads": "2", "drop_path_rate": "0.1"}  # fmt: skip
    recipe = Recipe("vit_tiny_patch16_224", options)
    assert recipe.options["img_size"] == 32
    assert recipe.options["drop_path_rate"] == 0.1
    assert recipe.build(**SIZES)(torch.rand(2, 3, 32, 32)).logits.shape == (2, 3)


def untyped(num_classes, width=1, pretrained=True):
    if pretrained:
        raise OSError("no connection")
    return small(num_classes, width)


def test_options_without_annotations_are_read_as_numbers():
    recipe = Recipe(f"{__name__}:untyped", {"width": "5", "pretrained": "false"})
    assert recipe.build(**SIZES).num_features == 5


def test_a_finished_network_is_built_without_weights_from_elsewhere(tmp_path):
    recipe = Recipe(f"{__name__}:untyped", {"pretrained": True, "weights": tmp_path / "gone.pt"})
    assert recipe.untrained().build(**SIZES).num_classes == 3
    assert Recipe("resnet18", {"pretrained": "true"}).untrained().options == {"pretrained": False}


def test_an_option_that_timm_does_not_know_is_named():
    with pytest.raises(
        CrossbiasError,
        match=r"^network 'resnet18' has no parameter 'drop_path' \(did you mean 'drop_path_rate'",
    ):
        Recipe("resnet18", {"drop_path": 0.1}).build(**SIZES)
    with pytest.raises(
        CrossbiasError, match=r"^network 'resnet18' cannot be built with output_stride=7"
    ):
        Recipe("resnet18", {"output_stride": "7"}).build(**SIZES)


def test_an_unreachable_hub_is_asked_only_for_what_it_keeps_here(monkeypatch):
    from huggingface_hub import constants

    def refused(address, timeout):
        assert timeout == module._PATIENCE <= 5
        raise OSError("network is unreachable")

    monkeypatch.setattr(module, "getproxies", dict)
    monkeypatch.setattr(socket, "create_connection", refused)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(module, "_PATIENCE", 0.1)
    with hub_if_reachable():
        assert constants.is_offline_mode()
        assert socket.getdefaulttimeout() == module._PATIENCE
    assert not constants.is_offline_mode()
    assert socket.getdefaulttimeout() is None
    monkeypatch.setattr(module, "getproxies", lambda: {"https": "proxy"})
    with hub_if_reachable():
        assert not constants.is_offline_mode()


def test_pretrained_weights_without_a_network_are_one_line(monkeypatch, tmp_path):
    """Nothing is in the cache, and the hub is not there: huggingface_hub says so at once."""
    from huggingface_hub import constants

    monkeypatch.setattr(module, "_is_reachable", lambda address: False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    with pytest.raises(
        CrossbiasError, match=r"^the pretrained weights of 'resnet10t' .*--set network.weights=FILE"
    ) as raised:
        create_network("resnet10t", num_classes=2, pretrained=True)
    assert "\n" not in str(raised.value)
    assert timm.is_model("resnet10t")


def test_a_class_in_the_current_folder_is_found(monkeypatch, tmp_path):
    code = "from torch import nn\n\ndef tiny(num_classes, in_features):\n    return nn.Sequential("
    (tmp_path / "here_only.py").write_text(
        code + "nn.Flatten(), nn.Linear(in_features, 4), nn.Linear(4, num_classes))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [entry for entry in __import__("sys").path if entry])
    network = Recipe("here_only:tiny").build(num_classes=3, shape=(3, 2, 2))
    assert network.num_features == 4
