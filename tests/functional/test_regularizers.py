"""end_terms against loops written from the paper's equations and the table of the release."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crossbias.functional import end_terms
from crossbias.types import UNKNOWN

Twin = tuple[float, float]


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def cosine(a: list[float], b: list[float]) -> float:
    norm = math.hypot(*a) * math.hypot(*b)
    return sum(x * y for x, y in zip(a, b, strict=True)) / norm if norm else 0.0


def naive_paper(features: Tensor, target: list[int], bias: list[int]) -> Twin:
    """Eq. 7, and eq. 10 over the samples of eq. 12."""
    y = features.tolist()
    known = [i for i in range(len(y)) if bias[i] != UNKNOWN]
    per_bias = []
    for b in {bias[i] for i in known}:
        members = [i for i in known if bias[i] == b]
        total = sum(abs(cosine(y[i], y[j])) for i in members for j in members)
        per_bias.append(total / len(members) ** 2)
    per_sample = []
    for i in known:
        others = [j for j in known if target[j] == target[i] and bias[j] != bias[i]]
        if others:
            per_sample.append(sum(cosine(y[i], y[j]) for j in others) / len(others))
    disentangling = sum(per_bias) / len(per_bias) if per_bias else 0.0
    return disentangling, 1 - sum(per_sample) / len(per_sample) if per_sample else 0.0


def naive_released(features: Tensor, target: list[int], bias: list[int]) -> Twin:
    """The absolute value outside the sum, one denominator, and half of the mixed pairs."""
    y = features.tolist()
    sums: dict[int, float] = {}
    same, mixed = 0, []
    for i in range(len(y)):
        for j in range(i):  # i comes later
            if UNKNOWN in (bias[i], bias[j]):
                continue
            if bias[i] == bias[j]:
                same += 1
                sums[bias[i]] = sums.get(bias[i], 0.0) + cosine(y[i], y[j])
            elif target[i] == target[j] and bias[i] < bias[j]:
                mixed.append((1 + cosine(y[i], y[j])) / 2)
    disentangling = sum(abs(total) for total in sums.values()) / same if same else 0.0
    return disentangling, 1 - sum(mixed) / len(mixed) if mixed else 0.0


TWINS = {"paper": naive_paper, "released": naive_released}


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(
    labels=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([UNKNOWN, 0, 1, 5])), min_size=1, max_size=12
    ),
    zero=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=50, deadline=None)
def test_end_terms_equal_the_loops_on_any_labels(
    variant: str, dtype: torch.dtype, labels: list[tuple[int, int]], zero: bool, seed: int
) -> None:
    features = draw(len(labels), 3, seed=seed, dtype=dtype)
    features[0] *= not zero
    features.requires_grad_()
    target, bias = (list(column) for column in zip(*labels, strict=True))

    terms = end_terms(features, torch.tensor(target), torch.tensor(bias), variant=variant)
    sum(terms).backward()

    expected = TWINS[variant](features, target, bias)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-14
    assert [term.item() for term in terms] == pytest.approx(expected, abs=tolerance)
    assert [term.dtype for term in terms] == [dtype, dtype]
    assert [term.shape for term in terms] == [(), ()]
    assert features.grad is not None
    assert features.grad.isfinite().all()


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_end_terms_gradient_is_that_of_their_values(variant: str) -> None:
    target, bias = torch.tensor([0, 1, 0, 1, 0, 1]), torch.tensor([1, 1, 0, 0, UNKNOWN, 0])

    assert torch.autograd.gradcheck(
        lambda features: end_terms(features, target, bias, variant=variant),
        draw(6, 3).requires_grad_(),
    )


def released_by_masks(features: Tensor, target: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """The release's order of work: one mask for each bias, and for each class and two biases."""
    unit = F.normalize(features, dim=1, eps=1e-12)
    similarity = (unit @ unit.T).clamp(-1, 1)
    values = bias.unique().tolist()
    disentangling, entangling = features.new_zeros(()), features.new_zeros(())
    same = mixed = 0
    for b in values:
        mask = ((bias == b)[:, None] & (bias == b)).tril(-1)
        disentangling = disentangling + similarity[mask].sum().abs()
        same += int(mask.sum())
    for t, b, other in itertools.product(target.unique().tolist(), values, values):
        if b < other:
            rows, columns = (target == t) & (bias == b), (target == t) & (bias == other)
            mask = (rows[:, None] & columns).tril(-1)
            entangling = entangling + (1 + similarity[mask]).sum() / 2
            mixed += int(mask.sum())
    return disentangling / same, 1 - entangling / mixed


