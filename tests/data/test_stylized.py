"""Re-textured copies: made from named weights, continued, and trained on beside the images."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from crossbias import load, stylizing
from crossbias.cli import main
from crossbias.data import memory_maps
from crossbias.data.memory_maps import joined
from crossbias.data.stylized import with_stylized
from crossbias.errors import CrossbiasError
from crossbias.networks.style_transfer import StyleTransfer
from crossbias.stylizing import write_stylized
from crossbias.testing import tiny_data

OPTIONS = {"size": 20, "image_size": 16}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Random weights of AdaIN's networks; the encoder's file also has a layer that is not used."""
    folder = tmp_path_factory.mktemp("adain")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transfer = StyleTransfer()
        for layer in transfer.modules():
            if isinstance(layer, nn.Conv2d):  # torch's own weights would let all signals fade
                nn.init.kaiming_normal_(layer.weight)
        transfer.decoder[-1].weight.data.mul_(0.05)  # most pixels lie between black and white
        nn.init.constant_(transfer.decoder[-1].bias, 0.5)
    encoder = transfer.encoder.state_dict() | {"32.weight": torch.zeros(1)}
    torch.save(encoder, folder / "vgg_normalised.pth")
    torch.save(transfer.decoder.state_dict(), folder / "decoder.pth")
    return {"encoder": folder / "vgg_normalised.pth", "decoder": folder / "decoder.pth"}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Three pictures, one of them in a subfolder, and a file that is none."""
    folder = tmp_path_factory.mktemp("styles")
    (folder / "more").mkdir()
    colors = np.random.default_rng(0).integers(0, 256, (3, 24, 18, 3), dtype=np.uint8)
    for name, pixels in zip(("a.png", "b.jpg", "more/c.PNG"), colors, strict=True):
        Image.fromarray(pixels).save(folder / name)
    (folder / "license.txt").write_text("free")
    return folder


@pytest.fixture(autouse=True)
def small_styles(monkeypatch):
    monkeypatch.setattr(stylizing, "_STYLE_SIDE", 16)


@pytest.fixture(scope="module")
def data():
    return load("glyphs", "train", **OPTIONS)


def pixels_in(folder) -> list[np.ndarray]:
    return [np.asarray(Image.open(path)) for path in sorted(folder.glob("*.png"))]


def test_every_image_is_copied_in_its_own_size_and_the_same_bits(data, weights, pictures, tmp_path):
    for name in ("one", "two"):
        assert write_stylized(data, tmp_path / name, styles=pictures, **weights) == 20
    one, two = pixels_in(tmp_path / "one"), pixels_in(tmp_path / "two")
    assert len(one) == 20
    assert all(pixels.shape == (16, 16, 3) for pixels in one)
    assert all(map(np.array_equal, one, two))
    write_stylized(data, tmp_path / "other", styles=pictures, seed=1, **weights)
    assert not all(map(np.array_equal, one, pixels_in(tmp_path / "other")))


def test_an_interrupted_copy_is_continued_to_the_same_bits(data, weights, pictures, tmp_path):
    write_stylized(data, tmp_path, styles=pictures, **weights)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.png")}
    for name in ("000003.png", "000017.png", "000019.png"):
        (tmp_path / name).unlink()
    assert write_stylized(data, tmp_path, styles=pictures, **weights) == 3
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.png")} == before
    with pytest.raises(CrossbiasError, match="was begun with other strength, seed"):
        write_stylized(data, tmp_path, styles=pictures, strength=0.5, seed=1, **weights)


def test_gray_images_stay_gray(weights, pictures, tmp_path):
    colored, pixels = tiny_data(4), torch.randint(0, 255, (4, 1, 12, 12), dtype=torch.uint8)
    gray = dataclasses.replace(colored, inputs=pixels, mean=(0.5,), std=(0.5,))
    write_stylized(gray, tmp_path, styles=pictures, **weights)
    assert [pixels.shape for pixels in pixels_in(tmp_path)] == [(12, 12)] * 4
    assert with_stylized(gray, tmp_path).inputs.shape == (8, 1, 12, 12)


def test_without_strength_the_style_has_no_effect(data, weights, pictures):
    transfer = StyleTransfer.from_files(**weights)
    images = data.inputs[:2].float() / 255
    style = transfer.style(torch.rand(2, 3, 16, 20))
    other = transfer.style(torch.rand(2, 3, 16, 16))
    same = transfer(images, *style, 0.0)
    torch.testing.assert_close(same, transfer(images, *other, 0.0))
    assert not torch.allclose(transfer(images, *style, 1.0), transfer(images, *other, 1.0))
    assert same.shape == images.shape


def test_layers_have_the_numbers_of_the_released_weights():
    transfer = StyleTransfer()
    encoder = [n for n, layer in enumerate(transfer.encoder) if isinstance(layer, nn.Conv2d)]
    decoder = [n for n, layer in enumerate(transfer.decoder) if isinstance(layer, nn.Conv2d)]
    assert encoder == [0, 2, 5, 9, 12, 16, 19, 22, 25, 29]
    assert decoder == [1, 5, 8, 11, 14, 18, 21, 25, 28]
    widths = [transfer.decoder[n].out_channels for n in decoder]
    assert widths == [256, 256, 256, 256, 128, 128, 64, 64, 3]
    assert len(transfer.encoder) == 31  # relu4_1 is the last


def test_training_data_is_the_union_and_copies_share_labels(data, weights, pictures, tmp_path):
    write_stylized(data, tmp_path, styles=pictures, **weights)
    both = load("glyphs", "train", stylized=tmp_path, **OPTIONS)
    assert len(both) == both.full_size == 40
    assert torch.equal(both.inputs[:20], data.inputs)
    copies = torch.stack([torch.from_numpy(p.copy()) for p in pixels_in(tmp_path)])
    assert torch.equal(both.inputs[20:], copies.permute(0, 3, 1, 2))
    for column in (both.targets, *both.attributes.values()):
        assert torch.equal(column[:20], column[20:])
    assert torch.equal(both.alignment(), data.alignment())
    write_stylized(data, tmp_path / "own", styles=pictures, strength=0.0, **weights)
    others = load("glyphs", "train", stylized=tmp_path / "own", **OPTIONS)
    assert len({data.hash, both.hash, others.hash}) == 3
    noisy = load("glyphs", "train", stylized=tmp_path, label_noise=0.2, **OPTIONS)
    assert torch.equal(noisy.targets[:20], noisy.targets[20:])
    assert int((noisy.targets != both.targets).sum()) == 8
    test = load("glyphs", "test", stylized=tmp_path, test_size=10, **OPTIONS)
    assert len(test) == 10


def test_copies_of_other_images_are_refused(data, weights, pictures, tmp_path):
    write_stylized(data, tmp_path, styles=pictures, **weights)
    with pytest.raises(CrossbiasError, match="made from others than the training images of glyphs"):
        load("glyphs", "train", stylized=tmp_path, seed=1, **OPTIONS)
    (tmp_path / "000007.png").unlink()
    with pytest.raises(CrossbiasError, match=r"000007\.png is missing"):
        load("glyphs", "train", stylized=tmp_path, **OPTIONS)
    with pytest.raises(CrossbiasError, match="nowhere is no re-textured copy; make one with"):
        load("glyphs", "train", stylized=tmp_path / "nowhere", **OPTIONS)


def test_what_cannot_be_copied_is_refused(data, weights, pictures, tmp_path):
    vectors = load("toy-2d", "train")
    with pytest.raises(CrossbiasError, match="only square images"):
        write_stylized(vectors, tmp_path / "a", styles=pictures, **weights)
    with pytest.raises(CrossbiasError, match="6 pixels are too small for AdaIN; tiny needs"):
        write_stylized(tiny_data(), tmp_path / "b", styles=pictures, **weights)
    with pytest.raises(CrossbiasError, match="there are no pictures in"):
        write_stylized(data, tmp_path / "c", styles=tmp_path, **weights)
    swapped = {"encoder": weights["decoder"], "decoder": weights["encoder"]}
    with pytest.raises(CrossbiasError, match=r"are not those of AdaIN: 0\.weight must be"):
        write_stylized(data, tmp_path / "d", styles=pictures, **swapped)
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "thesis.tex").write_text("years")
    with pytest.raises(CrossbiasError, match="exists and is no re-textured copy"):
        write_stylized(data, tmp_path / "e", styles=pictures, **weights)
    assert not any((tmp_path / name).exists() for name in "abcd")


def test_a_picture_that_cannot_be_read_is_named(data, weights, tmp_path):
    (tmp_path / "styles").mkdir()
    (tmp_path / "styles" / "broken.png").write_bytes(b"no picture")
    with pytest.raises(CrossbiasError, match=r"the style .*broken\.png cannot be used"):
        write_stylized(data, tmp_path / "out", styles=tmp_path / "styles", **weights)


def test_arrays_that_are_large_are_joined_in_a_file(monkeypatch, tmp_path):
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path))
    first, second = (torch.randint(0, 255, (n, 3, 4, 4), dtype=torch.uint8) for n in (5, 3))
    expected = joined(first, second)
    monkeypatch.setattr(memory_maps, "LARGEST_COPY", 100)
    monkeypatch.setattr(memory_maps, "_CHUNK", 100)
    assert torch.equal(joined(first, second), expected)


def test_the_command_makes_a_copy_and_a_run_trains_on_both(
    weights, pictures, tmp_path, monkeypatch, capsys
):
    files = [f"--{name}={path}" for name, path in weights.items()]
    small = ["--set", "data.size=20", "--set", "data.image_size=16"]
    _run(monkeypatch, ["data", "stylize", "glyphs", *small, *files, f"--styles={pictures}",
         f"--out={tmp_path / 'copy'}", "--device=cpu"])  # fmt: skip
    said = capsys.readouterr().out
    assert "wrote 20 of 20 images" in said
    assert f"data.stylized={tmp_path / 'copy'}" in said.replace("\n", "")
    settings = [*small, "--set", "data.test_size=10", "--set", f"data.stylized={tmp_path / 'copy'}"]
    _run(monkeypatch, ["train", "--data", "glyphs", *settings, "--method", "erm", "--network",
         "mlp", "--set", "train.steps=2", "--set", "train.device=cpu", "--quiet",
         "--out", str(tmp_path / "run")])  # fmt: skip
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["data"]["stylized"] == str(tmp_path / "copy")
    both = load("glyphs", "train", stylized=tmp_path / "copy", **OPTIONS)
    assert config["data"]["hashes"]["train"] == both.hash
    assert (tmp_path / "run" / "done").exists()


def _run(monkeypatch, arguments: list[str]) -> None:
    monkeypatch.setattr("sys.argv", ["crossbias", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert not stopped.value.code
