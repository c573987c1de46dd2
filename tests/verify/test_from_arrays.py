"""``verify``: any model's answers, in whatever form, against fairlearn, sklearn and by hand."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fairlearn.metrics import (
    MetricFrame,
    demographic_parity_difference,
    equalized_odds_difference,
)
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from crossbias.errors import CrossbiasError
from crossbias.types import UNKNOWN
from crossbias.verify import Metrics, Predictions, verify, wilson

CLASSES, PLACES = ("cat", "dog"), ("lawn", "sofa")


def columns(seed: int = 0, samples: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Targets, places that mostly go along with them, and answers that follow the place a bit."""
    draw = np.random.default_rng(seed)
    target = draw.integers(0, 2, samples)
    place = np.where(draw.random(samples) < 0.8, target, 1 - target)
    answer = np.where(draw.random(samples) < 0.3, place, target)
    return target, place, answer


def named(numbers: np.ndarray, names: tuple[str, ...]) -> list[str]:
    return [names[number] for number in numbers]


@pytest.mark.parametrize("seed", range(3))
def test_groups_and_gaps_equal_fairlearn_and_sklearn(seed: int) -> None:
    target, place, answer = columns(seed)
    metrics = verify(
        target=named(target, CLASSES), prediction=named(answer, CLASSES),
        attributes={"place": named(place, PLACES)},
    )  # fmt: skip
    frame = MetricFrame(
        metrics=accuracy_score, y_true=target, y_pred=answer,
        sensitive_features={"target": target, "place": place},
    )  # fmt: skip
    for (row, column), accuracy in frame.by_group.items():
        assert metrics.by_group[row][column].value == pytest.approx(accuracy)
    assert (metrics.classes, metrics.biases) == (CLASSES, PLACES)
    assert metrics.overall.value == pytest.approx(accuracy_score(target, answer))
    assert metrics.class_averaged.value == pytest.approx(balanced_accuracy_score(target, answer))
    assert metrics.unbiased is not None
    assert metrics.unbiased.value == pytest.approx(frame.by_group.mean())
    assert metrics.worst_group is not None
    assert metrics.worst_group.accuracy.value == pytest.approx(frame.group_min())
    sensitive = {"sensitive_features": place}
    for ours, reference in (
        (metrics.demographic_parity, demographic_parity_difference),
        (metrics.equalized_odds, equalized_odds_difference),
    ):
        assert ours is not None
        assert ours.value == pytest.approx(reference(target, answer, **sensitive))


def test_every_form_of_the_same_columns_gives_the_same_metrics() -> None:
    target, place, answer = columns()
    forms = [list, torch.from_numpy, pd.Series, tuple, lambda c: c.astype(np.float32)]
    forms += [lambda c: list(torch.from_numpy(c)), lambda c: pd.Series(c, dtype="Int64")]
    found = [
        verify(target=form(target), prediction=form(answer), attributes={"place": form(place)})
        for form in forms
    ]
    assert all(metrics == found[0] for metrics in found)
    assert found[0].classes == found[0].biases == ("0", "1")
    table = pd.DataFrame({"place": named(place, PLACES)})
    names = verify(
        target=np.array(named(target, CLASSES)), prediction=answer, attributes=table,
        classes=CLASSES,
    )  # fmt: skip
    assert names.by_group == found[0].by_group
    assert names.biases == PLACES


def test_it_equals_the_metrics_of_stored_predictions() -> None:
    target, place, answer = map(torch.from_numpy, columns())
    probabilities = torch.softmax(3 * torch.eye(2)[answer] + torch.rand(len(answer), 2), 1)
    aligned = torch.eye(2, dtype=torch.bool)
    stored = Predictions(
        index=torch.arange(len(target)), target=target, probabilities=probabilities.double(),
        attributes={"place": place},
    )  # fmt: skip
    given = {"target": target, "prediction": probabilities, "attributes": {"place": place}}
    names = {"classes": ("0", "1"), "values": ("0", "1")}
    assert verify(**given, alignment=aligned) == stored.metrics(
        bias="place", alignment=aligned, **names
    )


