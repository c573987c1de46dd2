"""Augmentations equal torchvision's with the same draws, image by image."""

import math

import pytest
import torch
from torch import Generator
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as reference

from crossbias.data.augment import color, geometry
from crossbias.data.augment.augment import AUGMENTATIONS, augmentation
from crossbias.data.augment.step import Step
from crossbias.errors import CrossbiasError
from crossbias.parameters import convert


def images(count: int = 12, height: int = 17, width: int = 17, channels: int = 3) -> torch.Tensor:
    return torch.rand(count, channels, height, width, generator=Generator().manual_seed(1))


def draw(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def applied(step: Step, given: torch.Tensor, generator: Generator | None = None) -> torch.Tensor:
    shape = (given.shape[2], given.shape[3])
    return step.apply(given, step.draw(len(given), shape, generator or draw()))


def test_flip_mirrors_the_images_drawn():
    given = images(400)
    flipped = applied(geometry.Flip(), given)
    chosen = torch.rand(400, generator=draw()) < 0.5
    assert 150 < chosen.sum() < 250
    assert torch.equal(flipped[chosen], reference.horizontal_flip(given[chosen]))
    assert torch.equal(flipped[~chosen], given[~chosen])


@pytest.mark.parametrize(("padding", "size"), [(4, 0), (0, 11), (2, 15), (0, 0)])
def test_crop_is_a_crop_of_the_padded_image(padding, size):
    """Every crop is found somewhere in the padded image, and all positions occur."""
    given = images(300, 13, 13)
    padded = torch.nn.functional.pad(given, [padding] * 4)
    side = size or 13
    found = applied(geometry.Crop(padding, size), given)
    assert found.shape == (300, 3, side, side)
    parts = padded.unfold(2, side, 1).unfold(3, side, 1)  # (B, C, places, places, side, side)
    same = (parts == found[:, :, None, None]).flatten(4).all(4).all(1)  # (B, places, places)
    assert same.flatten(1).any(1).all()
    room = 13 + 2 * padding - side + 1
    if room < 6:
        assert same.any(0).all()
        assert same.shape[1:] == (room, room)


@pytest.mark.parametrize(("height", "width"), [(17, 17), (20, 14)])
@pytest.mark.parametrize("size", [0, 12, 24])
def test_random_resized_crop_is_a_resized_crop(height, width, size):
    given = images(16, height, width)
    found = applied(geometry.RandomResizedCrop(0.2, 0.9, size), given)
    shape = [size, size] if size else [height, width]
    boxes = geometry.resized_crop_boxes(16, (height, width), 0.2, 0.9, draw())
    for image, box, result in zip(given, boxes.int().tolist(), found, strict=True):
        expected = reference.resized_crop(image, *box, size=shape, antialias=False)
        torch.testing.assert_close(result, expected, atol=1e-5, rtol=0)


def test_boxes_have_areas_and_ratios_as_asked_and_all_places():
    boxes = geometry.resized_crop_boxes(5000, (100, 100), 0.3, 0.6, draw())
    top, left, tall, wide = boxes.unbind(1)
    area, ratio = tall * wide / 10_000, wide / tall
    assert abs(area.min() - 0.3) < 0.01
    assert abs(area.max() - 0.6) < 0.01
    assert abs(area.mean() - 0.45) < 0.005
    assert abs(ratio.min() - 3 / 4) < 0.02
    assert abs(ratio.max() - 4 / 3) < 0.03
    assert abs(ratio.log().mean()) < 0.01
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + tall == 100).any()
    assert (top + tall <= 100).all()
    assert (left + wide <= 100).all()


@pytest.mark.parametrize(
    ("shape", "box"), [((100, 40), (23, 0, 53, 40)), ((40, 101), (0, 24, 40, 53))]
)
def test_images_too_long_for_any_part_give_their_middle(shape, box):
    boxes = geometry.resized_crop_boxes(3, shape, 0.99, 1.0, draw())
    assert boxes.tolist() == [list(box)] * 3


