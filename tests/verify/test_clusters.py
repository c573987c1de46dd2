"""Intervals over clusters: known answers, and coverage by simulation."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, t

from crossbias.errors import CrossbiasError
from crossbias.verify import Metrics, verify, wilson
from crossbias.verify.clusters import (
    clustered_accuracy,
    design_effects,
    distinct,
    effective_samples,
    share_of,
    typical_size,
)


def images_of(
    draw: np.random.Generator, patients: int, each: int, accuracy: float, correlation: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Right answers and patients; a patient's images are easy or hard together."""
    patient = np.repeat(np.arange(patients), draw.poisson(each - 1, patients) + 1)
    own, noise = draw.normal(size=patients)[patient], draw.normal(size=len(patient))
    difficulty = math.sqrt(correlation) * own + math.sqrt(1 - correlation) * noise
    return torch.from_numpy(difficulty < norm.ppf(accuracy)), torch.from_numpy(patient)


@pytest.mark.parametrize(
    ("patients", "each", "accuracy", "correlation"),
    [(100, 5, 0.8, 0.5), (40, 5, 0.9, 0.8), (20, 10, 0.8, 0.5), (100, 5, 0.8, 0.0)],
)
def test_the_interval_covers_the_truth_where_wilsons_does_not(
    patients: int, each: int, accuracy: float, correlation: float
) -> None:
    draw, trials, held, alone = np.random.default_rng(0), 200, 0, 0
    for _ in range(trials):
        right, patient = images_of(draw, patients, each, accuracy, correlation)
        found = clustered_accuracy(right, torch.zeros_like(patient), torch.ones(1), patient)
        held += found.low <= accuracy <= found.high
        plain = wilson(int(right.sum()), len(right))
        assert found.value == pytest.approx(plain.value)
        alone += plain.low <= accuracy <= plain.high
    assert held >= 0.9 * trials  # 95%, and three standard errors of 200 trials
    assert alone < 0.85 * trials or not correlation


def test_copies_of_a_sample_add_nothing() -> None:
    """Every image five times: as many samples as patients, up to Student's t."""
    draw = np.random.default_rng(0)
    once = torch.from_numpy(draw.random(400) < 0.8)
    right, patient = once.repeat_interleave(5), torch.arange(400).repeat_interleave(5)
    assert effective_samples(right, patient) == pytest.approx(400, rel=0.02)
    assert effective_samples(once, torch.arange(400)) == pytest.approx(400, rel=0.02)


def test_patients_without_an_error_count_once() -> None:
    right, patient = torch.ones(100) > 0, torch.arange(100) // 5
    found = clustered_accuracy(right, torch.zeros_like(patient), torch.ones(1), patient)
    few = wilson(20, 20)
    assert found.value == found.high == 1.0
    assert found.low == pytest.approx(few.low, abs=0.03)
    one = clustered_accuracy(right, torch.zeros_like(patient), torch.ones(1), 0 * patient)
    assert one.low < 0.05  # a single patient says nothing


def test_verify_takes_a_column_of_clusters() -> None:
    draw = np.random.default_rng(0)
    right, patient = images_of(draw, 60, 5, 0.8, 0.9)
    target = draw.integers(0, 2, 60)[patient]
    prediction = np.where(right, target, 1 - target)
    site = draw.integers(0, 2, 60)[patient]
    given = {
        "target": target,
        "prediction": prediction,
        "attributes": {"site": site},
        "alignment": [[True, False], [False, True]],
    }
    given["prediction"] = np.where(prediction[:, None] == [0, 1], 0.8, 0.2)
    plain, found = verify(**given), verify(**given, cluster=[f"p{number}" for number in patient])
    assert found.clusters == len(set(patient.tolist()))
    assert found.effective_samples < len(target) / 2
    pairs = [(plain.overall, found.overall), (plain.aligned, found.aligned),
             (plain.conflicting, found.conflicting), (plain.unbiased, found.unbiased),
             (plain.class_averaged, found.class_averaged),
             *zip(plain.per_class, found.per_class, strict=True),
             *((a.accuracy, b.accuracy) for a, b in zip(plain.groups, found.groups, strict=True)),
             (plain.worst_group.accuracy, found.worst_group.accuracy),
             (plain.equalized_odds, found.equalized_odds),
             (plain.demographic_parity, found.demographic_parity),
             (plain.calibration, found.calibration)]  # fmt: skip
    for one, other in pairs:
        assert (one.value, one.n) == pytest.approx((other.value, other.n))
        assert other.high - other.low > 1.1 * (one.high - one.low)
    assert Metrics.from_json(found.to_json()) == found
    assert plain.clusters is plain.effective_samples is None


def test_a_column_of_clusters_that_does_not_fit_is_refused() -> None:
    with pytest.raises(CrossbiasError, match="cluster has 1 samples, but target has 2"):
        verify(target=[0, 1], prediction=[0, 1], cluster=["a"])
    with pytest.raises(CrossbiasError, match="cluster has no value at index 1"):
        verify(target=[0, 1], prediction=[0, 1], cluster=["a", None])


