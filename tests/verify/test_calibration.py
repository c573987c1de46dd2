"""Calibration error against scikit-learn's bins and a loop; coverage by simulation."""

import numpy as np
import pytest
import torch
from sklearn.calibration import calibration_curve
from torch import Tensor

from crossbias.types import UNKNOWN
from crossbias.verify import NO_SAMPLES, calibration_by_bias, calibration_error

BINS = 15


def answers_of(
    size: int, draw: np.random.Generator, overconfident: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Two classes; the model is right less often than it says, by so much."""
    confidence = 0.5 + 0.5 * draw.beta(3, 1.2, size)
    right = draw.random(size) < confidence - overconfident
    probabilities = np.stack([confidence, 1 - confidence], axis=1).astype(np.float32)
    return torch.from_numpy(probabilities), torch.from_numpy(np.where(right, 0, 1))


@pytest.mark.parametrize("seed", range(5))
def test_calibration_error_equals_scikit_learn_and_a_loop(seed: int) -> None:
    draw = np.random.default_rng(seed)
    probabilities = torch.from_numpy(draw.dirichlet([0.4] * 5, 400).astype(np.float32))
    targets = torch.from_numpy(draw.integers(0, 5, 400))
    confidence = probabilities.max(1).values.double().numpy()
    right = (probabilities.argmax(1) == targets).double().numpy()
    accuracy, mean = calibration_curve(right, confidence, n_bins=BINS, strategy="uniform")
    share = np.histogram(confidence, BINS, range=(0, 1))[0] / 400
    reference = (share[share > 0] * np.abs(accuracy - mean)).sum()
    loop = 0.0
    for bin_ in range(BINS):
        rows = (confidence > bin_ / BINS) & (confidence <= (bin_ + 1) / BINS)
        if rows.any():
            loop += rows.mean() * abs(right[rows].mean() - confidence[rows].mean())
    found = calibration_error(probabilities, targets)
    assert found.value == pytest.approx(reference)
    assert found.value == pytest.approx(loop)
    assert found.low <= found.value <= found.high
    assert found.n == 400


def test_known_answers() -> None:
    sure = torch.eye(2)[torch.zeros(40, dtype=torch.int64)]
    assert calibration_error(sure, torch.zeros(40, dtype=torch.int64)).value == 0.0
    assert calibration_error(sure, torch.ones(40, dtype=torch.int64)).value == 1.0
    assert calibration_error(sure, torch.arange(40) % 2).value == 0.5
    halves = torch.full((40, 2), 0.5)
    assert calibration_error(halves, torch.arange(40) % 2).value == 0.0


def test_few_samples_say_nothing_and_none_are_none() -> None:
    few = calibration_error(torch.eye(2), torch.tensor([0, 0]))
    assert (few.value, few.low, few.high, few.n) == (0.5, 0.0, 1.0, 2)
    assert calibration_error(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64)) is NO_SAMPLES


def test_each_bias_value_is_judged_by_itself() -> None:
    probabilities, targets = answers_of(300, np.random.default_rng(0))
    biases = torch.arange(300) % 4 - 1  # UNKNOWN, 0, 1, 2
    errors = calibration_by_bias(probabilities, targets, biases, 4)
    for value, error in enumerate(errors[:3]):
        rows = biases == value
        assert error == calibration_error(probabilities[rows], targets[rows])
    assert errors[3] is NO_SAMPLES
    assert sum(error.n for error in errors) == int((biases != UNKNOWN).sum())


def test_true_probabilities_are_calibrated_although_a_class_is_rare() -> None:
    """One sample in ten is positive, and the model knows how likely each is to be."""
    draw = np.random.default_rng(0)
    positive = draw.beta(0.5, 4.5, 4000)
    probabilities = torch.from_numpy(np.stack([1 - positive, positive], 1))
    targets = torch.from_numpy((draw.random(4000) < positive).astype(np.int64))
    biases = torch.from_numpy(draw.integers(0, 2, 4000))
    assert all(error.low == 0 for error in calibration_by_bias(probabilities, targets, biases, 2))
    rare = targets == 1
    assert calibration_error(probabilities[rare], targets[rare]).low > 0.2  # why not by class


def test_the_same_answers_give_the_same_interval_and_no_global_state_moves() -> None:
    probabilities, targets = answers_of(100, np.random.default_rng(0))
    before = np.random.get_state()[1].copy()
    assert calibration_error(probabilities, targets) == calibration_error(probabilities, targets)
    assert (np.random.get_state()[1] == before).all()


@pytest.mark.parametrize("overconfident", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("size", [20, 200])
def test_the_interval_covers_the_truth_also_of_a_calibrated_model(
    size: int, overconfident: float
) -> None:
    """The estimate alone never is 0; a plain bootstrap's interval would nearly never hold it."""
    draw, trials, covered = np.random.default_rng(0), 100, 0
    for _ in range(trials):
        error = calibration_error(*answers_of(size, draw, overconfident))
        covered += error.low <= overconfident <= error.high
    assert covered >= 0.91 * trials
