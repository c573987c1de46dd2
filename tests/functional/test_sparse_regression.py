"""Logistic regression with an L1 penalty: what holds at its minimum, and a second opinion."""

import pytest
import torch
import torch.nn.functional as F

from crossbias.functional import sparse_logistic_regression


def problem(classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(60, 8, generator=generator)
    scores = 2 * features[:, :classes] + torch.randn(60, classes, generator=generator)
    return features, scores.argmax(1)


def alike_features() -> tuple[torch.Tensor, torch.Tensor]:
    """More features than samples, all of them mixtures of four: hundreds of steps do not do."""
    generator = torch.Generator().manual_seed(0)
    four = torch.randn(63, 4, generator=generator)
    features = four @ torch.randn(4, 100, generator=generator)
    features += 0.1 * torch.randn(63, 100, generator=generator)
    return features, torch.arange(63) % 3


@pytest.mark.parametrize("strength", [0.1, 0.3, 3.0])
@pytest.mark.parametrize("given", [problem(2), problem(4), alike_features()], ids=[2, 4, "alike"])
def test_the_subgradient_vanishes(given, strength):
    """d/dW of C times the loss is -sign(W) where W is not 0, and within [-1, 1] elsewhere."""
    features, target = given
    classes = int(target.max()) + 1
    found = sparse_logistic_regression(features, target, classes=classes, strength=strength)
    weight, bias = (part.requires_grad_() for part in found)
    logits = features.double() @ weight.T + bias
    loss = strength * F.cross_entropy(logits, target, reduction="sum")
    of_weight, of_bias = torch.autograd.grad(loss, (weight, bias))
    used = weight != 0
    assert used.any()
    torch.testing.assert_close(of_weight[used], -weight[used].sign(), rtol=0, atol=2e-3)
    assert (of_weight[~used].abs() <= 1 + 2e-3).all()
    torch.testing.assert_close(of_bias, torch.zeros_like(of_bias), rtol=0, atol=2e-3)


def test_a_stronger_penalty_uses_fewer_features():
    features, target = problem(3)
    used = [
        int((sparse_logistic_regression(features, target, classes=3, strength=s)[0] != 0).sum())
        for s in (10.0, 0.3, 0.1, 1e-4)
    ]
    assert used == sorted(used, reverse=True)
    assert used[0] > used[2] > used[3] == 0


def test_problems_together_have_the_answers_of_each_alone():
    features, target = problem(3)
    several = torch.stack([features, features.flip(1), -2 * features])
    weights, biases = sparse_logistic_regression(
        several, target.expand(3, -1), classes=3, strength=0.3
    )
    for one, weight, bias in zip(several, weights, biases, strict=True):
        alone = sparse_logistic_regression(one, target, classes=3, strength=0.3)
        torch.testing.assert_close((weight, bias), alone, rtol=0, atol=1e-3)


def test_it_agrees_with_scikit_learn():
    linear = pytest.importorskip("sklearn.linear_model")
    features, target = problem(3)
    reference = linear.LogisticRegression(
        l1_ratio=1.0, C=0.3, solver="saga", tol=1e-6, max_iter=20000
    ).fit(features.double().numpy(), target.numpy())
    weight, _ = sparse_logistic_regression(features, target, classes=3, strength=0.3)
    torch.testing.assert_close(weight, torch.from_numpy(reference.coef_), rtol=0, atol=1e-3)
