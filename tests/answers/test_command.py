"""`crossbias verify` as a person or a CI system types it: exit codes, files, what is printed."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

from crossbias.answers import verify_table

CHOSEN = ["--target", "y", "--prediction", "p", "--bias", "size", "--positive", "malignant"]


@pytest.fixture
def typed(crossbias, tumors: pd.DataFrame):
    """Type a command about the table of tumors."""
    tumors.to_csv("predictions.csv", index=False)
    return lambda *more: crossbias("verify", "predictions.csv", *CHOSEN, *more)


def test_gates_decide_the_exit_code_and_files_are_written_either_way(typed) -> None:
    written = ("--junit", "gates.xml", "-o", "numbers.json", "-o", "page.html")
    code, out, _ = typed("--require", "accuracy >= .5", *written)
    assert code == 0
    assert "0 of 1 gates failed, judged by the cautious end of the interval." in out
    assert ElementTree.parse("gates.xml").getroot().attrib["failures"] == "0"
    code, out, err = typed(
        "--require", "accuracy >= .5", "--require", "gap(size) <= .001", *written
    )
    assert (code, err) == (3, "")
    assert "1 of 2 gates failed" in out
    assert ElementTree.parse("gates.xml").getroot().attrib["failures"] == "1"
    found = json.loads(Path("numbers.json").read_text())
    assert [gate["passed"] for gate in found["gates"]] == [True, False]
    assert found["gates"][1]["number"] == found["models"][0]["attributes"][0]["gaps"]["accuracy"]
    assert "gap(size) &lt;= .001" in Path("page.html").read_text()


def test_a_gate_may_be_judged_by_the_value(typed, tumors: pd.DataFrame) -> None:
    number = verify_table(tumors, target="y", prediction="answer").first.numbers["accuracy"]
    gate = f"accuracy >= {(number.low + number.value) / 2:.6f}"
    assert typed("--require", gate)[0] == 3
    code, out, _ = typed("--require", gate, "--judge-by", "value")
    assert code == 0
    assert "judged by the value alone" in out


def test_a_metric_that_does_not_exist_fails_but_a_gate_that_is_none_is_refused(typed) -> None:
    code, out, err = typed("--require", "worst_grup >= .1")
    assert (code, err) == (3, "")
    assert "did you mean 'worst_group'?" in out
    code, out, err = typed("--require", "worst_group is high")
    assert (code, out) == (2, "")
    assert "cannot be read" in err


def test_attributes_without_association_in_training_are_named(crossbias) -> None:
    rows = [(n % 2, n // 2 % 2, n % 2, "train" if n < 60 else "test") for n in range(120)]
    table = pd.DataFrame(rows, columns=["y", "even", "site", "split"]).assign(p=lambda t: t.y)
    table.to_csv("predictions.csv", index=False)
    chosen = ["--target", "y", "--prediction", "p", "--bias", "even", "--split-column", "split"]
    gate = ["--require", "conflicting(even) >= .5"]
    code, out, _ = crossbias("verify", "predictions.csv", *chosen, "--bias", "site", *gate)
    assert code == 3
    told = "no value is associated with a class in training, so no sample is aligned or conflicting"
    assert f"By even: {told}." in out
    assert f"By site: {told}." not in out
    assert "needs --aligned or --training, and a value that goes along" in " ".join(out.split())
    _, out, _ = crossbias("verify", "predictions.csv", *chosen)
    assert out.count("conflicting") == 1  # in the sentence


def test_what_is_printed_names_what_it_is_about(typed) -> None:
    code, out, _ = typed(
        *("--split-column", "split", "--threshold", "sensitivity>=.9", "--cluster", "patient"),
        *("--aligned", "malignant=large", "--aligned", "benign=small"),
    )
    assert code == 0
    text = " ".join(out.split())
    assert "284 samples of predictions.csv, split test" in text
    assert "sensitivity>=0.9 on the validation split" in text
    assert "samples are in" in text
    assert "aligned conflicting" in text
    assert " nan" not in text


def test_names_cannot_steer_the_terminal(crossbias) -> None:
    hostile = "a\x1b[2J[red]"
    rows = [f"{'x' if n % 2 else 'y'},{'x' if n % 3 else 'y'},{hostile}{n % 2}" for n in range(60)]
    Path("p.csv").write_text("\n".join([f"y,p,{hostile}", *rows]))
    code, out, _ = crossbias(
        *("verify", "p.csv", "--target", "y", "--prediction", "p", "--bias", hostile),
    )
    assert code == 0
    assert "\x1b[2J" not in out
    assert "[red]" in out


def test_a_split_column_that_is_not_named_is_said(typed) -> None:
    assert "has a column 'split', but no split was chosen" in typed()[1]
