"""CrossbiasClassifier has scikit-learn's manners, and its numbers."""

import warnings

import numpy as np
import pytest
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import crossbias
from crossbias import CrossbiasClassifier, CrossbiasError
from crossbias.methods import GroupDRO

NOT_APPLICABLE = {
    "check_array_api_input": "it needs SCIPY_ARRAY_API in the environment before numpy is imported",
}


@pytest.fixture(scope="module")
def toy() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two classes; the first feature is the bias, right for nine of ten; the second is weaker."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 600)
    bias = np.where(random.random(600) < 0.9, y, 1 - y)
    features = np.stack([2 * bias - 1, 2 * y - 1], 1) * [2.0, 1.0]
    return features + random.normal(scale=0.7, size=features.shape), y, bias


def quick(**more) -> CrossbiasClassifier:
    return CrossbiasClassifier(**{"epochs": 4, "batch_size": 32, "random_state": 0} | more)


def test_scikit_learns_own_checks_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # checks provoke scikit-learn's own
        found = check_estimator(quick(epochs=3), on_fail=None)
    failed = {check["check_name"]: check["exception"] for check in found
              if check["status"] != "passed"}  # fmt: skip
    assert failed.keys() == NOT_APPLICABLE.keys()
    assert len(found) > 50


def test_equal_random_states_give_equal_bits(toy):
    features, y, _ = toy
    one, other = (quick(random_state=3).fit(features, y) for _ in range(2))
    assert all(map(torch.equal, *(m.network_.state_dict().values() for m in (one, other))))
    generator = np.random.RandomState(3)
    drawn = quick(random_state=generator).fit(features, y)
    np.testing.assert_array_equal(drawn.predict_proba(features), one.predict_proba(features))
    again = quick(random_state=generator).fit(features, y)
    assert not np.array_equal(again.predict_proba(features), one.predict_proba(features))


def test_a_linear_network_is_logistic_regression():
    features, y = load_breast_cancer(return_X_y=True)
    features = StandardScaler().fit_transform(features[:, :4])
    own = CrossbiasClassifier(
        network="linear", epochs=200, batch_size=569, lr=0.1, weight_decay=0.05, random_state=0,
        settings={"schedule": "cosine"},
    ).fit(features, y)  # fmt: skip
    # A decay w of the mean loss is C = 1 / (w n). Rows v and -v of the softmax share the penalty
    # of their difference, which doubles C. The intercepts are decayed like a column of ones.
    ones = np.c_[features, np.ones(len(y))]
    other = LogisticRegression(C=2 / (0.05 * len(y)), fit_intercept=False, tol=1e-8).fit(ones, y)
    np.testing.assert_allclose(own.predict_proba(features), other.predict_proba(ones), atol=1e-3)


def test_names_of_classes_and_of_bias_values(toy):
    features, y, bias = toy
    names, hospitals = np.array(["ill", "well"])[y], np.array(["north", "south"])[bias].tolist()
    hospitals[0] = None
    found = quick(method="group-dro").fit(features, names, bias=hospitals)
    assert found.classes_.tolist() == ["ill", "well"]
    assert set(found.predict(features)) <= {"ill", "well"}
    assert found.n_features_in_ == 2


def test_a_method_with_bias_labels_helps_where_the_bias_misleads(toy):
    features, y, bias = toy
    conflicting = y != bias

    def accuracy(method) -> float:
        found = quick(method=method, epochs=8).fit(features, y, bias=bias)
        return (found.predict(features) == y)[conflicting].mean()

    assert accuracy("group-balanced") > accuracy("erm") + 0.1
    assert accuracy(GroupDRO(step_size=0.1)) > accuracy("erm") + 0.1


def test_searches_and_pipelines_route_the_bias(toy):
    features, y, bias = toy
    with config_context(enable_metadata_routing=True):
        classifier = quick(method="group-dro").set_fit_request(bias=True)
        model = make_pipeline(StandardScaler(), classifier)
        grid = {
            "crossbiasclassifier__method": ["erm", "group-dro"],
            "crossbiasclassifier__network": ["linear"],
        }
        search = GridSearchCV(model, grid, cv=StratifiedKFold(2), error_score="raise")
        search.fit(features, y, bias=bias)
        assert search.best_params_["crossbiasclassifier__network"] == "linear"
        assert len(search.cv_results_["params"]) == 2
        # Without the bias, group-dro would have been refused.
        with pytest.raises(CrossbiasError, match="needs bias labels"):
            search.fit(features, y)
        patients = np.arange(len(y)) // 2
        apart = GridSearchCV(model, grid, cv=GroupKFold(2), error_score="raise")
        apart.fit(features, y, bias=bias, groups=patients)  # groups go to the splitter
        assert apart.best_estimator_.score(features, y) > 0.5


def test_parameters_are_those_of_the_constructor():
    found = quick(method=GroupDRO(step_size=0.1), settings={"optimizer": "sgd"})
    copied = clone(found)
    assert copied.get_params()["method"] == found.method
    assert copied.set_params(epochs=2).epochs == 2
    assert copied._config().optimizer == "sgd"


def test_what_cannot_be_trained_is_refused_in_one_line(toy):
    features, y, bias = toy
    for wrong, message in (
        (lambda: quick().fit(features, y, bias=bias[:5]), "bias has 5 values, but X has 600"),
        (lambda: quick(method="ned").fit(features, y), "no method 'ned'"),
        (lambda: quick(network="convnet").fit(features, y), "takes images"),
        (lambda: quick(settings={"lrr": 1}).fit(features, y), "no parameter 'lrr'"),
        (lambda: quick().fit(features, y * 0), "y has one class"),
        (lambda: quick(method="dfr").fit(features, y, bias=bias), "validation"),
    ):
        with pytest.raises(CrossbiasError, match=message):
            wrong()


def test_without_scikit_learn_the_message_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CrossbiasError, match=r"pip install 'crossbias\[sklearn\]'"):
        crossbias.__getattr__("CrossbiasClassifier")
