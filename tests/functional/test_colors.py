import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from crossbias.functional.colors import IGNORED, color_levels


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Images about half of whose values are 0."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(-256, 256, shape, generator=generator)
    return images.clamp(min=0).to(torch.uint8)


def slow_twin(images: Tensor, size: int) -> Tensor:
    """As the authors' loader: pillow's nearest neighbor, division by 32, nothing for 0."""
    levels = torch.empty(len(images), images.shape[1], size, size, dtype=torch.int64)
    for number, image in enumerate(images):
        for channel, plane in enumerate(image):
            small = Image.fromarray(plane.numpy()).resize((size, size), Image.Resampling.NEAREST)
            for (row, column), value in np.ndenumerate(np.asarray(small)):
                level = IGNORED if value == 0 else int(value) // 32
                levels[number, channel, row, column] = level
    return levels


# Sides in which no middle of a field falls on the border of two pixels, where pillow's own
# rounding errors decide; in 28 to 14 all do, and are exact.
@pytest.mark.parametrize(
    ("shape", "size"), [((28, 28), 14), ((31, 45), 14), ((31, 45), 7), ((15, 29), 28)]
)
def test_equals_pillow_and_division(shape: tuple[int, int], size: int) -> None:
    images = draw(5, 3, *shape)
    assert torch.equal(color_levels(images, size=size), slow_twin(images, size))


def test_every_value_has_its_level() -> None:
    values = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    levels = color_levels(values, size=16).flatten().tolist()
    assert levels == [IGNORED] + [0] * 31 + [k for k in range(1, 8) for _ in range(32)]


MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1)
STD = torch.tensor([0.2023, 0.1994, 0.2010]).view(3, 1, 1)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.5, 0.5), (MEAN, STD)])
def test_a_normalized_batch_has_the_levels_of_its_bytes(
    mean: Tensor | float, std: Tensor | float
) -> None:
    values = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(2, 3, -1, -1)
    batch = (values.float() / 255 - mean) / std
    expected = color_levels(values, size=16)
    assert torch.equal(color_levels(batch, mean=mean, std=std, size=16), expected)


def test_values_outside_the_range_of_colors_have_the_outermost_levels() -> None:
    images = torch.tensor([-0.3, 1.4]).view(1, 1, 1, 2)  # as after an augmentation
    assert color_levels(images, size=2).flatten(2)[0, 0].tolist() == [IGNORED, 7] * 2


def test_cross_entropy_leaves_out_what_has_no_color() -> None:
    images = draw(4, 3, 28, 28)
    logits = torch.randn(4, 8, 14, 14, generator=torch.Generator().manual_seed(1))
    for channel in range(3):
        level = color_levels(images)[:, channel]
        log_likelihood = logits.log_softmax(1).gather(1, level.clamp(min=0).unsqueeze(1))
        colored = images[:, channel, 1::2, 1::2] > 0
        expected = -log_likelihood.squeeze(1)[colored].mean()
        torch.testing.assert_close(F.cross_entropy(logits, level), expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float64])
def test_no_value_is_read_by_the_host(dtype: torch.dtype) -> None:
    with FakeTensorMode() as mode:  # tensors without values: reading one raises
        levels = color_levels(mode.from_tensor(torch.zeros(2, 3, 28, 28, dtype=dtype)))
    assert (levels.shape, levels.dtype) == ((2, 3, 14, 14), torch.int64)
