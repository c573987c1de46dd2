"""Gains in numbers about a positive class: known answers, and slow twins of their variance."""

import numpy as np
import pytest
import torch
from sklearn.metrics import brier_score_loss, precision_score, recall_score, roc_auc_score

from crossbias.verify import Calls, detection_difference, paired_difference
from crossbias.verify.detection_gains import GAINS, _influences

NAMES = sorted(GAINS)


def drawn(runs: int = 1, n: int = 90, seed: int = 0) -> tuple[Calls, Calls, torch.Tensor]:
    """Two methods that share what is hard, and a third of positive samples."""
    draw = np.random.default_rng(seed)
    positive = np.arange(n) % 3 == 0
    logit = draw.normal(size=n) + 0.6 * draw.normal(size=(2, runs, n)) + 1.4 * (positive - 0.5)
    logit[1] += 0.3 * (positive - 0.5)
    calls = [Calls(each > 0, each.sigmoid()) for each in torch.from_numpy(logit)]
    return calls[0], calls[1], torch.from_numpy(positive)


def number(name: str, calls: Calls, positive: torch.Tensor, run: int) -> float:
    """The number of one training, by scikit-learn."""
    truth, called, scores = (
        each.numpy() for each in (positive, calls.called[run], calls.scores[run])
    )
    return {
        "sensitivity": lambda: recall_score(truth, called),
        "specificity": lambda: recall_score(~truth, ~called),
        "ppv": lambda: precision_score(truth, called),
        "npv": lambda: precision_score(~truth, ~called),
        "auc": lambda: roc_auc_score(truth, scores),
        "brier": lambda: brier_score_loss(truth, scores),
    }[name]()  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("runs", [1, 3])
def test_a_gain_is_the_difference_of_what_scikit_learn_computes(name: str, runs: int) -> None:
    first, second, positive = drawn(runs)
    means = [
        np.mean([number(name, each, positive, run) for run in range(runs)])
        for each in (first, second)
    ]
    found = detection_difference(name, first, second, positive)
    assert found.value == pytest.approx(means[1] - means[0], abs=1e-12)
    assert found.low < found.value < found.high
    back = detection_difference(name, second, first, positive)
    assert (back.value, back.low, back.high) == pytest.approx(
        (-found.value, -found.high, -found.low)
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_width_is_that_of_the_paired_bootstrap(name: str) -> None:
    """Both classes are drawn anew, and each drawn sample brings the answers of both methods."""
    first, second, positive = drawn(n=600)
    draw, gains = np.random.default_rng(1), []
    rows = [np.flatnonzero(positive), np.flatnonzero(~positive)]
    for _ in range(150):
        chosen = np.concatenate([draw.choice(part, len(part)) for part in rows])
        parts = [Calls(each.called[:, chosen], each.scores[:, chosen]) for each in (first, second)]
        drawn_ = positive[torch.from_numpy(chosen)]
        gains.append(number(name, parts[1], drawn_, 0) - number(name, parts[0], drawn_, 0))
    found = detection_difference(name, first, second, positive)
    # 150 draws tell a standard deviation to within 6%; this is three times that.
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * np.std(gains), rel=0.18)


def test_the_variance_of_the_auc_is_that_of_delong() -> None:
    """Their equation, pair by pair: Var = s10 / positives + s01 / negatives."""
    first, second, positive = drawn(n=1200)
    placed = []
    for calls in (first, second):
        scores = calls.scores[0]
        pairs = (scores[positive][:, None] > scores[~positive]).double()
        placed.append((pairs.mean(1), pairs.mean(0)))
    variance = sum(float((two - one).var()) / len(one) for one, two in zip(*placed, strict=True))
    found = detection_difference("auc", first, second, positive)
    # The interval also counts half a sample for each method, which is little of 1,200.
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * variance**0.5, rel=0.02)


def test_influences_are_the_derivative_of_the_predictive_value() -> None:
    """The number moves by a sample's influence if the sample counts a little more in its class."""
    calls, _, positive = drawn(n=60)
    called, step = calls.called.double(), 1e-6
    share = float(positive.double().mean())

    def value(weights: torch.Tensor) -> float:
        rates = [float((called[0] * weights)[rows].sum() / weights[rows].sum())
                 for rows in (positive, ~positive)]  # fmt: skip
        return rates[0] * share / (rates[0] * share + rates[1] * (1 - share))

    base = value(torch.ones(60).double())
    found = _influences(called, positive)[0]
    for sample in range(0, 60, 7):
        weights = torch.ones(60).double()
        weights[sample] += step
        own = int((positive == positive[sample]).sum())
        assert own * (value(weights) - base) / step == pytest.approx(float(found[sample]), abs=1e-4)


def test_sensitivity_is_compared_on_positive_samples_alone() -> None:
    first, second, positive = drawn(runs=2)
    twin = paired_difference(
        first.called[:, positive], second.called[:, positive],
        cell=torch.zeros(int(positive.sum())).long(), weights=torch.ones(1),
    )  # fmt: skip
    assert detection_difference("sensitivity", first, second, positive) == pytest.approx(twin)


def test_copies_of_samples_in_clusters_say_no_more() -> None:
    first, second, positive = drawn(n=120)
    cluster = torch.arange(120).repeat(4)
    four = [Calls(each.called.repeat(1, 4), each.scores.repeat(1, 4)) for each in (first, second)]
    for name in NAMES:
        alone = detection_difference(name, first, second, positive)
        kept = detection_difference(name, *four, positive.repeat(4), cluster=cluster)
        assert kept.value == pytest.approx(alone.value)
        width = [found.high - found.low for found in (alone, kept)]
        assert width[1] == pytest.approx(width[0], rel=0.1), name


def test_without_a_class_or_without_the_answer_there_is_no_gain() -> None:
    first, second, positive = drawn()
    assert not detection_difference("auc", first, second, positive | True).n
    never = Calls(first.called & False, first.scores)
    assert not detection_difference("ppv", never, second, positive).n
    assert detection_difference("npv", never, second, positive).n == 90
