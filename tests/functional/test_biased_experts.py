"""masked_cross_entropy and learned_mixin_terms against their definitions."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from crossbias.functional import learned_mixin_terms, masked_cross_entropy

TARGET = torch.tensor([0, 3, 1, 2, 2, 0])


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).requires_grad_()


def softmax(logits: list[float]) -> list[float]:
    powers = [math.exp(z) for z in logits]
    return [power / sum(powers) for power in powers]


def test_masked_cross_entropy_multiplies_logits_by_the_sigmoid_of_the_mask():
    logits, mask = draw(6, 4), draw(6, 4, seed=1)
    losses = []
    for row, closed, label in zip(logits.tolist(), mask.tolist(), TARGET.tolist(), strict=True):
        masked = [z / (1 + math.exp(-c)) for z, c in zip(row, closed, strict=True)]
        losses.append(-math.log(softmax(masked)[label]))
    found = masked_cross_entropy(logits, mask, TARGET)
    assert found.item() == pytest.approx(sum(losses) / 6, rel=1e-12)
    assert torch.autograd.gradcheck(lambda *x: masked_cross_entropy(*x, TARGET), (logits, mask))


def test_an_open_mask_is_plain_cross_entropy():
    logits = draw(6, 4)
    found = masked_cross_entropy(logits, torch.full((6, 4), 60.0), TARGET)
    torch.testing.assert_close(found, F.cross_entropy(logits, TARGET))


def test_learned_mixin_terms_equal_their_definitions():
    logits, biased, scale = draw(6, 4), draw(6, 4, seed=1), torch.rand(6).double() * 3
    losses, entropies = [], []
    for row, other, s, label in zip(
        logits.tolist(), biased.tolist(), scale.tolist(), TARGET.tolist(), strict=True
    ):
        log_p, log_b = ([math.log(p) for p in softmax(each)] for each in (row, other))
        mixed = softmax([p + s * b for p, b in zip(log_p, log_b, strict=True)])
        losses.append(-math.log(mixed[label]))
        entropies.append(-sum(p * math.log(p) for p in softmax([s * b for b in log_b])))
    task, entropy = learned_mixin_terms(logits, biased, scale, TARGET)
    assert task.item() == pytest.approx(sum(losses) / 6, rel=1e-12)
    assert entropy.item() == pytest.approx(sum(entropies) / 6, rel=1e-12)
    assert torch.autograd.gradcheck(
        lambda *x: learned_mixin_terms(*x, TARGET), (logits, biased, scale.requires_grad_())
    )


def test_without_trust_in_the_bias_the_mixture_is_plain_cross_entropy():
    logits = draw(6, 4)
    task, entropy = learned_mixin_terms(logits, draw(6, 4, seed=1), torch.zeros(6), TARGET)
    torch.testing.assert_close(task, F.cross_entropy(logits, TARGET))
    assert entropy.item() == pytest.approx(math.log(4))


def test_adding_a_number_to_the_biased_logits_changes_nothing():
    """ReBias's code has raw logits in place of log-probabilities; the soft-max is the same."""
    logits, biased, scale = draw(6, 4), draw(6, 4, seed=1), torch.full((6,), 1.7)
    raw = F.cross_entropy(logits + scale[:, None] * biased, TARGET)
    for shift in (0.0, 5.0):
        task, _ = learned_mixin_terms(logits, biased + shift, scale, TARGET)
        torch.testing.assert_close(task, raw)


def test_both_are_finite_in_bf16_and_with_certain_networks():
    certain = torch.full((6, 4), -1e4).scatter(1, TARGET[:, None], 1e4).bfloat16()
    wrong = certain.roll(1, 1)
    terms = learned_mixin_terms(wrong, certain, torch.full((6,), 50.0), TARGET)
    for found in (*terms, masked_cross_entropy(wrong, certain, TARGET)):
        assert found.dtype == torch.float32
        assert found.isfinite()