@pytest.mark.parametrize("seed", range(3))
def test_released_terms_and_gradients_on_batches_of_biased_mnist(seed: int) -> None:
    """256 samples of ten classes, one of them in a color of another, as at a rho of .997."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(10, (256,), generator=generator)
    bias = target.clone()
    bias[100] = (target[100] + 1 + seed) % 10
    features = draw(256, 128, seed=seed) + 3 * draw(10, 128, seed=99)[target]  # colors cluster
    features.requires_grad_()

    terms = end_terms(features, target, bias, variant="released")

    expected = released_by_masks(features, target, bias)
    torch.testing.assert_close(terms, expected)
    assert terms[1] > 0  # the one sample has pairs
    for term, twin in zip(terms, expected, strict=True):
        (gradient,) = torch.autograd.grad(term, features, retain_graph=True)
        (other,) = torch.autograd.grad(twin, features, retain_graph=True)
        torch.testing.assert_close(gradient, other, rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_end_terms_do_not_see_the_length_of_a_feature(variant: str) -> None:
    features, labels = draw(8, 4), (torch.arange(8) % 2, torch.arange(8) // 3)

    scaled = end_terms(features * torch.arange(1, 9)[:, None], *labels, variant=variant)

    torch.testing.assert_close(scaled, end_terms(features, *labels, variant=variant))


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_entangling_is_zero_when_no_class_spans_two_biases(variant: str) -> None:
    target = torch.tensor([0, 0, 1, 1, 2])

    disentangling, entangling = end_terms(draw(5, 3), target, target, variant=variant)

    assert entangling.item() == 0
    assert disentangling.item() > 0


@given(order=st.permutations(range(7)))
@settings(max_examples=20, deadline=None)
def test_paper_variant_does_not_see_the_order_of_the_batch(order: list[int]) -> None:
    features, target = draw(7, 3), torch.tensor([0, 1, 0, 1, 0, 2, 2])
    bias = torch.tensor([0, 1, 1, 0, UNKNOWN, 2, 0])

    shuffled = end_terms(features[order], target[order], bias[order], variant="paper")

    torch.testing.assert_close(shuffled, end_terms(features, target, bias, variant="paper"))


def test_released_entangling_takes_only_pairs_whose_smaller_bias_comes_later() -> None:
    features = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    target = torch.tensor([0, 0])

    earlier = end_terms(features, target, torch.tensor([0, 1]), variant="released")
    later = end_terms(features, target, torch.tensor([1, 0]), variant="released")

    assert earlier[1].item() == 0
    assert later[1].item() == 0.5


def test_released_entangling_is_half_of_the_pair_mean_form() -> None:
    features = draw(12, 4)
    target, bias = torch.arange(12) % 2, 12 - torch.arange(12)  # every smaller bias comes later

    entangling = end_terms(features, target, bias, variant="released")[1].item()

    rows = features.tolist()
    pairs = [cosine(rows[i], rows[j]) for i in range(12) for j in range(i) if (i - j) % 2 == 0]
    assert entangling == pytest.approx((1 - sum(pairs) / len(pairs)) / 2)


def test_released_disentangling_lets_signs_cancel_and_the_paper_does_not() -> None:
    features = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    target, bias = torch.arange(4), torch.zeros(4, dtype=torch.int64)

    paper = end_terms(features, target, bias, variant="paper")[0].item()
    released = end_terms(features, target, bias, variant="released")[0].item()

    assert paper == 1
    assert released == pytest.approx(2 / 6)


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_samples_of_unknown_bias_take_part_in_nothing(variant: str) -> None:
    features, target = draw(9, 3), torch.arange(9) % 2
    bias = torch.tensor([0, 1, 2, 0, 1, 2, UNKNOWN, UNKNOWN, UNKNOWN])
    features[6:] *= 100

    with_unknown = end_terms(features, target, bias, variant=variant)
    without = end_terms(features[:6], target[:6], bias[:6], variant=variant)

    torch.testing.assert_close(with_unknown, without)


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_zero_features_get_a_gradient_of_ordinary_size(variant: str) -> None:
    features = draw(4, 3, dtype=torch.float32)
    features[1] = 0
    features.requires_grad_()

    sum(end_terms(features, torch.zeros(4), torch.tensor([1, 1, 0, 0]), variant=variant)).backward()

    assert features.grad is not None
    assert features.grad.abs().max() < 10


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_entangling_parallel_features_is_zero_and_not_below(variant: str) -> None:
    target, bias = torch.zeros(4, dtype=torch.int64), torch.tensor([3, 2, 1, 0])
    features = draw(50, 1, 7, dtype=torch.float32) * torch.arange(1, 5)[:, None]

    terms = [end_terms(batch, target, bias, variant=variant)[1].item() for batch in features]

    assert min(terms) >= 0
    assert max(terms) < 1e-6


def test_end_terms_refuse_an_unknown_variant_and_shapes_that_do_not_fit() -> None:
    labels = torch.zeros(4, dtype=torch.int64)
    with pytest.raises(ValueError, match="'paper' or 'released', got 'code'"):
        end_terms(draw(4, 3), labels, labels, variant="code")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"\(4, 3, 1, 1\)"):
        end_terms(draw(4, 3, 1, 1), labels, labels, variant="paper")
    with pytest.raises(ValueError, match=r"\(3,\)"):
        end_terms(draw(4, 3), labels, labels[:3], variant="paper")


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_without_a_pair_the_terms_are_zeros_that_still_have_a_gradient(variant: str) -> None:
    """A process without a pair must take part in the backward pass of the others."""
    features = torch.randn(4, 3, requires_grad=True)
    target, bias = torch.tensor([0, 1, 2, 3]), torch.tensor([-1, -1, -1, -1])
    for term in end_terms(features, target, bias, variant=variant):
        assert term.item() == 0
        (gradient,) = torch.autograd.grad(term, features, retain_graph=True)
        assert not gradient.any()
