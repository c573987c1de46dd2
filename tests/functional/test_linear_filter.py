"""Many ridge regressions at once equal scikit-learn's one by one; the score equals its count."""

import pytest
import torch
from sklearn.linear_model import Ridge

from crossbias.functional import predictability, ridge_classifiers
from crossbias.functional.linear_filter import _ENTRIES


def draw(samples: int = 40, width: int = 5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(samples, width, generator=generator, dtype=torch.float64)
    features[:, -1] = features[:, 0]  # a copy
    target = (features[:, 0] + 0.5 * torch.randn(samples, generator=generator) > 0).long()
    target[: samples // 4] = 2
    fitted = torch.rand(6, samples, generator=generator) < 0.5
    return features, target, fitted


def by_sklearn(features, target, fitted, ridge: float) -> list[Ridge]:
    answers = torch.nn.functional.one_hot(target, 3).numpy()
    return [
        Ridge(alpha=ridge * int(rows.sum())).fit(features[rows].numpy(), answers[rows.numpy()])
        for rows in fitted
    ]


@pytest.mark.parametrize("entries", [_ENTRIES, 50])
def test_all_classifiers_are_those_of_scikit_learn(entries, monkeypatch):
    """Also where memory holds a few rows at a time."""
    monkeypatch.setattr("crossbias.functional.linear_filter._ENTRIES", entries)
    features, target, fitted = draw()
    found = ridge_classifiers(features, target, fitted, classes=3, ridge=0.01)
    for ours, theirs in zip(found, by_sklearn(features, target, fitted, 0.01), strict=True):
        torch.testing.assert_close(ours[:-1].T, torch.from_numpy(theirs.coef_))
        torch.testing.assert_close(ours[-1], torch.from_numpy(theirs.intercept_))


@pytest.mark.parametrize("width", [5, 60])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_so_are_those_that_are_solved_alone(width, offset, monkeypatch):
    """With fewer features than samples, or more."""
    monkeypatch.setattr("crossbias.functional.linear_filter._NARROW", 4)
    features, target, fitted = draw(width=width)
    features += offset
    found = ridge_classifiers(features, target, fitted, classes=3, ridge=0.01)
    for ours, theirs in zip(found, by_sklearn(features, target, fitted, 0.01), strict=True):
        torch.testing.assert_close(ours[:-1].T, torch.from_numpy(theirs.coef_))
        torch.testing.assert_close(ours[-1], torch.from_numpy(theirs.intercept_))


@pytest.mark.parametrize("entries", [_ENTRIES, 50])
def test_predictability_counts_right_answers_about_held_out_samples(entries, monkeypatch):
    monkeypatch.setattr("crossbias.functional.linear_filter._ENTRIES", entries)
    features, target, fitted = draw()
    fitted[:, 7] = True  # never held out
    right, asked = [0] * 40, [0] * 40
    for rows, model in zip(fitted, by_sklearn(features, target, fitted, 0.01), strict=True):
        answers = model.predict(features.numpy()).argmax(1)
        for row in range(40):
            if not rows[row]:
                asked[row] += 1
                right[row] += int(answers[row] == target[row])
    expected = [one / of if of else 0.0 for one, of in zip(right, asked, strict=True)]
    found = predictability(features, target, fitted, classes=3, ridge=0.01)
    assert found.tolist() == pytest.approx(expected)
    assert found[7] == 0


def test_a_class_that_a_part_misses_and_constant_features_give_finite_scores():
    features, target = torch.zeros(6, 2), torch.tensor([0, 0, 0, 0, 1, 1])
    fitted = torch.tensor([[True, True, False, False, False, False]])
    found = predictability(features, target, fitted, classes=3, ridge=1e-3)
    assert found.tolist() == [0, 0, 1, 1, 0, 0]


@pytest.mark.parametrize("width", [5, 200])
def test_a_classifier_without_samples_is_refused(width):
    features, target, fitted = draw(width=width)
    fitted[2] = False
    with pytest.raises(ValueError, match="must be fitted to at least one sample"):
        ridge_classifiers(features, target, fitted, classes=3, ridge=0.01)
