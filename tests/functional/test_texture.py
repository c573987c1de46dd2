"""The co-occurrence matrix and the projection of HEX against their definitions."""

import pytest
import torch
from torch import Tensor

from crossbias.functional import (
    column_norms,
    cooccurrence,
    gray_levels,
    neighbor_difference,
    without_texture,
)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_gray_levels_are_the_release_written_out():
    images = draw(2, 3, 3, 4).sigmoid()
    found = gray_levels(images, levels=16)
    for image, levels in zip(images, found, strict=True):
        gray = 0.299 * image[0] + 0.587 * image[1] + 0.114 * image[2]
        expected = [[int(15 * x / gray.max()) for x in row] for row in gray]
        assert levels.tolist() == expected
    assert found.amax((1, 2)).tolist() == [15, 15]


def test_statistics_are_in_float32_whatever_the_precision_of_the_network():
    """Rounded to bf16, a sum over 784 pixels is wrong by up to 2, and levels shift."""
    images = draw(4, 3, 28, 28).sigmoid().float()
    first, second = torch.linspace(-8, 8, 16), torch.linspace(0, 15, 16)

    def matrix() -> tuple[Tensor, Tensor]:
        gray = gray_levels(images, levels=16)
        return gray, cooccurrence(neighbor_difference(gray, row=0, column=1), gray, first, second)

    expected = matrix()
    with torch.autocast("cpu", torch.bfloat16):
        found = matrix()
    for ours, wanted in zip(found, expected, strict=True):
        assert torch.equal(ours, wanted)


def test_a_black_image_and_a_large_one_have_levels():
    assert gray_levels(torch.zeros(1, 3, 4, 4), levels=8).tolist() == [[[0] * 4] * 4]
    assert gray_levels(torch.rand(1, 1, 300, 20), levels=8).shape == (1, 128, 20)


def test_the_loss_makes_the_texture_explain_less_of_the_class():
    """Its own part of the logits is projected out whole, so it can only take away from the others.

    This is why HEX does not look for a texture that shows the bias.
    """
    target = torch.arange(40) % 2
    answers = torch.nn.functional.one_hot(target, 2).double()
    texture, logits = answers + draw(40, 2), 3 * answers + draw(40, 2, seed=1)
    torch.testing.assert_close(
        without_texture(logits + texture, texture), without_texture(logits, texture),
        rtol=0, atol=1e-5,
    )  # fmt: skip

    def explained(of: Tensor) -> float:
        return 1 - float(without_texture(answers, of).square().sum() / answers.square().sum())

    before = explained(texture)
    for _ in range(20):
        texture = texture.detach().requires_grad_()
        loss = torch.nn.functional.cross_entropy(without_texture(logits, texture), target)
        (gradient,) = torch.autograd.grad(loss, texture)
        texture = texture - gradient
    assert explained(texture.detach()) < before - 0.02


@pytest.mark.parametrize(("row", "column"), [(0, 1), (1, 0), (2, 1), (0, 0)])
def test_differences_are_the_release_written_out(row, column):
    """Its matrix of directions: -1 on the diagonal, and 1 from each pixel to the displaced one."""
    height, width, gray = 3, 4, draw(2, 3, 4)
    direction = -torch.eye(12, dtype=torch.float64)
    for i in range(12):
        if i // width + row < height and i % width + column < width:
            direction[i, i + row * width + column] = 1
    expected = (gray.flatten(1) @ direction).view(2, 3, 4)
    torch.testing.assert_close(neighbor_difference(gray, row=row, column=column), expected)


def test_the_matrix_sums_over_pixels():
    difference, gray, first, second = 3 * draw(2, 3, 4), 3 * draw(2, 3, 4, seed=1), draw(5), draw(5)
    found = cooccurrence(difference, gray, first, second)

    def clipped(x: Tensor) -> float:
        return min(max(float(x), 1e-5), 1.0)

    for image in range(2):
        pixels = list(zip(difference[image].flatten(), gray[image].flatten(), strict=True))
        for k in range(5):
            for m in range(5):
                entry = sum(clipped(d - first[k]) * clipped(x - second[m]) for d, x in pixels)
                assert found[image, k, m].item() == pytest.approx(entry)
    assert torch.autograd.gradcheck(
        lambda *x: cooccurrence(difference, gray, *x), (first.requires_grad_(), second.clone())
    )


def test_nothing_of_the_texture_is_left():
    """The residual of least squares, as torch's own solver gives it."""
    logits, texture = draw(12, 4).requires_grad_(), draw(12, 4, seed=1).requires_grad_()
    found = without_texture(logits, texture)
    assert (texture.T @ found).abs().max() < 1e-5
    expected = logits - texture @ torch.linalg.lstsq(texture, logits).solution
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_the_gradient_equals_finite_differences():
    """Of the ridge as a constant, which it is for the gradient."""
    logits, texture = draw(7, 3).requires_grad_(), draw(7, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(without_texture, (logits, texture), atol=1e-4)


@pytest.mark.parametrize("kind", ["zero", "constant", "copies", "few samples"])
def test_singular_textures_give_finite_values_and_gradients(kind):
    """Where the inverse of the paper is not defined."""
    texture = {
        "zero": torch.zeros(8, 3),
        "constant": torch.ones(8, 3),
        "copies": draw(8, 1).float().repeat(1, 3),
        "few samples": draw(2, 3).float(),
    }[kind].requires_grad_()
    logits = draw(len(texture), 3, seed=1).float().requires_grad_()
    found = without_texture(logits, texture)
    found.square().sum().backward()
    for value in (found, logits.grad, texture.grad):
        assert value.isfinite().all()
    if kind == "zero":
        assert torch.equal(found, logits)
    if kind == "constant":
        torch.testing.assert_close(found, logits - logits.mean(0), rtol=1e-4, atol=1e-5)
    if kind == "few samples":  # no more than the rank: nothing is left
        assert found.abs().max() < 1e-3


def test_norms_of_columns_are_those_over_the_batch():
    x = draw(6, 3)
    x[:, 1] = 0
    found = column_norms(x.requires_grad_())
    expected = [x[:, 0].square().sum().sqrt().item(), 1e-6, x[:, 2].square().sum().sqrt().item()]
    assert found.tolist() == pytest.approx(expected)
    (x / found).sum().backward()
    assert x.grad.isfinite().all()
