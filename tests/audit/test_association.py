"""Association of two columns, against scipy and scikit-learn, and by its properties."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from crossbias.audit import association
from crossbias.audit.association import (
    AIM,
    cramers_v,
    detectable_v,
    mutual_information,
    strength_of,
)

tables = st.integers(2, 4).flatmap(
    lambda rows: st.integers(2, 4).flatmap(
        lambda columns: st.lists(
            st.lists(st.integers(1, 30), min_size=columns, max_size=columns),
            min_size=rows,
            max_size=rows,
        )
    )
)


def bergsma(counts: np.ndarray) -> float:
    """The correction written out from Bergsma (2013), with scipy's chi-squared."""
    n, (r, k) = counts.sum(), counts.shape
    phi = chi2_contingency(counts, correction=False).statistic / n
    phi = max(0.0, phi - (k - 1) * (r - 1) / (n - 1))
    r, k = r - (r - 1) ** 2 / (n - 1), k - (k - 1) ** 2 / (n - 1)
    return float(np.sqrt(phi / min(k - 1, r - 1)))


@given(tables)
@settings(max_examples=50, deadline=None)
def test_cramers_v_is_bergsmas(rows):
    counts = np.array(rows, dtype=np.float64)
    assert cramers_v(counts) == pytest.approx(min(1.0, bergsma(counts)), abs=1e-12)


@given(tables)
@settings(max_examples=50, deadline=None)
def test_mutual_information_is_scikit_learns(rows):
    counts = np.array(rows)
    first, second = (np.repeat(axis.ravel(), counts.ravel()) for axis in np.indices(counts.shape))
    expected = normalized_mutual_info_score(first, second)
    assert mutual_information(counts.astype(np.float64)) == pytest.approx(expected, abs=1e-9)


@given(tables)
@settings(max_examples=25, deadline=None)
def test_order_and_empty_rows_change_nothing(rows):
    counts = np.array(rows, dtype=np.float64)
    padded = np.pad(counts[::-1, ::-1], ((0, 1), (1, 0)))
    for measure in (cramers_v, mutual_information):
        assert measure(padded) == pytest.approx(float(measure(counts)), abs=1e-12)
        assert measure(counts.T) == pytest.approx(float(measure(counts)), abs=1e-12)


@pytest.mark.parametrize("sizes", [(50, 50), (990, 10), (5, 3, 2)])
def test_a_bijection_has_association_one_whatever_the_balance(sizes):
    counts = np.diag(np.array(sizes, dtype=np.float64))
    assert cramers_v(counts) == pytest.approx(1.0, abs=1e-9)
    assert mutual_information(counts) == pytest.approx(1.0)


def test_one_filled_row_has_association_zero():
    counts = np.array([[4.0, 5.0], [0.0, 0.0]])
    assert cramers_v(counts) == mutual_information(counts) == 0


def test_the_p_value_agrees_with_the_chi_squared_distribution():
    random = np.random.default_rng(0)
    targets = torch.from_numpy(random.integers(0, 2, 400))
    values = torch.from_numpy(random.integers(0, 3, 400))
    values[:40] = targets[:40]
    found = strength_of(targets, values, shape=(2, 3), permutations=1999, seed=0)
    counts = torch.bincount(targets * 3 + values, minlength=6).view(2, 3).numpy()
    expected = chi2_contingency(counts, correction=False).pvalue
    assert found.p == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 1999))


def test_the_bootstrap_interval_holds_the_true_value_about_as_often_as_it_says():
    """True association: 2 x 2 with three quarters aligned, whose V is one half."""
    random = np.random.default_rng(1)
    held = 0
    for seed in range(100):
        targets = random.integers(0, 2, 300)
        values = np.where(random.random(300) < 0.75, targets, 1 - targets)
        found = strength_of(
            torch.from_numpy(targets), torch.from_numpy(values), shape=(2, 2),
            permutations=199, seed=seed,
        )  # fmt: skip
        held += found.cramers_v.low <= 0.5 <= found.cramers_v.high
    assert 88 <= held <= 99


def test_independent_columns_of_a_99_to_1_class_are_not_associated():
    """The null data on which an accuracy-based alarm is fooled by the majority."""
    random = np.random.default_rng(2)
    low = 0
    for seed in range(50):
        targets = torch.from_numpy((random.random(1000) < 0.01).astype(np.int64))
        values = torch.from_numpy(random.integers(0, 2, 1000))
        found = strength_of(targets, values, shape=(2, 2), permutations=99, seed=seed)
        low += found.p <= 0.05
    assert low <= 7  # of 50; more has a probability below .2% at a rate of 5%