def test_aligned_and_conflicting_by_hand() -> None:
    given: dict[str, Any] = {
        "target": ["cat", "cat", "cat", "dog", "dog", "dog"],
        "prediction": ["cat", "cat", "dog", "dog", "cat", "cat"],
        "attributes": {"place": ["sofa", "bed", "lawn", "lawn", "bed", None]},
    }
    metrics = verify(**given, alignment={"dog": "lawn", "cat": ["sofa", "bed"]})
    assert metrics.aligned == wilson(3, 3)
    assert metrics.conflicting == wilson(0, 2)
    assert metrics.overall == wilson(3, 6)
    assert metrics.biases == ("bed", "lawn", "sofa")
    assert metrics.aligned_groups == (("bed", "sofa"), ("lawn",))
    none = verify(**given, alignment={"dog": "lawn", "cat": []})
    assert (none.aligned, none.conflicting) == (wilson(1, 1), wilson(2, 4))


def test_a_table_may_have_columns_for_values_that_no_sample_has() -> None:
    given: dict[str, Any] = {"target": [0, 1, 1], "prediction": [0, 1, 0]}
    given["attributes"] = {"place": [0, 1, 0]}
    numbers = verify(**given, alignment=[[True, False, True], [False, True, False]])
    assert (numbers.aligned, numbers.conflicting) == (wilson(2, 2), wilson(0, 1))
    assert verify(**given, alignment={0: 0, 1: 1}) == numbers


def test_without_alignment_groups_are_reported_and_nothing_is_made_up() -> None:
    target, place, answer = columns()
    metrics = verify(target=target, prediction=answer, attributes={"place": place})
    assert metrics.aligned is metrics.conflicting is None
    assert metrics.aligned_groups == ()
    assert metrics.worst_group is not None
    assert set(metrics.summary()) == {"accuracy", "class_averaged", "unbiased", "worst_group"}
    text = json.dumps(metrics.to_json(), allow_nan=False)
    assert Metrics.from_json(json.loads(text)) == metrics
    assert metrics.cells.total.sum() == len(target)
    assert not metrics.cells.aligned.any()


def test_without_attributes_there_are_classes_only() -> None:
    metrics = verify(target=["a", "b", "b"], prediction=["a", "b", "a"])
    assert [accuracy.value for accuracy in metrics.per_class] == [1.0, 0.5]
    assert metrics.unbiased is metrics.worst_group is metrics.demographic_parity is None
    assert (metrics.groups, metrics.attributes) == ((), {})


def test_every_attribute_is_reported_and_each_as_if_alone() -> None:
    target, place, answer = columns()
    camera = np.arange(len(target)) % 3
    both = {"place": place, "camera": camera}
    metrics = verify(target=target, prediction=answer, attributes=both, bias="camera")
    alone = [
        verify(target=target, prediction=answer, attributes={name: both[name]}) for name in both
    ]
    assert metrics.biases == ("0", "1", "2")
    assert metrics.attributes == {"place": alone[0]}
    assert metrics.by_group == alone[1].by_group


def test_probabilities_give_calibration_and_plain_answers_do_not() -> None:
    """Four answers with a confidence of .8, three of them right: the error is .05."""
    rows = [[0.8, 0.2], [0.8, 0.2], [0.2, 0.8], [0.2, 0.8]]
    given: dict[str, Any] = {"target": ["cat", "cat", "dog", "cat"], "classes": ["cat", "dog"]}
    given["attributes"] = {"place": ["sofa"] * 4}
    for matrix in (rows, np.array(rows), torch.tensor(rows, dtype=torch.bfloat16)):
        metrics = verify(prediction=matrix, **given)
        assert metrics.overall == wilson(3, 4)
        assert metrics.calibration is not None
        assert metrics.calibration.value == pytest.approx(0.05, abs=2e-3)
        assert len(metrics.bias_calibration) == 1
    plain = verify(prediction=["cat", "cat", "dog", "dog"], **given)
    assert plain.calibration is None
    assert plain.bias_calibration == ()
    assert plain.groups == metrics.groups


