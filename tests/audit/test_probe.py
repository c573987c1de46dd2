"""The probe against a plain implementation, and its null."""

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import balanced_accuracy_score

from crossbias.audit.folds import FOLDS, random_folds
from crossbias.audit.permutation import shuffled_clusters, shuffled_within
from crossbias.audit.probe import probe, repeats_for, standardized
from crossbias.audit.probed_cues import detectable_score
from crossbias.seeds import generator_for


def some_data(samples=120, dimensions=6, classes=3, *, signal=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (samples,), generator=generator)
    features = torch.randn(samples, dimensions, generator=generator)
    features[:, 0] += signal * labels
    features[:, 1] += signal * (labels == 1)
    return features, labels


def divisions(samples, seed, cluster=None):
    """The divisions into folds that a probe of this seed makes."""
    draw = generator_for(seed, "folds")
    return [
        random_folds(samples, folds=FOLDS, generator=draw, cluster=cluster)
        for _ in range(repeats_for(samples))
    ]


def mean_of_twins(features, labels, seed, cluster=None):
    folds = divisions(len(labels), seed, cluster)
    return np.mean([twin(features, labels, fold) for fold in folds], axis=0)


def twin(features, labels, fold):
    """Fisher's discriminant with the same shrinkage, a fold and a matrix inverse at a time."""
    x, y = standardized(features).double().numpy(), labels.numpy()
    answers, answers_with_priors = np.empty_like(y), np.empty_like(y)
    for number in range(int(fold.max()) + 1):
        test = (fold == number).numpy()
        train, known = x[~test], y[~test]
        n, d = train.shape
        within = np.zeros((d, d))
        means, priors = [], []
        for label in np.unique(y):
            own = train[known == label]
            means.append(own.mean(0))
            priors.append(len(own) / n)
            within += (own - own.mean(0)).T @ (own - own.mean(0)) / n
        shrinkage = d / (d + n)
        inverse = np.linalg.inv((1 - shrinkage) * within + shrinkage * np.eye(d))
        means = np.array(means)
        scores = x[test] @ inverse @ means.T - np.einsum("kd,de,ke->k", means, inverse, means) / 2
        answers[test] = scores.argmax(1)
        answers_with_priors[test] = (scores + np.log(priors)).argmax(1)
    return balanced_accuracy_score(y, answers), (answers_with_priors == y).mean()


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("signal", [0.0, 1.0, 20.0])
def test_the_probe_equals_the_discriminant_written_out(classes, signal):
    features, labels = some_data(classes=classes, signal=signal)
    found = probe(features, labels, permutations=1, seed=4)
    balanced, accuracy = mean_of_twins(features, labels, 4)
    assert found.balanced_accuracy == pytest.approx(balanced)
    assert found.accuracy == pytest.approx(accuracy)


def test_with_many_samples_it_is_scikit_learns_discriminant():
    """Shrinkage fades; two large classes of equal size, so that priors are equal too."""
    features, _ = some_data(4000, signal=0)
    labels = torch.arange(4000) % 2
    features[:, 2] += 1.5 * labels
    found = probe(features, labels, permutations=1, seed=0)
    x, y, right = features.numpy(), labels.numpy(), []
    for fold in divisions(4000, 0):
        for number in range(5):
            train, test = (fold != number).numpy(), (fold == number).numpy()
            model = LinearDiscriminantAnalysis().fit(x[train], y[train])
            right.append((model.predict(x[test]) == y[test]).sum())
    assert found.balanced_accuracy == pytest.approx(5 * np.mean(right) / 4000, abs=0.001)


def test_the_null_is_what_probing_shuffled_labels_gives():
    """Each null value equals the twin's on the same shuffle."""
    features, labels = some_data(60)
    found = probe(features, labels, permutations=5, seed=2)
    draw = generator_for(2, "shuffles")
    copies = shuffled_within(labels, 0 * labels, count=5, generator=draw)
    expected = [mean_of_twins(features, copy, 2)[0] for copy in copies]
    assert found.null.tolist() == pytest.approx(expected)


def test_clusters_stay_together_in_folds_and_shuffles():
    """Clusters of unequal size, whose labels make classes of another size in every shuffle."""
    cluster = torch.arange(20).repeat_interleave(torch.arange(20) % 5 + 1)
    features, _ = some_data(60)
    labels = (cluster * 7) % 3
    found = probe(features, labels, permutations=5, seed=2, cluster=cluster)
    draw = generator_for(2, "shuffles")
    copies = shuffled_clusters(labels, 0 * labels, cluster, count=5, generator=draw)
    assert len({tuple(torch.bincount(copy).tolist()) for copy in copies}) > 1
    orders = [labels, *copies]
    balanced = [mean_of_twins(features, order, 2, cluster)[0] for order in orders]
    assert [found.balanced_accuracy, *found.null.tolist()] == pytest.approx(balanced)


def test_features_that_tell_nothing_have_evenly_spread_p_values():
    p_values = []
    for seed in range(150):
        features, labels = some_data(40, signal=0, classes=2, seed=seed)
        p_values.append(probe(features, labels, permutations=99, seed=seed).p)
    p = torch.tensor(p_values)
    for level in (0.05, 0.2, 0.5):
        expected, deviation = 150 * level, (150 * level * (1 - level)) ** 0.5
        assert (p <= level).sum() <= expected + 3 * deviation
    assert (p <= 0.5).sum() >= 75 - 4 * 6.1


def test_features_that_only_carry_the_given_label_are_not_said_to_carry_more():
    """Bias and target go along; features know the target alone."""
    generator = torch.Generator().manual_seed(0)
    target = torch.arange(400) % 2
    bias = torch.where(torch.rand(400, generator=generator) < 0.9, target, 1 - target)
    features = torch.randn(400, 4, generator=generator)
    features[:, 0] += 5 * target
    plain = probe(features, bias, permutations=199, seed=0)
    beyond = probe(features, bias, permutations=199, seed=0, given=target)
    assert plain.p <= 0.01
    assert beyond.p > 0.05
    assert beyond.control == pytest.approx(beyond.balanced_accuracy, abs=0.03)
    assert plain.control == pytest.approx(0.5, abs=0.03)


def test_constant_columns_are_ignored():
    features, _ = some_data()
    padded = torch.cat([features, torch.full((len(features), 1), 0.1)], 1)
    assert (standardized(padded)[:, -1] == 0).all()
    assert standardized(padded)[:, 0].std(correction=0) == pytest.approx(1, abs=1e-5)


def test_labels_may_have_gaps():
    features, labels = some_data()
    renamed = torch.tensor([0, 5, 9])[labels]
    one, other = (probe(features, y, permutations=1, seed=0) for y in (labels, renamed))
    assert one.accuracy == pytest.approx(other.accuracy, abs=0.05)


def test_a_detectable_score_is_found_with_a_probability_of_80_percent_or_more():
    """A cue whose mean score is at the limit, tested beside four others."""
    generator = torch.Generator().manual_seed(0)
    labels, found, scores, limits = torch.arange(100) % 2, 0, [], []
    for seed in range(50):
        features = torch.randn(100, 16, generator=generator)
        features[:, 0] += 1.3 * labels
        probed = probe(features, labels, permutations=199, seed=seed)
        found += probed.p <= 0.05 / 5
        scores.append(probed.balanced_accuracy)
        limits.append(detectable_score(probed.null, tests=5))
    assert np.mean(scores) == pytest.approx(np.mean(limits), abs=0.015)
    assert found / 50 >= 0.63  # 80%, less three standard errors
