from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from crossbias.types import UNKNOWN
from crossbias.verify import count

CLASSES, BIASES = 3, 4
Sample = tuple[int, int, int]
samples = st.lists(
    st.tuples(
        st.integers(0, CLASSES - 1), st.integers(UNKNOWN, BIASES - 1), st.integers(0, CLASSES - 1)
    ),
    max_size=40,
)


def columns(rows: list[Sample]) -> tuple[Tensor, Tensor, Tensor]:
    targets, biases, predictions = torch.tensor(rows, dtype=torch.int64).reshape(-1, 3).T
    return targets, biases, predictions


def counted(rows: list[Sample]) -> Tensor:
    return count(*columns(rows), num_classes=CLASSES, num_biases=BIASES)


@given(samples)
def test_counts_equal_counting_one_sample_at_a_time(rows: list[Sample]) -> None:
    twin = torch.zeros(CLASSES, BIASES + 1, CLASSES, dtype=torch.int64)
    for target, bias, prediction in rows:
        column = BIASES if bias == UNKNOWN else bias
        twin[target, column, prediction] += 1
    assert counted(rows).equal(twin)


@given(samples, samples)
def test_counts_of_batches_with_absent_groups_add_up(
    first: list[Sample], second: list[Sample]
) -> None:
    assert (counted(first) + counted(second)).equal(counted(first + second))


def test_groups_of_one_class_do_not_fall_together() -> None:
    """A stride mistake merges (1, 0) with (0, 1), the classic error of group numbering."""
    every_group = [(target, bias, 0) for target in range(CLASSES) for bias in range(BIASES)]
    assert counted(every_group)[:, :BIASES, 0].eq(1).all()


def test_no_bias_attribute_leaves_only_the_unknown_column() -> None:
    targets, predictions = torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0])
    unknown = torch.full_like(targets, UNKNOWN)
    counts = count(targets, unknown, predictions, num_classes=2, num_biases=0)
    assert counts.tolist() == [[[1, 0]], [[1, 1]]]


@pytest.mark.parametrize("row", [(3, 0, 0), (-1, 0, 0), (0, 4, 0), (0, -2, 0), (0, 0, 3)])
def test_numbers_out_of_range_are_refused_instead_of_counted_elsewhere(row: Sample) -> None:
    with pytest.raises((RuntimeError, IndexError), match="out of bounds"):
        counted([(0, 0, 0), row])


def test_counting_never_looks_at_the_values() -> None:
    """The meta device has no values to wait for: anything that needs one raises there."""
    column = torch.zeros(5, dtype=torch.int64, device="meta")
    counts = count(column, column, column, num_classes=CLASSES, num_biases=BIASES)
    assert counts.shape == (CLASSES, BIASES + 1, CLASSES)


@pytest.mark.gpu
def test_counting_on_cuda_does_not_wait_for_the_device(
    without_waiting: Callable[[], AbstractContextManager[None]],
) -> None:
    rows = [(t, b, p) for t in range(CLASSES) for b in range(-1, BIASES) for p in range(CLASSES)]
    on_device = tuple(column.cuda() for column in columns(rows))
    with without_waiting():
        counts = count(*on_device, num_classes=CLASSES, num_biases=BIASES)
    assert counts.cpu().equal(counted(rows))