@pytest.mark.parametrize(
    "place",
    [
        ["sofa", None, "lawn"], ["sofa", math.nan, "lawn"], ["sofa", "", "lawn"],
        np.array(["sofa", "", "lawn"]), pd.Series(["sofa", None, "lawn"]),
        pd.Series(["sofa", pd.NA, "lawn"], dtype="category"), [1, None, 0], [1.0, math.nan, 0.0],
        np.array([1.0, math.nan, 0.0]), torch.tensor([1, UNKNOWN, 0]),
        pd.Series([1, None, 0], dtype="Int64"),
    ],
)  # fmt: skip
def test_missing_values_are_in_no_group(place: Any) -> None:
    metrics = verify(target=[0, 0, 1], prediction=[0, 1, 1], attributes={"place": place})
    assert [accuracy.n for row in metrics.by_group for accuracy in row] == [0, 1, 1, 0]
    assert [group.accuracy.n for group in metrics.groups] == [1, 1]
    assert metrics.overall == wilson(2, 3)
    assert metrics.unbiased == verify(
        target=[0, 1], prediction=[0, 1], attributes={"place": [1, 0]}
    ).unbiased  # fmt: skip


def test_text_that_reads_none_or_nan_is_a_name() -> None:
    metrics = verify(target=[0, 1], prediction=[0, 1], attributes={"device": ["None", "nan"]})
    assert metrics.biases == ("None", "nan")


def test_an_attribute_without_any_known_value_has_no_groups() -> None:
    metrics = verify(target=[0, 1], prediction=[0, 1], attributes={"place": [None, math.nan]})
    assert metrics.worst_group is metrics.unbiased is None
    assert metrics.overall == wilson(2, 2)


def test_classes_that_no_sample_has_are_known_by_name() -> None:
    metrics = verify(target=["b", "b"], prediction=["b", "c"], classes=["a", "b", "c"])
    assert metrics.classes == ("a", "b", "c")
    assert [accuracy.n for accuracy in metrics.per_class] == [0, 2, 0]
    assert metrics.class_averaged == wilson(1, 2)


