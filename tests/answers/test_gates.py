"""Gates: what they mean, that they fail closed, and the file that CI systems read."""

import math
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from crossbias.answers import Verification, verify_table
from crossbias.answers.gates import METRICS, GateResult, judge_gates, read_gate
from crossbias.answers.junit import junit_xml
from crossbias.errors import CrossbiasError
from crossbias.verify import lowest_of


@pytest.fixture(scope="module")
def found(tumors: pd.DataFrame) -> Verification:
    return verify_table(
        tumors, target="y", prediction="p", bias=["size", "half"], intersections=2,
        positive="malignant", aligned={"malignant": "large", "benign": "small"},
    )  # fmt: skip


def judged(found: Verification, text: str, by: str = "interval") -> GateResult:
    (result,) = judge_gates(found, [read_gate(text)], by=by)  # type: ignore[arg-type]
    return result


NUMBERS = {
    "accuracy": lambda found: found.first.numbers["accuracy"],
    "class_averaged": lambda found: found.first.metrics.class_averaged,
    "recall[malignant]": lambda found: found.first.metrics.per_class[1],
    "auc": lambda found: found.first.numbers["auc"],
    "calibration": lambda found: found.first.metrics.calibration,
    "gap(size)": lambda found: found.first.attributes[("size",)].gaps["accuracy"],
    "sensitivity_gap(size)": lambda found: found.first.attributes[("size",)].gaps["sensitivity"],
    "unbiased(size)": lambda found: found.first.attributes[("size",)].metrics.unbiased,
    "conflicting(size)": lambda found: found.first.attributes[("size",)].metrics.conflicting,
    "equalized_odds(half)": lambda f: f.first.attributes[("half",)].metrics.equalized_odds,
    "worst_group(size)": lambda f: f.first.attributes[("size",)].metrics.worst_group.accuracy,
    "worst_group(half, size)": lambda f: (
        f.first.attributes[("size", "half")].metrics.worst_group.accuracy
    ),
}


@pytest.mark.parametrize("text", NUMBERS)
def test_a_gate_is_judged_by_the_cautious_end_or_by_the_value(
    found: Verification, text: str
) -> None:
    """A bound between the end and the value decides: the interval fails and the value passes."""
    number = NUMBERS[text](found)
    assert number.low < number.value < number.high
    below, above = (number.low + number.value) / 2, (number.value + number.high) / 2
    for bound, comparison in ((below, ">="), (above, "<=")):
        gate = f"{text} {comparison} {bound:.12f}"
        assert not judged(found, gate).passed
        assert judged(found, gate, "value").passed
        assert judged(found, gate).number == number
    assert judged(found, f"{text} >= {math.floor(1e9 * number.low) / 1e9:.9f}").passed
    assert judged(found, f"{text} < {math.floor(1e9 * number.high + 1) / 1e9:.9f}").passed


def test_a_number_by_attribute_must_hold_for_every_value(found: Verification) -> None:
    values = found.first.attributes[("size",)].values
    lows = {each.value: each.numbers["sensitivity"].low for each in values}
    worst, best = min(lows.values()), max(lows.values())
    assert judged(found, f"sensitivity(size) >= {worst:.12f}").passed == (
        worst >= float(f"{worst:.12f}")
    )
    result = judged(found, f"sensitivity(size) >= {(worst + best) / 2:.6f}")
    assert not result.passed
    assert f"sensitivity of size {min(lows, key=lambda name: lows[name])}" in result.reason


def test_the_worst_group_of_a_class_has_the_interval_of_the_lowest_of_its_groups(
    found: Verification,
) -> None:
    groups = [
        group.accuracy
        for group in found.first.attributes[("half",)].metrics.groups
        if group.target == "malignant"
    ]
    expected = lowest_of([round(g.value * g.n) for g in groups], [g.n for g in groups])
    number = judged(found, "worst_group(half)[malignant] >= .1").number
    assert number is not None
    assert number == pytest.approx(expected)


def test_without_an_attribute_a_gate_is_about_all_of_them(found: Verification) -> None:
    ends = [each.metrics.worst_group.accuracy.low for each in found.first.attributes.values()]
    number = judged(found, "worst_group >= .5").number
    assert number is not None
    assert number.low == min(ends)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("worst_grup >= .1", "there is no metric 'worst_grup' (did you mean 'worst_group'?)"),
        ("gap(sise) <= .9", "there are no groups of sise (did you mean 'size'?), only of size"),
        ("recall[malignat] >= .1", "no class 'malignat' (did you mean 'malignant'?)"),
        ("auc[benign] >= .1", "auc is not about one class"),
        ("class_averaged(size) >= .1", "leave the column out"),
        ("recall(size) >= .1", "worst_group(COLUMN)[CLASS] is by group"),
    ],
)
def test_what_does_not_exist_fails_and_says_so(found: Verification, text: str, why: str) -> None:
    for by in ("interval", "value"):
        result = judged(found, text, by)
        assert not result.passed
        assert why in result.reason
        assert result.number is None