def test_areas_above_the_whole_are_those_that_fit():
    boxes = geometry.resized_crop_boxes(500, (28, 28), 0.9, 1.1, draw())
    assert (boxes[:, 2:] <= 28).all()
    with pytest.raises(CrossbiasError, match=r"needs low <= high, got 0\.9 and 0\.5"):
        geometry.RandomResizedCrop(0.9, 0.5)


@pytest.mark.parametrize(("height", "width"), [(17, 17), (20, 14)])
def test_rotate_turns_as_torchvision(height, width):
    given = images(10, height, width)
    found = applied(geometry.Rotate(60.0), given)
    angles = (2 * torch.rand(10, generator=draw()) - 1) * 60
    for image, angle, result in zip(given, angles.tolist(), found, strict=True):
        expected = reference.rotate(image, angle, InterpolationMode.BILINEAR, fill=None)
        torch.testing.assert_close(result, expected, atol=2e-4, rtol=0)


def test_rotating_to_the_nearest_pixel_as_torchvision():
    """Ties apart, every pixel is one of the image's."""
    given = images(10, 17, 20)
    found = augmentation(("rotate(30,nearest=true)",))(given, draw())
    angles = (2 * torch.rand(10, generator=draw()) - 1) * 30
    same = [
        result == reference.rotate(image, angle, InterpolationMode.NEAREST, fill=None)
        for image, angle, result in zip(given, angles.tolist(), found, strict=True)
    ]
    assert torch.stack(same).float().mean() > 0.995
    assert (found[0].unsqueeze(-1) == given[0].flatten()).any(-1)[found[0] > 0].all()


@pytest.mark.parametrize("nearest", [False, True])
def test_a_quarter_turn_is_exact(nearest):
    given = images(2)
    angles = torch.tensor([math.pi / 2, -math.pi / 2])
    turned = geometry.turn(given, angles, nearest=nearest)
    torch.testing.assert_close(turned[0], given[0].rot90(1, (1, 2)), atol=1e-5, rtol=0)
    torch.testing.assert_close(turned[1], given[1].rot90(-1, (1, 2)), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("ours", "theirs", "numbers"),
    [
        (color.scale_brightness, reference.adjust_brightness, (0.0, 0.4, 1.0, 1.7)),
        (color.scale_saturation, reference.adjust_saturation, (0.0, 0.4, 1.0, 1.7)),
        (color.turn_hue, reference.adjust_hue, (-0.5, -0.1, 0.0, 0.3)),
    ],
)
def test_colors_change_as_in_torchvision(ours, theirs, numbers):
    given = images(4)
    given[:, :, :4] = given[:, :1, :4]  # pixels without color
    given[:, :, 5, :3] = torch.tensor([[1.0, 0, 0], [1, 0, 1], [0, 0, 1]])  # and the extreme ones
    found = ours(given, torch.tensor(numbers))
    for image, number, result in zip(given, numbers, found, strict=True):
        torch.testing.assert_close(result, theirs(image, number), atol=1e-5, rtol=0)


def test_jitter_draws_each_number_for_each_image():
    given, draws = images(6), torch.rand(3, 6, generator=draw())
    found = applied(color.Jitter(0.4, 1.5, 0.1), given)
    for row in range(6):
        expected = reference.adjust_brightness(given[row], float(0.6 + 0.8 * draws[0, row]))
        expected = reference.adjust_saturation(expected, float(2.5 * draws[1, row]))
        expected = reference.adjust_hue(expected, float(0.2 * draws[2, row] - 0.1))
        torch.testing.assert_close(found[row], expected, atol=1e-5, rtol=0)
    assert torch.equal(applied(color.Jitter(), given), given)