NAMES: dict[str, Any] = {"target": ["cat", "dog"], "prediction": ["cat", "dog"]}
NUMBERS: dict[str, Any] = {"target": [0, 1], "prediction": [0, 1]}
PLACE: dict[str, Any] = {"attributes": {"place": ["sofa", "lawn"]}}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (NAMES | {"prediction": ["cat"]}, "prediction has 1 samples, but target has 2; pass"),
        (NAMES | {"prediction": "cat"}, "prediction has 1 samples, but target has 2; pass"),
        (NAMES | {"attributes": {"place": [0]}}, "attribute 'place' has 1 samples, but target has"),
        ({"target": [], "prediction": []}, "target has 0 samples; pass at least one"),
        (NAMES | {"target": [["cat"], ["dog"]]}, r"target has the shape \(2, 1\); pass one value"),
        (NAMES | {"prediction": ["cat", "Dog"]},
         r"prediction holds 'Dog' \(did you mean 'dog'\?\), which is none of the classes "
         r"\(cat, dog\); correct it, or pass classes="),
        (NAMES | {"classes": ["cat", "hen"]}, "target holds 'dog', which is none of the classes"),
        (NAMES | {"classes": ["cat", "dog", "cat"]}, "classes names one twice .*; name each once"),
        (NAMES | {"prediction": [0, 1]}, "prediction holds numbers such as 0, but target holds"),
        (NUMBERS | {"prediction": [0, 2]},
         r"prediction holds 2 at index 1, but there are 2 classes, numbered from 0 \(0, 1\); corr"),
        (NUMBERS | {"target": [0, None]}, "target has no class at index 1; leave out"),
        (NUMBERS | {"target": [0, -2]}, "target holds -2; write classes and values as text or as"),
        (NUMBERS | {"target": [0, 204881]}, "target holds 204881; write classes and values as t"),
        (NUMBERS | {"prediction": [0.2, 0.8]}, r"holds 0.2; .*probabilities as an \(n, classes\)"),
        (NUMBERS | {"prediction": [[0.9, math.nan], [0.5, 0.5]]},
         "prediction has 0.9, nan at index 0, with the sum nan; pass probabilities from 0 to 1"),
        (NUMBERS | {"prediction": [[0.5, 0.5], [3.5, -2.5]]}, "has 3.5, -2.5 at index 1, with the"),
        (NUMBERS | {"prediction": [[0.5, 0.5], [0.7, 0.4]]}, "at index 1, with the sum 1.1; pass"),
        (NUMBERS | {"prediction": [["a", "b"], ["c", "d"]]}, "a matrix, but not of numbers"),
        (NUMBERS | {"prediction": [[0.5], [0.5]]}, "1 columns of probabilities, and the classes"),
        (NAMES | {"prediction": [[0.5, 0.5]] * 2},
         "2 columns of probabilities, and the classes are cat, dog; pass one column for each"),
        (NAMES | {"attributes": {"a": [0, 1], "b": [0, 1]}},
         r"there are 2 attributes \(a, b\); name one of them as bias="),
        (NAMES | PLACE | {"bias": "plcae"}, r"no attribute 'plcae' \(did you mean 'place'\?\)"),
        (NAMES | {"bias": "place"}, "no attribute 'place' to judge by; the attributes are: none"),
        (NAMES | {"alignment": {"cat": "sofa"}}, "goes along with an attribute; pass attributes="),
        (NAMES | PLACE | {"alignment": {"cat": "sofa"}}, "does not name the class 'dog'; name its"),
        (NAMES | PLACE | {"alignment": {"cat": "sofa", "dgo": "lawn"}}, "holds 'dgo' .*'dog'"),
        (NAMES | PLACE | {"alignment": {"cat": "Sofa", "dog": []}},
         r"alignment holds 'Sofa' \(did you mean 'sofa'\?\), which is none of the values of "
         r"'place' \(lawn, sofa\); correct it, or leave it out"),
        (NAMES | PLACE | {"alignment": torch.eye(2)}, "is a table, but .* pass a mapping"),
        (NUMBERS | {"attributes": {"place": [0, 1]}, "alignment": [[True], [False]]},
         r"alignment has the shape \(2, 1\); pass a row for each of the 2 classes"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_names_thing_value_and_remedy(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(CrossbiasError, match=message) as caught:
        verify(**given)
    assert "\n" not in str(caught.value)


def test_a_message_does_not_list_a_thousand_classes() -> None:
    names = [f"class {number}" for number in range(1000)]
    with pytest.raises(CrossbiasError, match=r"class 106, and 990 more\)"):
        verify(target=names, prediction=["nothing"] * 1000)


def test_data_frames_name_their_columns() -> None:
    """Probabilities and attributes as data frames, and weights, give what arrays do."""
    draw = np.random.default_rng(0)
    truth = draw.choice(["cat", "dog", "eel"], 60)
    matrix = draw.dirichlet([1, 1, 1], 60)
    values = {"sex": draw.choice(["f", "m"], 60), "age": draw.choice(["old", "young"], 60)}
    weight = draw.random(60) + 0.1
    frames = verify(
        target=pd.Series(truth), prediction=pd.DataFrame(matrix, columns=["cat", "dog", "eel"]),
        attributes=pd.DataFrame(values), bias="age", weight=pd.Series(weight),
    )  # fmt: skip
    arrays = verify(
        target=truth.tolist(), prediction=torch.tensor(matrix), classes=["cat", "dog", "eel"],
        attributes=values, bias="age", weight=torch.tensor(weight),
    )  # fmt: skip
    assert frames == arrays
    right = np.array(["cat", "dog", "eel"])[matrix.argmax(1)] == truth
    assert frames.overall.value == pytest.approx(np.average(right, weights=weight))
    with pytest.raises(CrossbiasError, match="weight is 0 in row 2; weights are above 0"):
        verify(target=[0, 1], prediction=[0, 1], weight=[1, 0])
    with pytest.raises(CrossbiasError, match="weight has 3 samples, but target has 2"):
        verify(target=[0, 1], prediction=[0, 1], weight=[1, 1, 1])
