import json
import math
import tracemalloc
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from fairlearn.metrics import MetricFrame
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, recall_score
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.types import UNKNOWN
from crossbias.verify import NO_SAMPLES, Metrics, count, gap_within_classes, wilson

CLASSES, BIASES = ("cat", "dog", "hen"), ("lawn", "sofa", "sea", "snow")
ALIGNED = torch.eye(3, 4, dtype=torch.bool)
Sample = tuple[int, int, int]


def metrics_of(
    targets: Tensor, biases: Tensor, predictions: Tensor, alignment: Tensor = ALIGNED
) -> Metrics:
    sizes = {"num_classes": len(CLASSES), "num_biases": len(BIASES)}
    counts = count(targets, biases, predictions, **sizes)
    return Metrics.from_counts(counts, alignment=alignment, classes=CLASSES, biases=BIASES)


def random_split(seed: int, absent: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Skewed groups; with ``absent``, a whole class, a whole bias and one more group are missing.

    The missing ones have low numbers, so that a method that numbers only what it sees is off.
    """
    draw = np.random.default_rng(seed)
    targets, biases = draw.integers(0, 3, 400), draw.choice(4, 400, p=[0.1, 0.5, 0.3, 0.1])
    predictions = np.where(draw.random(400) < 0.6, targets, draw.integers(0, 3, 400))
    if absent:
        keep = (targets != 0) & (biases != 1) & ~((targets == 1) & (biases == 0))
        targets, biases, predictions = targets[keep], biases[keep], predictions[keep]
    return torch.tensor(targets), torch.tensor(biases), torch.tensor(predictions)


@pytest.mark.parametrize("absent", [False, True], ids=["all groups", "absent groups"])
@pytest.mark.parametrize("seed", range(3))
def test_metrics_equal_fairlearn(seed: int, absent: bool) -> None:
    targets, biases, predictions = random_split(seed, absent)
    metrics = metrics_of(targets, biases, predictions)
    features = {"target": targets.numpy(), "bias": biases.numpy()}
    frame = MetricFrame(
        metrics=accuracy_score,
        y_true=targets.numpy(),
        y_pred=predictions.numpy(),
        sensitive_features=features,
    )
    reference = frame.by_group.dropna()
    for (row, column), accuracy in frame.by_group.items():
        ours = metrics.by_group[row][column]
        assert ours.value == pytest.approx(accuracy, nan_ok=True)
    assert sum(group.accuracy.n > 0 for group in metrics.groups) == len(reference)
    assert metrics.overall.value == pytest.approx(frame.overall)
    assert metrics.unbiased is not None
    assert metrics.unbiased.value == pytest.approx(reference.mean())
    assert metrics.worst_group is not None
    assert metrics.worst_group.accuracy.value == pytest.approx(frame.group_min())
    row, column = reference.idxmin()
    assert metrics.worst_group[:2] == (CLASSES[row], BIASES[column])


@pytest.mark.parametrize("absent", [False, True], ids=["all groups", "absent groups"])
def test_metrics_equal_scikit_learn(absent: bool) -> None:
    targets, biases, predictions = random_split(7, absent)
    metrics = metrics_of(targets, biases, predictions)
    recall = recall_score(
        targets, predictions, labels=[0, 1, 2], average=None, zero_division=np.nan
    )
    assert [accuracy.value for accuracy in metrics.per_class] == pytest.approx(recall, nan_ok=True)
    for part, chosen in (
        (metrics.aligned, targets == biases),
        (metrics.conflicting, targets != biases),
    ):
        reference = accuracy_score(targets[chosen], predictions[chosen])
        assert part is not None
        assert part.value == pytest.approx(reference)
        assert part == wilson(int((targets == predictions)[chosen].sum()), int(chosen.sum()))


def test_batches_with_absent_groups_give_the_metrics_of_the_whole() -> None:
    targets, biases, predictions = random_split(3, absent=False)
    order = torch.argsort(targets * 4 + biases)  # every batch holds one or two groups
    sizes = {"num_classes": 3, "num_biases": 4}
    counts = sum(
        count(targets[rows], biases[rows], predictions[rows], **sizes) for rows in order.split(7)
    )
    summed = Metrics.from_counts(counts, alignment=ALIGNED, classes=CLASSES, biases=BIASES)
    assert summed == metrics_of(targets, biases, predictions)


def every_group_once() -> tuple[Tensor, Tensor]:
    pairs = torch.cartesian_prod(torch.arange(3), torch.arange(4))
    return pairs[:, 0], pairs[:, 1]


def test_a_model_that_follows_the_bias_is_right_where_aligned_and_wrong_where_conflicting() -> None:
    targets, biases = every_group_once()
    metrics = metrics_of(targets, biases, predictions=biases % 3)
    assert metrics.aligned == wilson(3, 3)
    # Bias value 3 goes along with no class; following it answers 0, right for class 0 alone.
    assert metrics.conflicting == wilson(1, 9)
    two_by_two = count(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0]), torch.tensor([0, 1, 0]),
                       num_classes=2, num_biases=2)  # fmt: skip
    table = torch.eye(2, dtype=torch.bool)
    follows = Metrics.from_counts(two_by_two, alignment=table, classes="ab", biases="xy")
    assert follows.aligned is not None
    assert follows.conflicting is not None
    assert (follows.aligned.value, follows.conflicting.value) == (1.0, 0.0)


def test_a_perfect_model_is_perfect_everywhere_and_a_constant_one_right_for_its_class() -> None:
    targets, biases = every_group_once()
    perfect = metrics_of(targets, biases, targets)
    assert {group.accuracy.value for group in perfect.groups} == {1.0}
    constant = metrics_of(targets, biases, torch.full_like(targets, 2))
    assert [accuracy.value for accuracy in constant.per_class] == [0.0, 0.0, 1.0]
    assert constant.unbiased is not None
    assert constant.unbiased.value == pytest.approx(1 / 3)


def test_unbiased_counts_a_rare_group_as_much_as_a_common_one() -> None:
    targets = torch.zeros(101, dtype=torch.int64)
    biases = torch.tensor([0] * 100 + [1])
    metrics = metrics_of(targets, biases, predictions=biases)
    assert metrics.unbiased is not None
    assert metrics.unbiased.value == 0.5
    assert metrics.overall.value == 100 / 101


def test_of_equally_bad_groups_the_first_is_the_worst() -> None:
    targets, biases = every_group_once()
    wrong = (targets + 1) % 3
    for order in (torch.arange(12), torch.arange(12).flip(0)):
        metrics = metrics_of(targets[order], biases[order], wrong[order])
        assert metrics.worst_group is not None
        assert metrics.worst_group[:2] == ("cat", "lawn")


def test_samples_of_unknown_bias_count_overall_and_per_class_only() -> None:
    targets, biases, predictions = random_split(5, absent=False)
    known = metrics_of(targets, biases, predictions)
    extra = torch.zeros(50, dtype=torch.int64)
    both = metrics_of(
        torch.cat([targets, extra]),
        torch.cat([biases, extra + UNKNOWN]),
        torch.cat([predictions, extra + 1]),  # all wrong
    )
    assert both.overall.n == known.overall.n + 50
    assert both.overall.value < known.overall.value
    assert both.per_class[0].n == known.per_class[0].n + 50
    for name in ("aligned", "conflicting", "unbiased", "worst_group", "groups"):
        assert getattr(both, name) == getattr(known, name)


@pytest.mark.parametrize("biases", [(), BIASES], ids=["no attribute", "no label known"])
def test_without_known_biases_only_overall_and_per_class_exist(biases: tuple[str, ...]) -> None:
    targets, unknown = torch.tensor([0, 1, 2]), torch.full((3,), UNKNOWN)
    counts = count(targets, unknown, targets, num_classes=3, num_biases=len(biases))
    table = torch.zeros(3, len(biases), dtype=torch.bool)
    metrics = Metrics.from_counts(counts, alignment=table, classes=CLASSES, biases=biases)
    assert metrics.overall.value == 1.0
    assert [accuracy.n for accuracy in metrics.per_class] == [1, 1, 1]
    assert metrics.aligned is metrics.conflicting is metrics.unbiased is metrics.worst_group is None
    assert metrics.groups == ()
    assert all(accuracy is NO_SAMPLES for row in metrics.by_group for accuracy in row)
    assert Metrics.from_json(through_text(metrics)) == metrics


def test_a_split_without_conflicting_samples_has_none_rather_than_an_accuracy() -> None:
    targets = torch.tensor([0, 1, 2])
    metrics = metrics_of(targets, targets, targets)
    assert metrics.conflicting is NO_SAMPLES
    assert metrics.aligned == wilson(3, 3)


def test_the_alignment_table_decides_what_is_aligned() -> None:
    targets, biases, predictions = random_split(1, absent=False)
    metrics = metrics_of(targets, biases, predictions)
    swapped = metrics_of(targets, biases, predictions, ~ALIGNED)
    assert (swapped.aligned, swapped.conflicting) == (metrics.conflicting, metrics.aligned)


def through_text(metrics: Metrics) -> dict[str, object]:
    value: dict[str, object] = json.loads(json.dumps(metrics.to_json(), allow_nan=False))
    return value


samples = st.lists(
    st.tuples(st.integers(0, 2), st.integers(UNKNOWN, 3), st.integers(0, 2)), max_size=30
)


@given(samples)
def test_metrics_survive_json_exactly(rows: list[Sample]) -> None:
    targets, biases, predictions = torch.tensor(rows, dtype=torch.int64).reshape(-1, 3).T
    metrics = metrics_of(targets, biases, predictions)
    assert Metrics.from_json(through_text(metrics)) == metrics


def test_json_names_every_group_with_samples_and_counts_the_others() -> None:
    value = through_text(metrics_of(*random_split(2, absent=True)))
    assert value["classes"] == list(CLASSES)
    assert value["biases"] == list(BIASES)
    assert value["aligned_groups"] == [
        [bias for bias, flag in zip(BIASES, row, strict=True) if flag] for row in ALIGNED.tolist()
    ]
    groups = value["groups"]
    assert isinstance(groups, list)
    pairs = [(target, bias) for target in CLASSES for bias in BIASES]
    empty = [pair for pair in pairs if pair not in {(g["target"], g["bias"]) for g in groups}]
    assert ("cat", "lawn") in empty
    assert value["empty_groups"] == len(empty)
    assert [(group["target"], group["bias"]) for group in groups] == [
        pair for pair in pairs if pair not in empty
    ]
    assert all(group["n"] > 0 for group in groups)
    worst = value["worst_group"]
    assert isinstance(worst, dict)
    assert {"target", "bias", "value", "low", "high", "n"} == set(worst)
    assert not math.isnan(worst["value"])


def test_groups_that_do_not_exist_cost_nothing() -> None:
    """A table of ten thousand classes and as many values would have 800 MB."""
    names = [f"{number}" for number in range(10_000)]
    each = torch.arange(10_000)
    tracemalloc.start()
    metrics = Metrics.from_answers(each, each, each, alignment=None, classes=names, values=names)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
    assert (len(metrics.groups), len(metrics.to_json()["groups"])) == (10_000, 10_000)
    assert Metrics.from_json(metrics.to_json()) == metrics


@pytest.mark.parametrize("key", ["overall", "groups", "per_class", "biases", "aligned_groups"])
def test_json_that_lacks_a_part_is_refused(key: str) -> None:
    value = through_text(metrics_of(*random_split(2, absent=False)))
    shorter = value[key][:-1] if isinstance(value[key], list) else []
    for damaged in (
        {name: part for name, part in value.items() if name != key},
        value | {key: shorter},
    ):
        with pytest.raises(CrossbiasError, match="not metrics of a split"):
            Metrics.from_json(damaged)


def test_json_with_an_aligned_value_that_does_not_exist_is_refused() -> None:
    value = through_text(metrics_of(*random_split(2, absent=False)))
    with pytest.raises(CrossbiasError, match="not those of its classes and bias values"):
        Metrics.from_json(value | {"aligned_groups": [["moon"]] * 3})


def shown(metrics: Metrics) -> list[list[str]]:
    """The cells of the table that a notebook shows, row by row."""
    root = ElementTree.fromstring(metrics._repr_html_())
    return [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]


def test_a_notebook_shows_the_accuracies_with_their_intervals() -> None:
    targets, biases = every_group_once()
    rows = shown(metrics_of(targets, biases, predictions=biases % 3))
    assert rows[0] == ["", "accuracy", "95% interval", "samples"]
    assert [row[0] for row in rows[1:]] == [
        *("overall", "aligned", "conflicting", "unbiased", "worst of 12 groups (cat, sofa)")
    ]
    assert rows[1] == ["overall", "33.3%", "13.8\N{EN DASH}60.9%", "12"]
    assert rows[5][1] == "0.0%"
    split = metrics_of(targets[:1], biases[:1], targets[:1])
    assert shown(split)[3] == ["conflicting", *["\N{EN DASH}"] * 2, "0"]
    unknown = metrics_of(targets, torch.full_like(biases, UNKNOWN), targets)
    assert [row[0] for row in shown(unknown)] == ["", "overall"]


def test_a_hostile_name_stays_text_in_a_notebook() -> None:
    hostile = "<script>alert('&')</script>"
    counts = count(torch.tensor([0]), torch.tensor([0]), torch.tensor([1]),
                   num_classes=2, num_biases=1)  # fmt: skip
    table, names = torch.zeros(2, 1, dtype=torch.bool), {"classes": (hostile, "b")}
    metrics = Metrics.from_counts(counts, alignment=table, biases=(hostile,), **names)
    assert "<script" not in metrics._repr_html_()
    assert shown(metrics)[-1][0] == f"only group ({hostile}, {hostile})"


def test_counts_that_do_not_fit_the_names_are_refused() -> None:
    counts = torch.zeros(3, 4, 3, dtype=torch.int64)  # lacks the column of unknown biases
    with pytest.raises(ValueError, match="do not fit 3 classes and 4 bias values"):
        Metrics.from_counts(counts, alignment=ALIGNED, classes=CLASSES, biases=BIASES)


@pytest.mark.parametrize("name", ["clusters", "effective_samples"])
@pytest.mark.parametrize("size", [{}, [], "7", True, 0, -1])
def test_sizes_of_a_split_are_positive_numbers(name: str, size: object) -> None:
    value = through_text(metrics_of(*random_split(2, absent=False)))
    assert Metrics.from_json(value | {name: 7}) is not None
    with pytest.raises(CrossbiasError, match="these are not metrics of a split"):
        Metrics.from_json(value | {name: size})


def test_a_gap_that_classes_explain_is_noted_and_a_shortcut_is_not() -> None:
    """Recalls of 95 and 60% whatever the bias; most samples of the hard class conflict."""
    groups = [(0, 0, 1000, 0.95), (0, 1, 100, 0.95), (1, 1, 300, 0.6), (1, 0, 900, 0.6)]
    targets = torch.cat([torch.full((n,), target) for target, _, n, _ in groups])
    biases = torch.cat([torch.full((n,), bias) for _, bias, n, _ in groups])
    right = torch.cat([torch.arange(n) < share * n for _, _, n, share in groups])
    mixed = metrics_of(targets, biases, torch.where(right, targets, 2))
    crude = 100 * (mixed.aligned.value - mixed.conflicting.value)
    assert crude > 20
    assert f"{crude:+.1f} points, but +0.0 points within a class" in mixed.class_mix_note
    follows = metrics_of(targets, biases, biases)  # a model that answers the bias
    assert follows.class_mix_note is None


def test_the_gap_within_classes_is_that_of_the_samples() -> None:
    targets, biases, predictions = random_split(3, absent=False)
    found = metrics_of(targets, biases, predictions)
    right, aligned = predictions == targets, ALIGNED[targets, biases]
    expected = gap_within_classes(right[None], targets, aligned)
    assert found._gap_within_classes() == pytest.approx(expected.value)


def test_what_the_interval_of_the_worst_group_is_about_is_said_where_there_are_several() -> None:
    targets, biases, predictions = random_split(3, absent=False)
    assert (
        "lowest true accuracy of any group" in metrics_of(targets, biases, predictions).worst_note
    )
    assert metrics_of(*(torch.zeros(3).long() for _ in range(3))).worst_note is None