def test_mutual_information_is_adjusted_for_chance():
    """Ten classes and forty values: plain information looks strong where there is none."""
    random = np.random.default_rng(0)
    targets = random.integers(0, 10, 400)
    for values in (random.integers(0, 40, 400), (targets + 10 * random.integers(0, 4, 400)) % 40):
        found = strength_of(
            torch.from_numpy(targets), torch.from_numpy(values), shape=(10, 40),
            permutations=99, seed=0,
        )  # fmt: skip
        expected = max(0.0, adjusted_mutual_info_score(targets, values))
        assert found.mutual_information == pytest.approx(expected, abs=0.005)
    assert normalized_mutual_info_score(targets, random.integers(0, 40, 400)) > 0.1


def test_what_is_detectable_is_found_with_more_than_80_percent_by_the_formula():
    """V of detectable_v, by the chi-squared test at a twentieth over five tests."""
    random = np.random.default_rng(0)
    v = detectable_v((2, 2), independent=200, tests=5)
    joint = np.array([1 + v, 1 - v, 1 - v, 1 + v]) / 4
    tables = random.multinomial(200, joint, size=2000).reshape(-1, 2, 2)
    p = [chi2_contingency(table, correction=False).pvalue for table in tables]
    assert np.mean(np.array(p) <= 0.01) == pytest.approx(AIM, abs=0.04)


@pytest.mark.parametrize("varying", ["nothing", "values", "targets"])
def test_attributes_are_tested_by_cluster(varying):
    """Thirty patients of eight images without any rule; alarms, and what the images are worth."""
    random = np.random.default_rng(0)
    patient = np.repeat(np.arange(30), 8)
    alarms = {"clusters": 0, "images": 0}
    for seed in range(60):
        columns = {name: random.integers(0, 2, 30)[patient] for name in ("targets", "values")}
        if varying in columns:  # half of the images by themselves
            own = random.integers(0, 2, 240)
            columns[varying] = np.where(random.random(240) < 0.5, own, columns[varying])
        given = {name: torch.from_numpy(column) for name, column in columns.items()}
        given |= {"shape": (2, 2), "permutations": 99, "seed": seed}
        found = strength_of(**given, cluster=torch.from_numpy(patient))
        alarms["clusters"] += found.p <= 0.05
        alarms["images"] += strength_of(**given).p <= 0.05
        assert found.detectable > strength_of(**given).detectable
    assert alarms["clusters"] <= 9  # of 60; more has a probability below .1% at a rate of 5%
    assert alarms["images"] >= 12


def test_tables_that_are_drawn_are_distributed_like_those_of_shuffles():
    random = np.random.default_rng(0)
    targets, values = (torch.from_numpy(random.integers(0, 3, 40)) for _ in range(2))
    counts = association.count_table(targets, values, (3, 3))
    drawn = association._null_tables(counts, 4000, random)
    assert (drawn.sum(2) == counts.sum(1)).all()
    assert (drawn.sum(1) == counts.sum(0)).all()
    assert (drawn >= 0).all()
    pairs = association._shuffled(targets, values, None, 4000, random)
    shuffled = np.stack([association.count_table(*pair, (3, 3)) for pair in pairs])
    # Means and deviations of 4,000 tables have standard errors of about .02.
    assert drawn.mean(0) == pytest.approx(shuffled.mean(0), abs=0.12)
    assert drawn.std(0) == pytest.approx(shuffled.std(0), abs=0.1)


def test_no_column_of_a_large_data_set_is_shuffled(monkeypatch):
    monkeypatch.setattr(association, "MOST_SHUFFLED", 50)
    monkeypatch.setattr(association, "_shuffled", lambda *_: pytest.fail("shuffled"))
    targets = torch.arange(60) % 2
    found = strength_of(targets, targets, shape=(2, 2), permutations=99, seed=0)
    assert found.p == 0.01


@pytest.mark.parametrize("clustered", [False, True])
def test_tables_are_held_in_parts_without_changing_a_number(monkeypatch, clustered):
    draw = torch.Generator().manual_seed(0)
    targets, values = (torch.randint(4, (60,), generator=draw) for _ in range(2))
    options = {"shape": (4, 4), "permutations": 29, "seed": 1}
    if clustered:
        options["cluster"] = torch.arange(60) // 3
    whole = strength_of(targets, values, **options)
    monkeypatch.setattr(sys.modules[strength_of.__module__], "_MOST_NUMBERS", 7 * 16)
    assert strength_of(targets, values, **options) == whole
