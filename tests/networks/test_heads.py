"""New heads start with small logits, whoever draws them; published ones are kept."""

import math

import pytest
import timm
import torch
from safetensors.torch import save_file

from crossbias.networks import create_network
from crossbias.networks import timm_models as module

LIBRARIES = ["tf_efficientnet_lite0", "mobilenetv2_100", "torchvision.models:efficientnet_b0"]


def width(head: torch.nn.Linear) -> float:
    """Of the weights, in those of a new layer of torch."""
    return float(head.weight.detach().std()) * math.sqrt(3 * head.in_features)


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_new_head_of_two_classes_is_as_wide_as_a_layer_of_torch(name):
    assert 0.9 < width(create_network(name, num_classes=2).head) < 1.1


def test_the_model_that_timm_draws_for_two_classes_is_25_times_as_wide():
    model = timm.create_model("tf_efficientnet_lite0", num_classes=2)
    assert width(model.get_classifier()) > 20


def test_other_heads_stay_as_they_are_drawn():
    torch.manual_seed(0)
    drawn = timm.create_model("resnet18", num_classes=2).get_classifier()
    torch.manual_seed(0)
    assert torch.equal(create_network("resnet18", num_classes=2).head.weight, drawn.weight)


def wide(*args, **options) -> torch.nn.Module:
    model = timm.models.create_model("mobilenetv3_small_050", **options | {"pretrained": False})
    torch.nn.init.constant_(model.get_classifier().weight, 3.0)
    return model


@pytest.mark.parametrize(("classes", "kept"), [(1000, True), (2, False)])
def test_a_published_head_stays_whatever_its_width(classes, kept, monkeypatch):
    monkeypatch.setattr(timm, "create_model", wide)
    monkeypatch.setattr(module, "hub_if_reachable", module.nullcontext)
    network = create_network("mobilenetv3_small_050", num_classes=classes, pretrained=True)
    assert bool((network.head.weight == 3).all()) == kept


def test_a_head_from_a_file_stays_whatever_its_width(tmp_path):
    save_file(wide(num_classes=2).state_dict(), tmp_path / "w.safetensors")
    file = str(tmp_path / "w.safetensors")
    network = create_network("mobilenetv3_small_050", num_classes=2, weights=file)
    assert bool((network.head.weight == 3).all())
