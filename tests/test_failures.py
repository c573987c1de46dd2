"""A run of our own benchmark that did not help counts as named only where its health says why."""

from benchmarks.failures import judged, overview
from benchmarks.table import Table

from crossbias.formatting import DASH

COLUMNS = {
    "planted": {"data.name": "folder:runs/shortcuts/bar-color-95"},
    "natural": {"data.name": "folder:runs/shortcuts/x-rays-source"},
}
TABLE = Table("", "", [0, 1], {}, COLUMNS, {"erm": {}, "pgd": {}, "end": {}})


def run(conflicting: float, overall: float, *health: str) -> dict:
    found = {"test": {"conflicting": conflicting, "overall": overall}}
    return {"found": found, "health": ["too few conflicting training samples", *health]}


def verdicts(**runs) -> dict[str, tuple[bool, bool]]:
    found = {key.replace("_", " | "): record for key, record in runs.items()}
    return {
        f"{one.row}_{one.column}_{one.seed}": (one.failed, one.named)
        for one in judged(TABLE, found)
    }


def test_a_planted_shortcut_asks_for_15_points_and_any_data_for_no_loss_above_3():
    found = verdicts(
        erm_planted_0=run(0.30, 0.60), pgd_planted_0=run(0.46, 0.60), end_planted_0=run(0.44, 0.60),
        erm_natural_0=run(0.30, 0.60), pgd_natural_0=run(0.10, 0.58), end_natural_0=run(0.90, 0.56),
    )  # fmt: skip
    failed = {name for name, (failed, _) in found.items() if failed}
    assert failed == {"end_planted_0", "end_natural_0"}


def test_what_is_said_of_plain_training_too_names_nothing():
    found = verdicts(
        erm_planted_0=run(0.3, 0.6),
        pgd_planted_0=run(0.3, 0.6, "biased network memorized"),
        end_planted_0=run(0.3, 0.6),
    )
    assert found == {"pgd_planted_0": (True, True), "end_planted_0": (True, False)}


def test_runs_without_plain_training_of_their_seed_and_failed_ones_are_left_out():
    failed = {"failed": "diverged"}
    assert not verdicts(pgd_planted_1=run(0.3, 0.6), erm_planted_0=run(0.3, 0.6))
    assert not verdicts(erm_planted_0=failed, pgd_planted_0=run(0.3, 0.6))
    assert not verdicts(erm_planted_0=run(0.3, 0.6), pgd_planted_0=failed)


def test_the_overview_counts_failed_runs_and_lists_the_silent_ones():
    found = {
        "erm | planted | 0": run(0.3, 0.6), "erm | planted | 1": run(0.3, 0.6),
        "pgd | planted | 0": run(0.3, 0.6, "biased network memorized"),
        "pgd | planted | 1": run(0.4, 0.55), "end | planted | 0": run(0.5, 0.6),
    }  # fmt: skip
    assert overview(TABLE, found).splitlines() == [
        "| row | planted | natural |",
        "|---|---|---|",
        f"| pgd | 1 of 2 | {DASH} |",
        f"| end | {DASH} | {DASH} |",
        "",
        "Said nothing:",
        "- pgd, planted, seed 1: +10.0 points of the conflicting images, -5.0 of all",
        "",
        "Of the 1 runs that did not fail, 0 have a warning, too.",
    ]
