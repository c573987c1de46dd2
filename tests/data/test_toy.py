"""Toy-2d: where its points are, and that they stay there."""

import pytest
import torch

from crossbias import load
from crossbias.data import Toy2d


@pytest.mark.parametrize("split", ["train", "validation", "test-biased"])
def test_biased_splits_are_perfectly_biased(split):
    data = load("toy-2d", split)
    assert torch.equal(data.biases, data.targets)
    assert data.counts().diagonal().tolist() == [len(data) // 3] * 3


def test_in_the_test_split_every_group_is_equally_large():
    data = load("toy-2d", "test")
    assert data.counts().tolist() == [[200] * 3] * 3
    assert data.alignment().tolist() == torch.eye(3).bool().tolist()


@pytest.mark.parametrize("noise", [0.2, 0.5])
def test_coordinates_are_bias_and_signal_with_normal_noise(noise):
    data = Toy2d(size=30_000, noise=noise).load("train")
    rest = data.inputs - (torch.stack([data.biases, data.targets], 1) - 1)
    assert data.inputs.dtype == torch.float32
    torch.testing.assert_close(rest.mean(0), torch.zeros(2), atol=0.01, rtol=0)
    torch.testing.assert_close(rest.std(0), torch.full((2,), noise), atol=0.01, rtol=0)
    assert torch.corrcoef(rest.T)[0, 1].abs() < 0.02
    within = (rest.abs() < noise).float().mean().item()
    assert within == pytest.approx(0.683, abs=0.01)


def test_a_boundary_across_the_diagonal_is_right_on_five_of_nine_clouds_and_the_signal_on_all():
    """The 55% that the paper reports for a plain network, from geometry alone."""
    data = load("toy-2d", "test")
    bias, signal = data.inputs.T
    across = ((bias + signal + 2) / 2).round().clamp(0, 2)
    along = (signal + 1).round().clamp(0, 2)
    assert (across == data.targets).float().mean().item() == pytest.approx(5 / 9, abs=0.02)
    assert (along == data.targets).float().mean().item() == pytest.approx(0.992, abs=0.005)


GOLDEN = {
    "train": "eaf23b87c7776a45",
    "validation": "182f300c8fe78c1e",
    "test": "8fbba11cc3ebee4f",
    "test-biased": "d0073bcd723ae2f0",
}


@pytest.mark.parametrize("split", GOLDEN)
def test_golden_hash(split):
    assert load("toy-2d", split, seed=1).hash[:16] == GOLDEN[split]


def test_seeds_and_splits_differ_and_the_global_generator_does_not_matter():
    hashes = {load("toy-2d", s, seed=n).hash for s in ("train", "test-biased") for n in (0, 1)}
    assert len(hashes) == 4
    torch.manual_seed(5)
    assert load("toy-2d", "train").hash in hashes