@pytest.mark.parametrize("name", [name for name in METRICS if name != "slope"])
def test_no_metric_passes_where_it_cannot_be_known(name: str) -> None:
    """Without attributes, probabilities, a positive class or enough samples, every gate fails."""
    small = verify_table({"y": ["a", "b"] * 4, "p": ["a", "b"] * 4}, target="y", prediction="p")
    for comparison in (">= 0", "<= 1"):
        for by in ("interval", "value"):
            assert not judged(small, f"{name} {comparison}", by).passed


def test_a_group_too_small_to_judge_fails_the_gate(tumors: pd.DataFrame) -> None:
    few = tumors.assign(size=np.where(np.arange(len(tumors)) < 5, "tiny", tumors["size"]))
    found = verify_table(few, target="y", prediction="p", bias="size", positive="malignant")
    for text in ("gap(size) <= 1", "worst_group >= 0", "accuracy(size) >= 0", "unbiased >= 0"):
        for by in ("interval", "value"):
            result = judged(found, text, by)
            assert not result.passed
            assert "too small" in result.reason
            assert "tiny" in result.reason


def test_numbers_that_need_more_say_what(tumors: pd.DataFrame) -> None:
    found = verify_table(tumors, target="y", prediction="answer", bias="size")
    needs = {
        "sensitivity >= .1": "needs --positive CLASS",
        "auc >= .1": "needs probabilities and --positive CLASS",
        "calibration <= .9": "needs probabilities",
        "aligned(size) >= .1": "needs --aligned or --training",
    }
    for text, need in needs.items():
        assert need in judged(found, text).reason


@pytest.mark.parametrize(
    "text",
    [
        "", "gap", "gap(sex)", "gap <= ", "gap =< .1", "gap == .1", "gap() <= .1", "gap(a,) <= .1",
        "gap(a <= .1", "gap <= -.1", "gap <= nan", "gap <= .1 and auc >= .2", "gap(a)(b) <= .1",
        "[a]gap <= .1", "gap <= 1e400", "gap(x y) <= .1", "gap <= .1.2",
    ],
)  # fmt: skip
def test_what_is_not_a_gate_is_refused(text: str) -> None:
    with pytest.raises(CrossbiasError, match="cannot be read; write METRIC"):
        read_gate(text)


def test_a_percentage_without_its_sign_is_refused() -> None:
    with pytest.raises(CrossbiasError, match=r"is between 0 and 1; write 80% as \.8 or 80%"):
        read_gate("worst_group >= 80")
    assert read_gate("worst_group >= 80%").bound == read_gate("worst_group>=.8").bound == 0.8
    assert read_gate("slope >= 1.2").bound == 1.2


def test_names_with_any_characters_are_quoted() -> None:
    gate = read_gate("""gap("a, b (c) >= .5", 'd"e')['<x>'] <= 5 %""")
    assert gate.attribute == ("a, b (c) >= .5", 'd"e')
    assert (gate.target, gate.comparison, gate.bound) == ("<x>", "<=", 0.05)


def test_junit_has_what_ci_systems_read(found: Verification) -> None:
    """The elements and attributes that the schema of Jenkins' xUnit plugin requires."""
    gates = [read_gate(text) for text in ("accuracy >= .1", "gap(size) <= .0001", "foo >= .1")]
    root = ElementTree.fromstring(junit_xml(judge_gates(found, gates), name="predictions.csv"))
    assert (root.tag, root.attrib["tests"], root.attrib["failures"]) == ("testsuites", "3", "2")
    (suite,) = root
    assert {"name", "tests", "failures", "errors", "skipped", "time"} <= suite.attrib.keys()
    assert [case.tag for case in suite] == ["testcase"] * 3
    for case in suite:
        assert {"name", "classname", "time"} <= case.attrib.keys()
    assert [[child.tag for child in case] for case in suite] == [
        ["system-out"], ["failure"], ["failure"],
    ]  # fmt: skip
    failure = suite[2][0]
    assert "there is no metric 'foo'" in failure.attrib["message"]
    assert failure.attrib["type"] == "gate"
    assert suite[1].attrib["name"] == "gap(size) <= .0001"


def test_hostile_names_are_text_in_junit() -> None:
    hostile = "]]><script>&\x00\x1b\u202e\ufffe\udcff\"'"
    table = {"y": ["a", "b"] * 20, hostile: ["a", "b"] * 20, "s": ["x"] * 20 + ["y"] * 20}
    found = verify_table(table, target="y", prediction=hostile, bias="s")
    text = junit_xml(judge_gates(found, [read_gate("accuracy >= .5")]), name=hostile)
    (suite,) = ElementTree.fromstring(text)
    assert suite.attrib["name"].startswith("]]><script>&\\x00\\x1b\\u202e")
    assert len(suite) == 1


def test_a_binned_column_is_named_without_its_bins(tumors: pd.DataFrame) -> None:
    table = tumors.assign(age=np.arange(len(tumors)) % 80)
    found = verify_table(table, target="y", prediction="answer", bias="age:30,40,size")
    number = judged(found, "gap(size, age) <= 1").number
    assert number == found.first.attributes[("age:30,40", "size")].gaps["accuracy"]
