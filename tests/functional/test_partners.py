"""Partners: of the same class, allowed, and each as likely as the others."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from crossbias.functional.partners import draw_partners, refilled


def naive_draw(
    allowed: Tensor, starts: Tensor, target: Tensor, uniform: Tensor
) -> list[int | None]:
    found: list[int | None] = []
    for number, chance in zip(target.tolist(), uniform.tolist(), strict=True):
        start, end = starts[number].item(), starts[number + 1].item()
        members = [place for place in range(int(start), int(end)) if allowed[place]]
        found.append(members[int(chance * len(members))] if members else None)
    return found


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 999),
)
def test_draws_equal_a_loop_over_lists(sizes: list[int], share: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    allowed = torch.rand(sum(sizes), generator=generator) < share
    starts = torch.tensor([0, *sizes]).cumsum(0)
    target = torch.randint(0, len(sizes), (20,), generator=generator)
    uniform = torch.rand(20, generator=generator)

    place, found = draw_partners(allowed, starts, target, uniform)

    expected = naive_draw(allowed, starts, target, uniform)
    for number in range(20):
        assert found[number].item() == (expected[number] is not None)
        if expected[number] is not None:
            assert place[number].item() == expected[number]
    assert ((place >= 0) & (place < len(allowed))).all()


def test_every_allowed_member_is_drawn_equally_often() -> None:
    allowed = torch.tensor([True, True, False, True, True, False])
    uniform = torch.rand(30_000, generator=torch.Generator().manual_seed(0))
    starts, target = torch.tensor([0, 1, 6]), torch.ones(30_000, dtype=torch.int64)
    place, _ = draw_partners(allowed, starts, target, uniform)
    counts = torch.bincount(place, minlength=6)
    assert counts[[0, 2, 5]].tolist() == [0, 0, 0]
    assert (counts[[1, 3, 4]] - 10_000).abs().max() < 400  # five standard deviations


def test_the_largest_number_below_one_draws_the_last_member() -> None:
    """In float32 its product with a large size rounds to the size itself."""
    size = 2**24 - 1
    allowed, starts = torch.ones(size, dtype=torch.bool), torch.tensor([0, size])
    below_one = torch.nextafter(torch.ones(1), torch.zeros(1))
    place, _ = draw_partners(allowed, starts, torch.tensor([0]), below_one)
    assert place.item() in (size - 2, size - 1)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 999))
def test_only_classes_without_any_are_refilled(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, 5, (12,), generator=generator)
    allowed = torch.rand(12, generator=generator) < 0.3
    found = refilled(allowed, target, classes=5)
    for number in range(5):
        own = allowed[target == number]
        expected = own if own.any() else torch.ones_like(own)
        assert torch.equal(found[target == number], expected)


def test_no_value_is_read_by_the_host() -> None:
    allowed, starts = torch.ones(4, dtype=torch.bool), torch.tensor([0, 2, 4])
    with FakeTensorMode() as mode:
        inputs = (allowed, starts, torch.tensor([0, 1]), torch.rand(2))
        draw_partners(*(mode.from_tensor(x) for x in inputs))
        refilled(mode.from_tensor(allowed), mode.from_tensor(torch.zeros(4).long()), classes=2)
