"""representation_bias against its definition, and which samples each rule of REPAIR keeps."""

import math

import pytest
import torch

from crossbias.functional import kept_by_weight, representation_bias

TARGETS = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
ROWS = torch.tensor([5, 0, 2, 4])  # the batch


def draw(n: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def bias_of(losses: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    weights = scores.sigmoid()
    return representation_bias(
        losses, TARGETS[ROWS], weights[ROWS], all_weights=weights, all_targets=TARGETS, classes=3
    )


def test_it_equals_its_definition():
    losses, scores = draw(4), draw(8, seed=1) * 4 - 2
    weights = [1 / (1 + math.exp(-v)) for v in scores.tolist()]
    share = [sum(w for w, y in zip(weights, TARGETS.tolist(), strict=True) if y == k)
             for k in range(3)]  # fmt: skip
    solved = chance = 0.0
    for row, loss in zip(ROWS.tolist(), losses.tolist(), strict=True):
        z = weights[row] / (sum(weights) / 8)
        solved += z * loss
        chance -= z * math.log(share[int(TARGETS[row])] / sum(weights))
    assert bias_of(losses, scores).item() == pytest.approx(1 - solved / chance, rel=1e-12)
    assert torch.autograd.gradcheck(bias_of, (losses, scores.requires_grad_()))


def test_a_probe_that_knows_only_frequencies_has_no_bias_and_a_perfect_one_has_1():
    weights, targets = draw(8), TARGETS
    shares = torch.stack([weights[targets == k].sum() for k in range(3)]) / weights.sum()
    of_all = {"all_weights": weights, "all_targets": targets, "classes": 3}
    at_chance = -shares.log()[targets]
    assert representation_bias(at_chance, targets, weights, **of_all).item() == pytest.approx(0)
    assert representation_bias(torch.zeros(8), targets, weights, **of_all).item() == 1


def test_weights_that_vanish_give_a_finite_bias():
    scores = torch.full((8,), -200.0)
    scores[TARGETS == 0] = 0.0
    found = bias_of(torch.ones(4), scores)
    assert found.isfinite()
    assert found.dtype == torch.float32


WEIGHTS = torch.tensor([0.9, 0.2, 0.6, 0.7, 0.1, 0.3])
CLASSES = torch.tensor([0, 0, 0, 0, 1, 1])


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        ("threshold", [0, 2, 3, 4, 5]),  # class 1 has no weight above .5: it is kept whole
        ("rank", [0, 2, 3, 4, 5]),
        ("class-rank", [0, 3, 5]),
    ],
)
def test_what_is_kept(keep, expected):
    options = {"classes": 2, "threshold": 0.5, "fraction": 0.5, "generator": torch.Generator()}
    assert (
        kept_by_weight(WEIGHTS, CLASSES, keep=keep, **options).nonzero()[:, 0].tolist() == expected
    )


def test_samples_are_kept_with_their_weight_as_the_probability():
    weights, targets = torch.tensor([0.0, 0.25, 0.75, 1.0]).repeat(4000), torch.zeros(16000).long()
    options = {"classes": 1, "threshold": 0.5, "fraction": 0.5}
    found = [
        kept_by_weight(
            weights,
            targets,
            keep="sample",
            generator=torch.Generator().manual_seed(seed),
            **options,
        )
        for seed in (0, 0, 1)
    ]
    shares = found[0].view(4000, 4).double().mean(0).tolist()
    assert shares == pytest.approx([0, 0.25, 0.75, 1], abs=0.03)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
