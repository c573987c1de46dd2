"""Texture clusters: Gram matrices by hand, and clusters that find the textures."""

import csv
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn
from torchvision.models import vgg16

from crossbias.data import BiasedDataset
from crossbias.data.published.textures import (
    LAYERS,
    gram,
    texture_clusters,
    texture_features,
    write_texture_clusters,
)
from crossbias.errors import CrossbiasError


def test_gram_equals_the_sum_over_positions_written_out():
    maps = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    for image, found in zip(maps, gram(maps), strict=True):
        slow = torch.zeros(3, 3, dtype=torch.float64)
        for i in range(3):
            for j in range(3):
                slow[i, j] = (image[i] * image[j]).sum() / (3 * 4 * 5)
        torch.testing.assert_close(found, slow.flatten() / slow.norm())


def test_layers_are_where_vgg_has_them():
    with torch.device("meta"):  # nothing is drawn
        layers = list(vgg16(weights=None).features.children())
    relu, conv = layers[LAYERS["relu1_2"] - 1], layers[LAYERS["conv3_3"] - 1]
    assert isinstance(relu, nn.ReLU)
    assert isinstance(conv, nn.Conv2d)
    assert conv.out_channels == 256
    assert sum(isinstance(layer, nn.MaxPool2d) for layer in layers[: LAYERS["conv3_3"]]) == 2


def stripes(n: int) -> BiasedDataset:
    """Half of the images are striped along rows, half along columns, at random phases."""
    generator = torch.Generator().manual_seed(0)
    phase = torch.randint(4, (n,), generator=generator)
    wave = ((torch.arange(16) + phase[:, None]) // 2 % 2 * 255).to(torch.uint8)  # (n, 16)
    images = wave[:, None, None, :].expand(n, 3, 16, 16).clone()
    images[n // 2 :] = images[n // 2 :].transpose(2, 3).clone()
    return BiasedDataset(
        inputs=images, targets=torch.arange(n) % 2, mean=(0.5,) * 3, std=(0.5,) * 3
    )


def test_two_textures_make_two_clusters_for_every_seed():
    torch.manual_seed(0)
    features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU())
    found = texture_clusters(
        texture_features(stripes(40), features, layer="relu1_2"), clusters=2, seeds=(0, 1, 2)
    )
    assert found.shape == (3, 40)
    for labels in found:
        assert len(set(labels[:20].tolist())) == len(set(labels[20:].tolist())) == 1
        assert labels[0] != labels[-1]


def test_textures_are_those_of_the_middle_that_a_network_sees():
    """A wide margin of another texture, which every network cuts away, changes nothing."""
    torch.manual_seed(0)
    features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
    data = stripes(6)
    framed = nn.functional.pad(data.inputs, (4, 4, 4, 4), value=200)
    cut = replace(data, inputs=framed, crop=16)
    torch.testing.assert_close(
        texture_features(cut, features, layer="relu1_2"),
        texture_features(data, features, layer="relu1_2"),
    )


def test_clusters_are_written_as_imagenet_9_reads_them(tmp_path):
    write_texture_clusters(
        tmp_path / "c.csv", ["a/b.JPEG", "c.JPEG"], torch.tensor([[1, 2], [3, 4]])
    )
    with open(tmp_path / "c.csv", newline="") as file:
        assert list(csv.DictReader(file)) == [
            {"path": "a/b.JPEG", "cluster1": "1", "cluster2": "3"},
            {"path": "c.JPEG", "cluster1": "2", "cluster2": "4"},
        ]


def test_fewer_images_than_clusters_are_refused():
    with pytest.raises(CrossbiasError, match="3 images cannot form 9 clusters"):
        texture_clusters(torch.zeros(3, 4))


def test_without_scikit_learn_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    message = r"texture needs scikit-learn: pip install 'crossbias\[sklearn\]'"
    with pytest.raises(CrossbiasError, match=message):
        texture_clusters(torch.zeros(9, 4))
