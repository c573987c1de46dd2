"""The contract of a data set."""

import dataclasses

import numpy as np
import pytest
import torch

from crossbias import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.types import UNKNOWN


def test_counts_leave_unknown_biases_out(data):
    biases = data.biases.clone()
    biases[:5] = UNKNOWN
    known = dataclasses.replace(data, attributes={"color": biases})
    expected = torch.zeros(3, 3, dtype=torch.int64)
    for target, bias in zip(data.targets[5:], data.biases[5:], strict=True):
        expected[target, bias] += 1
    assert torch.equal(known.counts(), expected)


def test_alignment_is_read_from_the_counts_where_it_is_not_declared():
    """Hospital 1 sends most of the ill: (ill, 1) and (well, 0) are aligned."""
    targets = torch.tensor([0] * 100 + [1] * 10)
    hospital = torch.tensor([0] * 90 + [1] * 10 + [0] * 1 + [1] * 9)
    data = BiasedDataset(
        inputs=torch.zeros(110, 1), targets=targets, attributes={"hospital": hospital},
        bias="hospital",
    )  # fmt: skip
    assert data.alignment().tolist() == [[True, False], [False, True]]


def test_a_subset_keeps_rows_alignment_and_size_of_the_full_set(data):
    subset = data.subset(torch.tensor([5, 3, 40]))
    assert subset.index.tolist() == [5, 3, 40]
    assert subset.full_size == len(data)
    assert torch.equal(subset.alignment(), data.alignment())
    assert subset.subset(torch.tensor([2])).index.tolist() == [40]
    assert len(data.subset(data.targets == 0)) == int((data.targets == 0).sum())


def test_the_hash_tells_content_apart_and_nothing_else(data):
    assert data.hash == dataclasses.replace(data, name="other", bias=None).hash
    changed = data.inputs.clone()
    changed[0, 0, 0, 0] += 1
    others = [
        dataclasses.replace(data, inputs=changed),
        dataclasses.replace(data, targets=data.targets.flip(0)),
        dataclasses.replace(data, attributes={"color": data.biases.flip(0)}),
        dataclasses.replace(data, attributes={"hue": data.biases}, bias="hue", values={}),
        dataclasses.replace(data, classes=("a", "b", "c")),
    ]
    assert len({data.hash, *(other.hash for other in others)}) == 6


def test_without_a_bias_all_biases_are_unknown(data):
    without = data.with_bias(None)
    assert (without.biases == UNKNOWN).all()
    assert not without.has_bias_labels
    assert without.num_biases == 0


def test_groups_are_pairs_of_target_and_bias_numbered_row_by_row():
    """Three classes and four values; the last value occurs in no sample."""
    targets, hospital = torch.tensor([0, 2, 1, 2, 0]), torch.tensor([2, 0, UNKNOWN, 1, UNKNOWN])
    data = BiasedDataset(
        inputs=torch.zeros(5, 1), targets=targets, attributes={"hospital": hospital},
        bias="hospital", values={"hospital": ("a", "b", "c", "d")},
    )  # fmt: skip
    assert data.num_groups == 12
    assert data.groups.dtype == torch.int64
    assert data.groups.tolist() == [2, 8, UNKNOWN, 9, UNKNOWN]
    known = data.groups[data.groups != UNKNOWN]
    counts = torch.bincount(known, minlength=data.num_groups)
    assert torch.equal(counts.view(3, 4), data.counts())
    assert data.subset(torch.tensor([3, 0])).groups.tolist() == [9, 2]


def test_without_a_bias_there_are_no_groups(data):
    without = data.with_bias(None)
    assert without.num_groups == 0
    assert without.groups.tolist() == [UNKNOWN] * len(data)
    assert without.counts().shape == (3, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": torch.zeros(3, dtype=torch.int64)}, "48 inputs but 3 targets"),
        ({"targets": torch.zeros(48)}, "targets must be 48 int64 numbers"),
        ({"targets": torch.full((48,), 7)}, r"targets must lie in 0..2, got 7..7"),
        ({"targets": torch.full((48,), -1)}, r"targets must lie in 0..2"),
        ({"attributes": {"color": torch.full((48,), -2)}}, "color must lie in -1"),
        ({"attributes": {}}, "no attribute 'color'"),
        ({"inputs": torch.zeros(48, 3, 4, 4)}, r"uint8 clips or \(n, D\) floating-point"),
        ({"inputs": np.zeros((48, 3, 4, 4), np.uint8)}, r"inputs must .* ndarray; torch.as_tensor"),
        ({"targets": [0] * 48}, r"targets must be a torch tensor, got list"),
        (
            {"inputs": torch.zeros(48, 5, 5, 3, dtype=torch.uint8)},
            r"look like \(n, H, W, C\); .* inputs.permute\(0, 3, 1, 2\)",
        ),
        ({"bias": "colour"}, r"did you mean 'color'"),
    ],
)
def test_columns_that_do_not_fit_are_refused(data, change, message):
    with pytest.raises(CrossbiasError, match=message):
        dataclasses.replace(data, **change)


def test_clusters_stay_with_their_samples(data):
    cluster = torch.arange(len(data)) // 4
    clustered = dataclasses.replace(data, cluster=cluster)
    keep = torch.tensor([9, 1, 5])
    assert clustered.subset(keep).cluster.tolist() == [2, 0, 1]
    assert clustered.hash == data.hash  # they say which samples belong together, not what they are
    with pytest.raises(CrossbiasError, match=r"cluster must be \d+ int64 numbers, got \(3,\)"):
        dataclasses.replace(data, cluster=cluster[:3])
