"""Accuracies and protocols against loops, scikit-learn and predictors of known score."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score

from crossbias.errors import CrossbiasError
from crossbias.types import UNKNOWN
from crossbias.verify import (
    MIN_SAMPLES,
    NO_SAMPLES,
    WEIGHTS,
    Cells,
    Metrics,
    Predictions,
    accuracies,
    biased,
    count,
    majority,
    mean_of_dependent,
    mean_of_groups,
    minority,
    populated,
    protocols,
    small_group_warning,
    small_groups,
    texture_unbiased,
    wilson,
)

CLASSES, BIASES = ("cat", "dog", "hen"), ("lawn", "sofa", "sea", "snow")
ALIGNED = torch.eye(3, 4, dtype=torch.bool)
Sample = tuple[int, int, int]
samples = st.lists(
    st.tuples(st.integers(0, 2), st.integers(UNKNOWN, 3), st.integers(0, 2)), max_size=60
)


def cells_of(rows: list[Sample], alignment: torch.Tensor = ALIGNED) -> Cells:
    targets, biases, answers = torch.tensor(rows, dtype=torch.int64).reshape(-1, 3).T
    names = {"classes": CLASSES, "values": BIASES}
    return Cells.from_answers(targets, biases, answers, alignment=alignment, **names)


def rate(rows: list[Sample]) -> float:
    return sum(t == a for t, _, a in rows) / len(rows) if rows else math.nan


def mean_rate(groups: list[list[Sample]]) -> float:
    rates = [rate(group) for group in groups if group]
    return sum(rates) / len(rates) if rates else math.nan


def slow(rows: list[Sample]) -> dict[str, float]:
    """Every accuracy by filtering lists, as its definition reads."""
    group = {(t, b): [r for r in rows if r[:2] == (t, b)] for t in range(3) for b in range(4)}
    return {
        "overall": rate(rows),
        "aligned": rate([row for row in rows if row[0] == row[1]]),
        "conflicting": rate([row for row in rows if row[0] != row[1] != UNKNOWN]),
        "unbiased": mean_rate(list(group.values())),
        "class_averaged": mean_rate([[row for row in rows if row[0] == t] for t in range(3)]),
        "biased": mean_rate([group[t, t] for t in range(3)]),
    }


FAST = {name: getattr(accuracies, name, None) or getattr(protocols, name) for name in WEIGHTS}


@given(samples)
def test_every_accuracy_equals_its_definition(rows: list[Sample]) -> None:
    cells = cells_of(rows)
    for name, expected in slow(rows).items():
        assert FAST[name](cells).value == pytest.approx(expected, nan_ok=True), name
    assert majority(cells) == accuracies.aligned(cells)
    assert minority(cells) == accuracies.conflicting(cells)


@given(samples)
def test_an_accuracy_is_its_weighted_mean_of_the_cells(rows: list[Sample]) -> None:
    cells = cells_of(rows)
    rates = cells.correct / cells.total.clamp(min=1)
    for name, weights in WEIGHTS.items():
        value, total = FAST[name](cells).value, float(weights(cells).sum())
        assert total == pytest.approx(0.0 if math.isnan(value) else 1.0)
        assert float((weights(cells) * rates).sum()) == pytest.approx(0 if not total else value)


@given(samples)
def test_cells_of_answers_counts_and_metrics_agree(rows: list[Sample]) -> None:
    targets, biases, answers = torch.tensor(rows, dtype=torch.int64).reshape(-1, 3).T
    counts = count(targets, biases, answers, num_classes=3, num_biases=4)
    counted = Cells.from_counts(counts, alignment=ALIGNED, classes=CLASSES, biases=BIASES)
    of_answers = cells_of(rows)
    through_metrics = Metrics.from_json(Metrics.from_cells(counted, ALIGNED).to_json()).cells
    for cells in (counted, through_metrics):
        for part in ("target", "bias", "correct", "total", "aligned"):
            assert getattr(cells, part).equal(getattr(of_answers, part)), part
    place = of_answers.place_of(targets, biases)
    assert of_answers.target[place].equal(targets)
    assert of_answers.bias[place].equal(biases)


@pytest.mark.parametrize("absent", [False, True])
def test_class_averaged_equals_scikit_learn_on_skewed_classes(absent: bool) -> None:
    """Waterbirds of IE: 4600 landbirds and 1194 waterbirds; answering landbird is worth a half."""
    draw = np.random.default_rng(0)
    targets = draw.choice(3, 500, p=[0.75, 0.25, 0] if absent else [0.7, 0.25, 0.05])
    answers = np.where(draw.random(500) < 0.7, targets, 0)
    rows = [(int(t), 0, int(a)) for t, a in zip(targets, answers, strict=True)]
    assert accuracies.class_averaged(cells_of(rows)).value == pytest.approx(
        balanced_accuracy_score(targets, answers)
    )
    land = [(0, 0, 0)] * 4600 + [(1, 0, 0)] * 1194
    assert accuracies.class_averaged(cells_of(land)).value == 0.5
    assert accuracies.overall(cells_of(land)).value == pytest.approx(0.794, abs=1e-3)


def test_null_data_of_99_to_1_classes_does_not_look_like_skill() -> None:
    """Answers that know nothing: the class average is chance, whatever the majority is."""
    draw = np.random.default_rng(1)
    targets, biases = (draw.random(20_000) < 0.01).astype(int), draw.integers(0, 4, 20_000)
    rows = [(int(t), int(b), 0) for t, b in zip(targets, biases, strict=True)]
    cells = cells_of(rows)
    assert accuracies.overall(cells).value > 0.98
    assert accuracies.class_averaged(cells).value == 0.5
    assert accuracies.unbiased(cells).value == 0.5


def test_the_worst_group_is_the_first_of_the_lowest() -> None:
    rows = [(0, 0, 0)] * 5 + [(1, 3, 0)] * 2 + [(1, 1, 2)] + [(2, 2, 2)]
    worst = accuracies.worst_group(cells_of(rows))
    assert worst[:2] == ("dog", "sofa")
    assert (worst.accuracy.value, worst.accuracy.n) == (0.0, 1)
    assert accuracies.worst_group(cells_of([(0, UNKNOWN, 0)])).accuracy is NO_SAMPLES


def test_rebias_counts_cells_by_population_as_paper_and_release_do() -> None:
    """Cells of 9, 10 and 11 samples with accuracies 0, 1/2 and 1: > 10 keeps one, >= 10 two."""
    rows = [(0, 0, 1)] * 9 + [(1, 1, 1)] * 5 + [(1, 1, 0)] * 5 + [(2, 2, 2)] * 11
    cells = cells_of(rows)
    assert texture_unbiased([cells], variant="paper").value == 1.0
    assert texture_unbiased([cells], variant="released").value == 0.75
    assert populated(cells, at_least=1).value == biased(cells).value == 0.5
    assert populated(cells, at_least=12) is NO_SAMPLES
    assert texture_unbiased([cells, cells_of(rows[:9])]) is NO_SAMPLES
    with pytest.raises(CrossbiasError, match="at least one"):
        texture_unbiased([])


def test_rebias_averages_over_clusterings_of_the_same_samples() -> None:
    first = cells_of([(0, 0, 0)] * 20 + [(1, 1, 0)] * 20)
    second = cells_of([(0, 0, 0)] * 20 + [(1, 0, 0)] * 15 + [(1, 2, 0)] * 5)
    parts = [populated(cells, at_least=11) for cells in (first, second)]
    mean = texture_unbiased([first, second])
    assert mean.value == pytest.approx((0.5 + 0.5) / 2)
    assert (mean.low, mean.high) == pytest.approx(
        (sum(p.low for p in parts) / 2, sum(p.high for p in parts) / 2)
    )
    assert mean.n == 35


def test_the_mean_of_dependent_estimates_covers_whether_they_depend_or_not() -> None:
    draw, covered = np.random.default_rng(0), {"same": 0, "independent": 0}
    for _ in range(500):
        once = [wilson(int(draw.binomial(60, 0.8)), 60)] * 5
        apart = [wilson(int(right), 60) for right in draw.binomial(60, 0.8, 5)]
        for name, parts in (("same", once), ("independent", apart)):
            mean = mean_of_dependent(parts)
            covered[name] += mean.low <= 0.8 <= mean.high
            assert mean.n == 300
    assert 0.92 * 500 <= covered["same"] <= covered["independent"]
    assert mean_of_dependent([NO_SAMPLES]) is NO_SAMPLES


def test_a_group_is_small_where_its_interval_can_span_half_of_everything() -> None:
    widest = {n: max(wilson(c, n).high - wilson(c, n).low for c in range(n + 1)) for n in (11, 12)}
    assert widest[MIN_SAMPLES - 1] > 0.5 >= widest[MIN_SAMPLES]
    groups = accuracies.by_group(cells_of([(0, 0, 0)] * 12 + [(1, 2, 0)] * 11 + [(2, 3, 2)]))
    assert [group[:2] for group in small_groups(groups)] == [("dog", "sea"), ("hen", "snow")]
    warning = small_group_warning(groups)
    assert warning is not None
    assert "2 of 3 groups have fewer than 12 samples" in warning
    assert "(hen, snow) with 1 sample" in warning
    assert small_group_warning(accuracies.by_group(cells_of([(0, 0, 0)] * 12))) is None


@pytest.mark.parametrize("row", [(3, 0, 0), (-1, 0, 0), (0, 4, 0), (0, -2, 0), (0, 0, 3)])
def test_numbers_out_of_range_are_refused(row: Sample) -> None:
    with pytest.raises(ValueError, match="must lie in"):
        cells_of([row])


def test_cells_that_do_not_fit_their_names_are_refused() -> None:
    with pytest.raises(ValueError, match="does not fit 3 classes and 4 bias values"):
        cells_of([(0, 0, 0)], alignment=torch.zeros(3, 3, dtype=torch.bool))


def test_the_interval_of_a_mean_keeps_its_coverage_where_the_plain_bootstrap_loses_it() -> None:
    """Why means have a formula: a cell that is all right has nothing left to resample."""
    draw, size, truth = np.random.default_rng(0), 30, 0.99
    covered = {"formula": 0, "bootstrap": 0}
    for right in draw.binomial(size, truth, (300, 6)):
        resampled = draw.binomial(size, right / size, (400, 6)).mean(1) / size
        low, high = np.quantile(resampled, [0.025, 0.975])
        mean = mean_of_groups(right.tolist(), [size] * 6)
        covered["formula"] += mean.low <= truth <= mean.high
        covered["bootstrap"] += low <= truth <= high
    assert covered["formula"] >= 0.93 * 300
    assert covered["bootstrap"] <= 0.90 * 300


def test_a_thousand_classes_need_no_table_of_who_was_taken_for_whom() -> None:
    """1000 classes and 1000 bias values: the full table would be 8 GB."""
    draw = np.random.default_rng(0)
    targets, biases = (torch.from_numpy(draw.integers(0, 1000, 5000)) for _ in range(2))
    probabilities = torch.rand(5000, 1000, generator=torch.Generator().manual_seed(0))
    predictions = Predictions(
        index=torch.arange(5000), target=targets, probabilities=probabilities,
        attributes={"texture": biases, "color": biases % 3},
    )  # fmt: skip
    names = [str(number) for number in range(1000)]
    texture = predictions.cells(
        bias="texture", alignment=torch.eye(1000) > 0, classes=names, values=names
    )
    right = (predictions.answers == targets).float().mean()
    assert accuracies.overall(texture).value == pytest.approx(float(right))
    assert accuracies.unbiased(texture).n == 5000
    metrics = predictions.metrics(
        bias="color", alignment=torch.zeros(1000, 3) > 0, classes=names, values=names[:3]
    )
    assert len(metrics.groups) == len(torch.unique(3 * targets + biases % 3))
    assert metrics.calibration is not None
    assert metrics.equalized_odds is None  # the largest of three million rates would be noise
