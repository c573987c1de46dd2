"""The programs of benchmarks/ can be imported, and every result belongs to one of them."""

import importlib
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from benchmarks import coverage
from benchmarks.coverage_of_tables import Tables, _trial

from crossbias.answers.by_value import GAPS
from crossbias.answers.grids_of_answers import TITLES

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted(
    [
        *(path.stem for path in (ROOT / "benchmarks").glob("*.py")),
        *(path.parent.name for path in (ROOT / "benchmarks").glob("*/__main__.py")),
    ]
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_can_be_imported(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    assert importlib.import_module(f"benchmarks.{name}").__doc__


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "results").glob("*.json")), ids=str)
def test_a_result_is_of_a_program_that_exists(path):
    assert json.loads(path.read_text())["benchmark"] in PROGRAMS


def test_the_page_of_coverage_is_generated_and_no_interval_falls_3_points_below_its_claim() -> None:
    record = json.loads((ROOT / "benchmarks/results/coverage-cpu.json").read_text())
    found = record["found"]
    assert record["command"] == "python -m benchmarks.coverage"  # all rows in one run
    assert (ROOT / coverage.PAGE).read_text() == coverage.page(found["rows"], found["splits"])
    for row in found["rows"]:
        claimed = 0.90 if (row["interval"], row["setting"]) in coverage.BELOW else 0.95
        assert row["coverage"] >= claimed - 0.03 or row["interval"].startswith("(not used)"), row
    rows = {(row["interval"], row["setting"]) for row in found["rows"]}
    assert {(case.interval, case.setting) for case in coverage.cases()} <= rows


def test_every_printed_interval_is_simulated_in_at_least_four_settings() -> None:
    settings = Counter(case.interval for case in coverage.cases())
    assert set(coverage.PRINTED.values()) == set(settings)
    assert min(settings.values()) >= 4


def test_every_number_of_a_table_of_answers_is_simulated() -> None:
    found = {name for name, _, _ in _trial(Tables(60), np.random.default_rng(0))}
    titles = set(TITLES.values()) - {"called positive"}  # which exists for values only
    assert titles <= found
    assert {f"gap in {TITLES[name]}" for name in GAPS} <= found
    heads = {"worst group", "unbiased", "equalized odds", "parity gap", "aligned", "conflicting"}
    assert heads <= found


def test_the_audit_alarms_at_the_stated_rate_once_clusters_are_named() -> None:
    found = json.loads((ROOT / "benchmarks/results/audit_clusters-cpu.json").read_text())["found"]
    page = (ROOT / "docs/audit.md").read_text()
    for row in found["rows"]:
        assert row["with clusters"] <= 20  # of 200 sets; more has a probability of .1% at 5%
        assert f"| {row['data']} | {row['without clusters']} | {row['with clusters']} |" in page
    assert found["rows"][0]["without clusters"] == found["sets"] == 200


def test_slices_are_reported_at_the_stated_rate() -> None:
    found = json.loads((ROOT / "benchmarks/results/slices-cpu.json").read_text())["found"]
    page = (ROOT / "docs/audit.md").read_text()
    most = 12  # of 100 models; more has a probability of .2% at 5%
    assert found["sets"] == 100
    for row in found["false alarms"]:
        assert row["alarms"] <= most
        assert f"| {row['data']} | {row['alarms']} |" in page
    for row in found["patients"]:
        assert row["with clusters"] <= most < row["without clusters"]
        assert f"| {row['data']} | {row['without clusters']} | {row['with clusters']} |" in page
    for row in found["power"]:
        assert (
            f"| {row['data']} | {row['found']} | {row['explained']} | {row['purity']:.0%} |" in page
        )


def test_groups_are_flagged_at_the_stated_rate_and_planted_ones_are_found() -> None:
    found = json.loads((ROOT / "benchmarks/results/intersections-cpu.json").read_text())["found"]
    page = (ROOT / "docs/verify.md").read_text()
    limit = 0.05 * found["sets"] + 3.1 * (0.05 * 0.95 * found["sets"]) ** 0.5  # p = .1%
    for row in found["null"]:
        alarms = row["sets with an alarm"]
        assert alarms <= limit or "not named" in row["setting"], row
        assert f"| {row['setting']} | {row['groups tested']} | {alarms} |" in page
    for row in found["planted"]:
        setting, *counts = row.values()
        assert f"| {setting} | {' | '.join(map(str, counts))} |" in page
