"""What each cue sees, and what it must not see."""

import pytest
import torch

from crossbias.audit import cues
from crossbias.audit.cues import border_marks, colors, image_cues, texture, thumbnail


def noise(n=6, channels=3, side=32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(40, 200, (n, channels, side, side), generator=generator).to(torch.uint8)


def measured(function, images):
    return function(images, images.float())


def scrambled(images):
    """The same pixels at other places."""
    order = torch.randperm(images.shape[2] * images.shape[3], generator=torch.Generator())
    return images.flatten(2)[..., order].view(images.shape)


def test_thumbnail_is_the_mean_of_sixteen_blocks():
    images = noise(side=8)
    blocks = images.float().view(6, 3, 4, 2, 4, 2).mean((3, 5))
    assert torch.allclose(measured(thumbnail, images), blocks.flatten(1))


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_colors_count_pixels_and_know_no_place(channels):
    images = noise(channels=channels)
    found = measured(colors, images)
    assert torch.allclose(found, measured(colors, scrambled(images)), atol=1e-4)
    bins = 64 if channels == 3 else 16 * channels
    shares = found[:, :bins].square()
    assert torch.allclose(shares.sum(1), torch.ones(6))
    image = images[0].long()
    if channels == 3:
        same = ((image // 64) == torch.tensor([1, 2, 0]).view(3, 1, 1)).all(0)
        assert shares[0, 1 * 16 + 2 * 4 + 0] == pytest.approx(float(same.float().mean()), abs=1e-6)
    assert torch.allclose(found[0, bins : bins + channels], image.float().mean((1, 2)))


def test_texture_sees_neighbors_but_neither_brightness_nor_place_nor_color():
    images = noise()
    found = measured(texture, images)
    assert torch.allclose(found, measured(texture, images + 40), atol=1e-4)
    assert torch.allclose(found, measured(texture, images.flip(1)), atol=1e-4)
    assert torch.allclose(found, measured(texture, images.flip(2)), atol=1e-3)
    smooth = images.float().mean((2, 3), keepdim=True).expand(-1, -1, 32, 32).to(torch.uint8)
    assert (measured(texture, smooth) < found).all()


def test_border_marks_are_blind_to_even_backgrounds_and_slopes_but_see_a_mark():
    even = torch.full((1, 3, 32, 32), 90, dtype=torch.uint8)
    slope = (torch.arange(32, dtype=torch.uint8) * 4).expand(1, 3, 32, 32)
    assert measured(border_marks, even).abs().max() == 0
    assert measured(border_marks, slope).abs().max() < 1e-3
    marked = even.clone()
    marked[:, :, :2, :2] = 255
    linear = measured(border_marks, marked)[0, :24].view(8, 3)
    assert torch.allclose(linear[0], torch.full((3,), 165.0))  # top left: 255 - 90
    assert (linear[1:4] == 0).all()
    assert torch.allclose(linear[[4, 6]], torch.full((2, 3), 165 / 16))  # of a whole side


def test_images_are_read_a_part_at_a_time_with_the_same_result(monkeypatch):
    images = noise(n=7)
    whole = image_cues(images)
    monkeypatch.setattr(cues, "_CHUNK", 2 * images[0].numel())
    for one, other in zip(whole, image_cues(images), strict=True):
        assert one.name == other.name
        assert torch.allclose(one.features, other.features, atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (7, 3)])
@pytest.mark.parametrize("channels", [1, 4])
def test_tiny_images_are_measured_too(shape, channels):
    images = torch.randint(0, 256, (5, channels, *shape)).to(torch.uint8)
    for cue in image_cues(images):
        assert cue.features.isfinite().all()
        assert len(cue.features) == 5