@given(st.lists(st.tuples(*(st.integers(0, most) for most in (1, 3, 5))), min_size=1, max_size=40))
def test_many_groups_at_once_are_as_each_by_itself(rows: list[tuple[int, int, int]]) -> None:
    answers, biases, cluster = torch.tensor(rows).T
    metrics = Metrics.from_answers(
        torch.zeros_like(answers), biases, answers, alignment=None, classes=("a", "b"),
        values=("0", "1", "2", "3"), cluster=cluster,
    )  # fmt: skip
    for group in metrics.groups:
        chosen = biases == int(group.bias)
        alone = share_of(answers[chosen] == 0, cluster[chosen])
        assert group.accuracy == pytest.approx(alone, abs=1e-12)


@pytest.mark.parametrize(("accuracy", "correlation"), [(0.8, 0.5), (0.95, 0.9), (0.85, 0.6)])
def test_the_interval_covers_the_truth_where_few_patients_have_most_images(
    accuracy: float, correlation: float
) -> None:
    """Six of 150 patients have 40 images each, the others one."""
    draw, trials, held = np.random.default_rng(0), 200, 0
    patient = np.repeat(np.arange(150), np.where(np.arange(150) % 25 == 0, 40, 1))
    cluster = torch.from_numpy(patient)
    for _ in range(trials):
        own, noise = draw.normal(size=150)[patient], draw.normal(size=len(patient))
        difficulty = math.sqrt(correlation) * own + math.sqrt(1 - correlation) * noise
        right = torch.from_numpy(difficulty < norm.ppf(accuracy))
        found = clustered_accuracy(right, torch.zeros_like(cluster), torch.ones(1), cluster)
        held += found.low <= accuracy <= found.high
    assert held >= 0.9 * trials


def test_the_typical_size_is_that_of_the_cluster_of_a_sample() -> None:
    assert typical_size(torch.tensor([5, 5, 5])) == 5
    assert typical_size(torch.tensor([1, 1, 8])) == (1 + 1 + 64) / 10


def test_the_effect_on_answers_is_not_that_on_the_accuracy() -> None:
    """Each of 200 patients gets one answer five times; errors are scattered over the images."""
    draw = np.random.default_rng(0)
    patient = torch.arange(200).repeat_interleave(5)
    answers = torch.from_numpy(draw.integers(0, 2, 200))[patient]
    right = torch.from_numpy((draw.random(1000) < 0.8).astype(np.int64))
    nothing = torch.zeros_like(patient)
    assert design_effects(answers, nothing, 1, patient).item() == pytest.approx(5, rel=0.05)
    assert design_effects(right, nothing, 1, patient).item() == pytest.approx(1, abs=0.25)
    assert design_effects(answers, nothing - 1, 1, patient).tolist() == [1]  # unknown: no sample


@pytest.mark.parametrize("weighted", [False, True])
def test_effects_on_several_answers_equal_a_loop(weighted: bool) -> None:
    draw = np.random.default_rng(1)
    patient, part = draw.integers(0, 30, 300), draw.integers(0, 2, 300)
    answers = (patient + draw.integers(0, 2, 300)) % 3
    weight = draw.uniform(0.5, 2, 300) if weighted else np.ones(300)
    columns = (torch.from_numpy(each) for each in (answers, part))
    found = design_effects(
        *columns, 2, torch.from_numpy(patient), torch.from_numpy(weight) if weighted else None
    )
    for number in (0, 1):
        rows = part == number
        mine, shares = weight[rows], np.eye(3)[answers[rows]]
        mean = np.average(shares, axis=0, weights=mine)
        off = mine[:, None] * (shares - mean)
        alone = (off**2).sum()
        patients = [patient[rows] == each for each in np.unique(patient[rows])]
        variance = sum(
            (off[of].sum(0) ** 2).sum() / (1 - mine[of].sum() / mine.sum()) for of in patients
        )
        size = sum(of.sum() ** 2 for of in patients) / rows.sum()
        extra = size * (off**2).sum(1).max() / 2
        effect = (variance + size * extra) / (alone + extra)
        kish = mine.sum() ** 2 / (mine**2).sum()
        smooth = (mean * kish + 0.5) / (kish + 1.5)
        seen = (1 - (smooth**2).sum()) * mine.sum() ** 2 / alone
        independent = min(kish, seen) if weighted else rows.sum()
        few = (t.ppf(0.975, rows.sum() / size - 1) / norm.ppf(0.975)) ** 2
        assert found[number].item() == pytest.approx(rows.sum() / independent * effect * few)


@pytest.mark.parametrize("largest", [0, 5, 500, 10**12])
@pytest.mark.parametrize("least", [0, -3])
def test_distinct_numbers_are_those_of_a_sort(largest, least):
    drawn = torch.randint(least, largest + 1, (300,), generator=torch.Generator().manual_seed(0))
    expected = torch.unique(drawn, return_inverse=True)
    for found, wanted in zip(distinct(drawn), expected, strict=True):
        assert torch.equal(found, wanted)
    assert [len(each) for each in distinct(drawn[:0])] == [0, 0]
