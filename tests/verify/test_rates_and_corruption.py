"""EnD's rates by source and ImageNet-C's mean accuracy, against scikit-learn and by hand."""

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, recall_score

from crossbias.errors import CrossbiasError
from crossbias.types import UNKNOWN
from crossbias.verify import (
    NO_SAMPLES,
    Cells,
    Predictions,
    mean_corruption_accuracy,
    mean_of_groups,
    mean_over_corrupted_splits,
    rates_by_source,
    wilson,
)

SOURCES = ("CDSS", "SLG", "none")


def x_rays(follow: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two hospitals of CORDA's sizes; a model that follows the source as often as asked."""
    draw = np.random.default_rng(0)
    targets = np.repeat([1, 0, 1, 0], [297, 150, 129, 322])
    sources = np.repeat([0, 0, 1, 1], [297, 150, 129, 322])
    answers = np.where(draw.random(len(targets)) < follow, sources == 0, targets).astype(int)
    return targets, sources, answers


def cells_of(targets: np.ndarray, sources: np.ndarray, answers: np.ndarray) -> Cells:
    columns = (torch.from_numpy(each) for each in (targets, sources, answers))
    names = {"classes": ("negative", "positive"), "values": SOURCES}
    return Cells.from_answers(*columns, alignment=torch.zeros(2, 3) > 0, **names)


@pytest.mark.parametrize("positive", [0, 1])
def test_rates_equal_scikit_learn(positive: int) -> None:
    targets, sources, answers = x_rays(0.3)
    name = ("negative", "positive")[positive]
    found = rates_by_source(cells_of(targets, sources, answers), positive=name)
    assert [rates.source for rates in found] == list(SOURCES)
    for source, rates in enumerate(found[:2]):
        true, answered = targets[sources == source], answers[sources == source]
        assert rates.true_positive.value == pytest.approx(
            recall_score(true, answered, pos_label=positive)
        )
        assert rates.true_negative.value == pytest.approx(
            recall_score(true, answered, pos_label=1 - positive)
        )
        assert rates.balanced.value == pytest.approx(balanced_accuracy_score(true, answered))
        assert rates.balanced.n == len(true)


def test_a_model_that_reads_the_source_has_opposite_rates_in_both() -> None:
    first, second, empty = rates_by_source(cells_of(*x_rays(1.0)), positive="positive")
    assert first[1:3] == (wilson(297, 297), wilson(0, 150))
    assert second[1:3] == (wilson(0, 129), wilson(322, 322))
    assert first.balanced == mean_of_groups([297, 0], [297, 150])
    assert empty[1:] == (NO_SAMPLES, NO_SAMPLES, NO_SAMPLES)


def test_a_source_with_one_class_has_no_balanced_accuracy() -> None:
    cells = cells_of(np.array([1]), np.array([0]), np.array([1]))
    only = rates_by_source(cells, positive="positive")[0]
    assert only.true_positive == wilson(1, 1)
    assert only.balanced is NO_SAMPLES


def test_rates_need_two_classes() -> None:
    none = torch.zeros(0, dtype=torch.int64)
    names = {"classes": ("a", "b", "c"), "values": ()}
    three = Cells.from_answers(none, none, none, alignment=torch.zeros(3, 0) > 0, **names)
    with pytest.raises(CrossbiasError, match=r"need two classes, got the classes a, b, c"):
        rates_by_source(three, positive="a")


def test_the_positive_class_is_named() -> None:
    message = "no class 'ill'; the classes are: negative, positive"
    with pytest.raises(CrossbiasError, match=message):
        rates_by_source(cells_of(*x_rays(0.5)), positive="ill")


def corrupted() -> Predictions:
    """Noise at severities 1 and 2, right 9 and 7 times of 10; fog at 1, right 4 of 20; 5 clean."""
    kinds = [0] * 20 + [1] * 20 + [UNKNOWN] * 5
    levels = [0] * 10 + [1] * 10 + [0] * 20 + [UNKNOWN] * 5
    right = [1] * 9 + [0] + [1] * 7 + [0] * 3 + [1] * 4 + [0] * 16 + [0] * 5
    return Predictions(
        index=torch.arange(45),
        target=torch.ones(45, dtype=torch.int64),
        probabilities=torch.eye(2)[torch.tensor(right)],
        attributes={"corruption": torch.tensor(kinds), "severity": torch.tensor(levels)},
    )


def test_mean_corruption_accuracy_is_over_severities_then_corruptions() -> None:
    mean = mean_corruption_accuracy(corrupted())
    assert mean.value == pytest.approx(((0.9 + 0.7) / 2 + 0.2) / 2)
    assert mean.n == 40  # the clean ones are not counted
    lows = (wilson(9, 10).low, wilson(7, 10).low, wilson(4, 20).low)
    assert mean.low == pytest.approx(((lows[0] + lows[1]) / 2 + lows[2]) / 2)


def test_mean_corruption_accuracy_needs_its_attributes() -> None:
    with pytest.raises(CrossbiasError, match="no attribute 'level'"):
        mean_corruption_accuracy(corrupted(), severity="level")


def test_corrupted_splits_give_the_mean_of_the_same_samples_in_one_split() -> None:
    splits = {
        "test": wilson(5, 5),
        "test-c-gaussian_noise-1": wilson(9, 10),
        "test-c-gaussian_noise-2": wilson(7, 10),
        "test-c-fog-1": wilson(4, 20),
        "test-color-1": wilson(0, 5),
    }
    assert mean_over_corrupted_splits(splits) == pytest.approx(
        mean_corruption_accuracy(corrupted())
    )
    assert mean_over_corrupted_splits({"test": wilson(1, 2)}) is NO_SAMPLES
