"""Fairness gaps against fairlearn and a loop; coverage by simulation, also where there is none."""

import numpy as np
import pytest
import torch
from fairlearn.metrics import demographic_parity_difference, equalized_odds_difference
from torch import Tensor

from crossbias.types import UNKNOWN
from crossbias.verify import NO_SAMPLES, count, demographic_parity_gap, equalized_odds_gap
from crossbias.verify.clusters import design_effects


def counted(targets: np.ndarray, biases: np.ndarray, answers: np.ndarray, classes: int) -> Tensor:
    columns = (torch.from_numpy(each) for each in (targets, biases, answers))
    return count(*columns, num_classes=classes, num_biases=4)


def random_split(
    seed: int, classes: int, absent: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Answers that lean on the bias; with ``absent``, bias 1 and the group (0, 0) are missing."""
    draw = np.random.default_rng(seed)
    targets, biases = draw.integers(0, classes, 600), draw.choice(4, 600, p=[0.1, 0.2, 0.4, 0.3])
    leaning = np.where(draw.random(600) < 0.3, biases % classes, targets)
    answers = np.where(draw.random(600) < 0.2, draw.integers(0, classes, 600), leaning)
    keep = (biases != 1) & ~((targets == 0) & (biases == 0)) if absent else biases >= 0
    return targets[keep], biases[keep], answers[keep]


@pytest.mark.parametrize("seed", range(4))
def test_gaps_of_two_classes_equal_fairlearn(seed: int) -> None:
    targets, biases, answers = random_split(seed, 2, absent=False)
    counts = counted(targets, biases, answers, 2)
    parity = demographic_parity_difference(targets, answers, sensitive_features=biases)
    odds = equalized_odds_difference(targets, answers, sensitive_features=biases)
    assert demographic_parity_gap(counts).value == pytest.approx(parity)
    assert equalized_odds_gap(counts).value == pytest.approx(odds)


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_gaps_equal_a_loop_over_samples(classes: int, absent: bool) -> None:
    targets, biases, answers = random_split(7, classes, absent)
    parity, odds = [], []
    for answer in range(classes):
        shares = [(answers[biases == b] == answer).mean() for b in np.unique(biases)]
        parity.append(max(shares) - min(shares))
        for target in range(classes):
            groups = [answers[(biases == b) & (targets == target)] for b in np.unique(biases)]
            rates = [(group == answer).mean() for group in groups if len(group)]
            odds.append(max(rates) - min(rates))
    counts = counted(targets, biases, answers, classes)
    for gap, expected in (
        (demographic_parity_gap(counts), max(parity)),
        (equalized_odds_gap(counts), max(odds)),
    ):
        assert gap.value == pytest.approx(expected)
        assert 0 <= gap.low <= gap.value <= gap.high <= 1
        assert gap.n == len(targets)


def test_known_predictors() -> None:
    """Perfect answers have no equalized-odds gap; answers that are the bias have every gap."""
    targets, biases = np.repeat([0, 0, 1, 1], 50), np.tile(np.repeat([0, 1], 50), 2)
    perfect, follows = (counted(targets, biases, each, 2) for each in (targets, biases))
    assert equalized_odds_gap(perfect).value == demographic_parity_gap(perfect).value == 0.0
    assert equalized_odds_gap(follows).value == demographic_parity_gap(follows).value == 1.0
    skewed = counted(*(np.repeat([0, 1], 50),) * 3, 2)  # class and bias are the same
    assert demographic_parity_gap(skewed).value == 1.0
    assert equalized_odds_gap(skewed) is NO_SAMPLES  # no class has two bias values


def test_samples_of_unknown_bias_are_left_out() -> None:
    targets, biases, answers = random_split(1, 2, absent=False)
    extra = np.zeros(100, dtype=np.int64)
    more = counted(
        np.concatenate([targets, extra]),
        np.concatenate([biases, extra + UNKNOWN]),
        np.concatenate([answers, extra + 1]),
        2,
    )
    assert demographic_parity_gap(more) == demographic_parity_gap(
        counted(targets, biases, answers, 2)
    )


def test_groups_of_one_sample_say_nothing() -> None:
    one = counted(np.array([0, 0]), np.array([0, 1]), np.array([0, 1]), 2)
    gap = equalized_odds_gap(one)
    assert (gap.value, gap.low, gap.high) == (1.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("classes", "biases", "size", "gap"),
    [(2, 2, 100, 0.0), (2, 2, 100, 0.3), (2, 2, 20, 0.0), (5, 5, 40, 0.0)],
)
def test_the_interval_covers_the_truth_also_where_there_is_no_gap(
    classes: int, biases: int, size: int, gap: float
) -> None:
    """The estimate alone never is 0: of many rates, some differ by chance."""
    draw, trials, covered = np.random.default_rng(0), 80, 0
    accuracy = np.full((classes, biases), 0.6)
    accuracy[0, 0] += gap
    shares = np.repeat(((1 - accuracy) / (classes - 1))[:, :, None], classes, axis=2)
    shares[np.arange(classes), :, np.arange(classes)] = accuracy
    for _ in range(trials):
        counts = torch.zeros(classes, biases + 1, classes, dtype=torch.int64)
        counts[:, :-1] = torch.from_numpy(draw.multinomial(size, shares))
        found = equalized_odds_gap(counts)
        covered += found.low <= gap + 1e-9 and gap - 1e-9 <= found.high
    assert covered >= 0.9 * trials


def test_the_parity_gap_is_over_patients_where_the_answers_are() -> None:
    """Errors of a nearly perfect model are scattered, but its answers are the patients'."""
    draw, trials, held, alone = np.random.default_rng(0), 200, 0, 0
    patient = torch.arange(80).repeat_interleave(5)
    for _ in range(trials):
        target, value = (torch.from_numpy(draw.integers(0, 2, 80))[patient] for _ in range(2))
        wrong = torch.from_numpy(draw.random(400) < 0.03)
        answers = torch.where(wrong, 1 - target, target)
        counts = count(target, value, answers, num_classes=2, num_biases=2)
        effects = design_effects(answers, value, 2, patient)
        held += demographic_parity_gap(counts, effects=effects).low == 0
        alone += demographic_parity_gap(counts).low == 0
    assert held >= 0.9 * trials  # 95%, and three standard errors of 200 trials
    assert alone < 0.8 * trials
