import json
import math
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from crossbias.errors import CrossbiasError
from crossbias.runs.read import read_run
from crossbias.runs.sweeps import SweepFolder
from crossbias.sweep import Plan, run_sweep
from crossbias.sweep.search import SearchJobs, value_of
from crossbias.sweep.space import Range, Space

SEARCH = """
seeds = [0, 1]
[[method]]
name = "erm"
[[method]]
name = "class-balanced"
[train]
epochs = 2
[search]
trials = 3
rule = "validation-accuracy"
[search.space]
train.lr = { low = 1e-4, high = 1e-1, log = true }
[search.method.class-balanced]
train.batch_size = [4, 8]
"""


def records(folder) -> dict[str, dict]:
    found = [json.loads(path.read_text()) for path in (folder / "search").glob("*.json")]
    return {record["method"]: record for record in found}


@pytest.fixture
def searched(plan_file, tmp_path, here):
    run_sweep(Plan.read(plan_file(SEARCH)), tmp_path / "s")
    return tmp_path / "s"


def test_every_method_has_the_same_number_of_trials_and_the_first_has_the_plans_settings(searched):
    for record in records(searched).values():
        assert [trial["state"] for trial in record["trials"]] == ["complete"] * 3
        assert record["trials"][0]["settings"] == {}
        for trial in record["trials"][1:]:
            assert 1e-4 <= trial["settings"]["train.lr"] <= 1e-1
            own = trial["settings"].get("train.batch_size")
            assert own in ((4, 8) if record["method"] == "class-balanced" else (None,))


def test_the_chosen_settings_are_the_best_and_are_trained_with_every_seed(searched):
    runs = [read_run(path) for path in (searched / "runs").iterdir()]
    listed = json.loads((searched / "sweep.json").read_text())["runs"]
    assert len(runs) == 2 * 3 + 2  # trials, and the chosen ones with the second seed
    assert len(listed) == 4
    for record in records(searched).values():
        values = [trial["value"] for trial in record["trials"]]
        assert record["chosen"] == values.index(max(values))
        best = record["trials"][record["chosen"]]
        assert best["run"] in listed
        found = read_run(searched / "runs" / best["run"])
        assert found.metrics["validation"].overall.value == best["value"]
        for name, value in best["settings"].items():
            assert found.config["train"][name.removeprefix("train.")] == pytest.approx(value)


def test_a_search_goes_on_where_it_was_killed(plan_file, tmp_path, here, monkeypatch):
    plan, folder = Plan.read(plan_file(SEARCH)), tmp_path / "s"
    told = SearchJobs.tell

    def killed(self, outcome):
        if len(here[0].submitted) == 4:
            raise KeyboardInterrupt
        told(self, outcome)

    with monkeypatch.context() as patched:
        patched.setattr(SearchJobs, "tell", killed)
        with pytest.raises(KeyboardInterrupt):
            run_sweep(plan, folder)
    run_sweep(plan, folder)
    assert here[1].submitted[0] == here[0].submitted[3]  # its number was never heard
    whole = {method: record["trials"] for method, record in records(folder).items()}
    assert {len(trials) for trials in whole.values()} == {3}
    states = {trial["state"] for trials in whole.values() for trial in trials}
    assert states == {"complete"}


DRIVER = """
import os, signal, sys
from pathlib import Path
import crossbias.sweep.running as running
from crossbias.sweep import Plan
from crossbias.sweep.search import SearchJobs
sys.path.append(sys.argv[3])
from conftest import Here

running._executor = lambda plan, folder, on, jobs, address: Here(folder.path, jobs)
heard, told = [], SearchJobs.tell
def tell(self, outcome):
    if len(heard) == 3:
        os.kill(os.getpid(), signal.SIGKILL)  # nothing is cleaned up
    heard.append(outcome.name)
    told(self, outcome)
SearchJobs.tell = tell
running.run_sweep(Plan.read(Path(sys.argv[1])), sys.argv[2])
"""