def test_grey_takes_the_color_out_of_some():
    given = images(100)
    found, chosen = applied(color.Grey(0.3), given), torch.rand(100, generator=draw()) < 0.3
    expected = reference.rgb_to_grayscale(given, num_output_channels=3)
    torch.testing.assert_close(found[chosen], expected[chosen])
    assert torch.equal(found[~chosen], given[~chosen])


def test_grey_images_have_brightness_only():
    given = images(channels=1)
    assert torch.equal(applied(color.Grey(1.0), given), given)
    applied(color.Jitter(brightness=0.5), given)
    with pytest.raises(CrossbiasError, match="need images of 3 channels, got 1"):
        applied(color.Jitter(hue=0.1), given)


@pytest.mark.parametrize("spec", AUGMENTATIONS)
def test_every_augmentation_repeats_with_its_generator_and_keeps_the_range(spec):
    given, before = images(), torch.get_rng_state()
    step = augmentation((spec,))
    one, same, other = (step(given, draw(seed)) for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert one.shape == given.shape
    assert spec == "jitter" or not torch.equal(one, other)  # jitter needs numbers
    assert one.min() >= 0
    assert one.max() <= 1 + 1e-6
    assert torch.equal(before, torch.get_rng_state())


def test_names_with_numbers_mean_the_functions():
    given, generator, twin = images(), draw(), draw()
    specs = ("flip(0.2)", " crop( padding = 2 )", "jitter(0.1,hue=0.2)", "grey()")
    found = augmentation(specs)(given, generator)
    steps = (geometry.Flip(0.2), geometry.Crop(2), color.Jitter(0.1, 0, 0.2), color.Grey())
    expected = given
    for step in steps:
        expected = applied(step, expected, twin)
    assert torch.equal(found, expected)


def test_those_that_cut_give_the_size_asked_for():
    steps = augmentation(("random-resized-crop(0.5,1)", "flip"), size=9)
    assert steps(images(), draw()).shape == (12, 3, 9, 9)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("filp", r"no augmentation 'filp' \(did you mean 'flip'\?\); there are: flip, crop"),
        ("crop(4", r"no augmentation 'crop\(4'"),
        ("crop(4,2)", r"has '2', which is unknown or occurs twice; its numbers are: padding"),
        ("crop(size=4)", r"has 'size=4', which is unknown"),
        ("jitter(0.1,brightness=0.2)", "is unknown or occurs twice"),
        ("crop(x)", "padding of crop must be a whole number, got 'x'"),
        ("crop(1.5)", "padding of crop must be a whole number"),
        ("flip(2)", r"probability of flip must be in \[0, 1\], got 2"),
        ("jitter(hue=0.6)", r"hue of jitter must be in \[0, 0.5\]"),
        ("rotate(-1)", "degrees of rotate"),
        ("rotate(10,nearest=2)", "nearest of rotate must be true or false, got '2'"),
    ],
)
def test_a_mistake_in_a_name_is_explained(spec, message):
    with pytest.raises(CrossbiasError, match=message):
        augmentation((spec,))


def test_commas_in_parentheses_do_not_separate_augmentations():
    text = "flip,random-resized-crop(0.7,1),jitter(0.1, 0.2, hue=0.1),grey"
    expected = ("flip", "random-resized-crop(0.7,1)", "jitter(0.1, 0.2, hue=0.1)", "grey")
    assert convert(text, tuple[str, ...], "augment") == expected


@pytest.mark.gpu
@pytest.mark.parametrize("spec", [*AUGMENTATIONS, "jitter(0.3,0.3,0.1)"])
def test_the_device_gives_what_the_cpu_gives_without_waiting(spec, without_waiting):
    given, step = images(), augmentation((spec,))
    on_device = given.cuda().to(memory_format=torch.channels_last)
    step(on_device, draw())
    with without_waiting():
        found = step(on_device, draw())
    torch.testing.assert_close(found.cpu(), step(given, draw()), atol=1e-4, rtol=0)
