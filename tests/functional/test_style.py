"""AdaIN: features get the statistics of the style and keep everything else."""

import math

import pytest
import torch
from torch import Tensor

from crossbias.functional import adaptive_instance_normalization, channel_statistics


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_statistics_are_those_of_each_image_and_channel():
    features = draw(2, 3, 4, 5)
    mean, deviation = channel_statistics(features)
    for image in range(2):
        for channel in range(3):
            values = features[image, channel].flatten().tolist()
            middle = sum(values) / 20
            variance = sum((value - middle) ** 2 for value in values) / 19
            assert mean[image, channel].item() == pytest.approx(middle)
            assert deviation[image, channel].item() == pytest.approx(math.sqrt(variance + 1e-5))


def test_the_result_has_the_statistics_of_the_style_and_the_shape_of_the_image():
    features, style = 3 * draw(2, 3, 4, 5) + 1, draw(2, 3, 9, 9, seed=1).exp()
    wanted = channel_statistics(style)
    found = adaptive_instance_normalization(features, *wanted)
    for actual, expected in zip(channel_statistics(found), wanted, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)
    for before, after in zip(features.flatten(0, 1), found.flatten(0, 1), strict=True):
        correlation = torch.corrcoef(torch.stack([before.flatten(), after.flatten()]))
        assert correlation[0, 1].item() == pytest.approx(1)


def test_the_images_own_statistics_change_nothing_and_a_flat_channel_stays_finite():
    features = draw(2, 3, 4, 5)
    same = adaptive_instance_normalization(features, *channel_statistics(features))
    torch.testing.assert_close(same, features)
    flat, mean, deviation = torch.ones(1, 2, 3, 3), torch.zeros(1, 2), torch.ones(1, 2)
    assert torch.equal(adaptive_instance_normalization(flat, mean, deviation), 0 * flat)


def test_gradients():
    inputs = (draw(2, 2, 2, 3), draw(2, 2, seed=1), draw(2, 2, seed=2).exp())
    leaves = tuple(each.requires_grad_() for each in inputs)
    assert torch.autograd.gradcheck(adaptive_instance_normalization, leaves)