def test_the_journal_of_a_search_survives_a_killed_driver(plan_file, tmp_path, program, here):
    path, folder = plan_file(SEARCH), tmp_path / "s"
    driver = program(DRIVER, ["-c", str(path), str(folder), str(Path(__file__).parent)])
    printed = driver.communicate()
    assert driver.returncode == -signal.SIGKILL, printed
    finished = {run.name for run in (folder / "runs").iterdir() if (run / "done").exists()}
    assert len(finished) == 4
    drawn = {file.stem: file.read_bytes() for file in (folder / "search").glob("*.journal")}
    run_sweep(Plan.read(path), folder)
    for file in (folder / "search").glob("*.journal"):
        assert file.read_bytes().startswith(drawn[file.stem])  # nothing is drawn again
    whole = {method: record["trials"] for method, record in records(folder).items()}
    assert {len(trials) for trials in whole.values()} == {3}
    assert {trial["state"] for trials in whole.values() for trial in trials} == {"complete"}
    assert finished <= {trial["run"] for trials in whole.values() for trial in trials}


def test_a_search_may_get_more_trials_but_no_other_space(plan_file, searched, here):
    run_sweep(Plan.read(plan_file(SEARCH.replace("trials = 3", "trials = 4"))), searched)
    assert len(here[1].submitted) <= 2 + 2  # one trial each, and what they change
    assert {len(record["trials"]) for record in records(searched).values()} == {4}
    with pytest.raises(CrossbiasError, match="holds a sweep with another"):
        run_sweep(Plan.read(plan_file(SEARCH.replace("1e-4", "1e-3"))), searched)


def test_the_report_draws_the_settings_that_were_tried(searched, tmp_path):
    from crossbias.report import report

    page = report(searched, tmp_path / "r.html").path.read_text()
    assert page.count('aria-label="Trials"') == 2
    for record in records(searched).values():
        best = record["trials"][record["chosen"]]["value"]
        assert f"The chosen trial {record['chosen']} has validation-accuracy {best:.4g}." in page
    path = next((searched / "search").glob("*.json"))
    path.write_text('{"trials": [{}]}')
    with pytest.raises(CrossbiasError, match="is damaged; continue the sweep"):
        report(searched, tmp_path / "r.html")


def test_the_number_of_a_rule_is_the_one_on_validation_data(searched):
    run = read_run(next((searched / "runs").iterdir()))
    answers = run.predictions["validation"]
    right = [float(p[t]) for p, t in zip(answers.probabilities, answers.target, strict=True)]
    loss = -sum(map(math.log, right)) / len(right)
    assert value_of(run, "validation-loss") == pytest.approx(loss, rel=1e-6)
    assert value_of(run, "validation-accuracy") == run.metrics["validation"].overall.value
    worst = run.metrics["validation"].worst_group.accuracy.value
    assert value_of(run, "validation-worst-group") == worst


def test_numbers_are_drawn_as_the_space_says(plan_file, tmp_path):
    text = SEARCH.replace("trials = 3", "trials = 40\nsampler = 'random'").replace(
        "[search.method", "train.epochs = { low = 1, high = 3 }\n[search.method"
    )
    plan = Plan.read(plan_file(text))
    folder = SweepFolder(tmp_path / "s")
    drawn = SearchJobs(plan, folder)
    jobs = [job for _ in range(80) if (job := drawn.next()) is not None]
    epochs = [job.tables["train"]["epochs"] for job in jobs]
    assert set(epochs) == {1, 2, 3}
    assert all(isinstance(number, int) for number in epochs)
    rates = sorted(job.tables["train"]["lr"] for job in jobs if "lr" in job.tables["train"])
    assert 0.3 < sum(rate < 10**-2.5 for rate in rates) / len(rates) < 0.7  # even orders
    again = SearchJobs(plan, SweepFolder(tmp_path / "t"))
    assert [again.next().tables for _ in jobs] == [job.tables for job in jobs]


def test_worst_group_needs_bias_labels_and_rules_need_validation(searched):
    run = read_run(next((searched / "runs").iterdir()))
    with pytest.raises(CrossbiasError, match="has no validation split, so a search cannot"):
        value_of(replace(run, metrics={"test": run.test}), "validation-accuracy")


def test_space_reads_ranges_and_lists(tmp_path):
    content = {"trials": 2, "space": {"train": {"lr": {"low": 1, "high": 3}}, "data": {"rho": [1]}}}
    space = Space.read(content, tmp_path)
    assert space.common == {"train.lr": Range(1, 3), "data.rho": (1,)}
