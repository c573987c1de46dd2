"""Shuffles that stay in their stratum, exact p-values, Holm's correction."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossbias.audit.folds import fitting_folds, random_folds, stratified_folds, usable
from crossbias.audit.permutation import holm, p_value, shuffled_clusters, shuffled_within


def test_labels_never_leave_their_stratum_and_every_order_is_equally_likely():
    labels, strata = torch.tensor([0, 1, 2, 7, 8]), torch.tensor([1, 1, 1, 0, 0])
    generator = torch.Generator().manual_seed(0)
    copies = shuffled_within(labels, strata, count=6000, generator=generator)
    assert (copies[:, :3].sort(1).values == torch.tensor([0, 1, 2])).all()
    assert (copies[:, 3:].sort(1).values == torch.tensor([7, 8])).all()
    orders = copies[:, 0] * 10 + copies[:, 1]
    counts = torch.tensor([int((orders == order).sum()) for order in (1, 2, 10, 12, 20, 21)])
    assert counts.sum() == 6000
    assert ((counts - 1000).abs() < 130).all()  # four and a half standard deviations


def test_p_values_count_the_observed_order_and_equals():
    null = torch.tensor([0.1, 0.2, 0.3, 0.4])
    assert p_value(0.5, null) == 1 / 5
    assert p_value(0.4, null) == 2 / 5
    assert p_value(0.0, null) == 1


def slow_holm(p_values):
    """Every corrected value is the largest of the steps up to its own."""
    count = len(p_values)
    ordered = sorted(p_values)
    steps = [min(1.0, (count - rank) * p) for rank, p in enumerate(ordered)]
    return [max(steps[: ordered.index(p) + 1]) for p in p_values]


@given(st.lists(st.floats(0, 1), max_size=8, unique=True))
@settings(deadline=None)
def test_holm_equals_its_definition(p_values):
    assert holm(p_values) == pytest.approx(slow_holm(p_values))


def test_folds_spread_every_class_evenly():
    labels = torch.tensor([0] * 17 + [1] * 7 + [3] * 5)
    fold = stratified_folds(labels, folds=5, generator=torch.Generator().manual_seed(0))
    for label in (0, 1, 3):
        sizes = torch.bincount(fold[labels == label], minlength=5)
        assert sizes.max() - sizes.min() <= 1
    assert fitting_folds(labels) == 5
    assert fitting_folds(torch.tensor([0] * 9 + [2] * 3)) == 3


@given(st.lists(st.integers(0, 12), min_size=5, max_size=60), st.integers(0, 3))
@settings(deadline=None)
def test_no_cluster_is_in_two_folds(clusters, seed):
    cluster = torch.tensor(clusters)
    labels = torch.arange(len(clusters)) % 3
    draw = torch.Generator().manual_seed(seed)
    made = [
        random_folds(len(labels), folds=5, generator=draw, cluster=cluster),
        stratified_folds(labels, folds=3, generator=draw, cluster=cluster),
    ]
    for fold in made:
        assert len(set(zip(clusters, fold.tolist(), strict=True))) == len(set(clusters))
    sizes = torch.bincount(made[0], minlength=5)
    assert sizes.max() - sizes.min() <= torch.bincount(cluster).max()


def test_a_rare_class_is_spread_over_the_folds_by_its_clusters():
    cluster = torch.arange(30).repeat_interleave(4)
    labels = torch.zeros(120, dtype=torch.int64)
    labels[0:20:4] = 1  # one image of each of five patients
    fold = stratified_folds(labels, folds=5, generator=torch.Generator(), cluster=cluster)
    assert sorted(fold[labels == 1].tolist()) == [0, 1, 2, 3, 4]
    assert fitting_folds(labels, cluster) == 5
    labels[20], labels[:20] = 2, 0
    labels[:3] = 1  # three samples of one cluster
    assert usable(labels)[labels == 1].all()
    assert not usable(labels, cluster)[labels > 0].any()


def test_only_clusters_of_one_label_and_stratum_exchange_labels():
    cluster = torch.tensor([4, 4, 4, 9, 9, 2, 2, 7, 7])
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 1, 0, 1])
    strata = torch.tensor([0, 0, 0, 0, 0, 1, 1, 0, 0])
    draw = torch.Generator().manual_seed(0)
    copies = shuffled_clusters(labels, strata, cluster, count=400, generator=draw)
    assert (copies[:, 5:7] == 1).all()  # alone in its stratum
    assert (copies[:, 7:].sum(1) == 1).all()  # two labels: they stay in the cluster
    first = copies[:, 0]
    assert (copies[:, :3] == first[:, None]).all()
    assert (copies[:, 3:5] == 1 - first[:, None]).all()
    assert 150 < int(first.sum()) < 250
    assert 150 < int(copies[:, 7].sum()) < 250
