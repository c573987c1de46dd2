import json

import pytest

from crossbias.runs.sweeps import SweepFolder

PLAN = """
seeds = [0, 1]
[[method]]
name = "erm"
[[method]]
name = "class-balanced"
[data]
name = "toy-2d"
size = 12
test_size = 9
[train]
epochs = 1
"""


@pytest.fixture
def plan(tmp_path) -> str:
    (tmp_path / "plan.toml").write_text(PLAN)
    return "plan.toml"


def test_a_sweep_from_plan_to_report(crossbias, plan, tmp_path, program):
    code, out, _err = crossbias("sweep", plan, "--out", "s", "--jobs", "2", "--quiet")
    assert (code, out) == (0, "4 finished\nnext: crossbias compare s\n")
    code, out, _err = crossbias("sweep", "--status", "--out", "s")
    assert (code, out) == (0, "4 finished\n")
    code, out, _err = crossbias("compare", "s")
    assert code == 0
    assert "Plain training" in out
    code, _, _ = crossbias("report", "s", "-o", "r.json")
    assert code == 0
    assert len(json.loads((tmp_path / "r.json").read_text())["runs"]) == 4


def test_a_dry_run_lists_the_runs_and_estimates_the_time(crossbias, plan, tmp_path):
    code, out, _err = crossbias("sweep", plan, "--out", "s", "--dry-run")
    assert code == 0
    assert "erm-toy-2d-seed0-" in out
    assert "4 runs: about " in out
    assert not (tmp_path / "s").exists()


def test_a_dry_run_is_about_the_runs_that_are_left(crossbias, plan, tmp_path, program):
    (tmp_path / "first.toml").write_text(PLAN.replace("[0, 1]", "[0]"))
    assert crossbias("sweep", "first.toml", "--out", "s", "--quiet")[0] == 0
    code, out, _err = crossbias("sweep", plan, "--out", "s", "--dry-run")
    assert code == 0
    assert "2 runs: about " in out
    assert "-seed1-" in out
    assert "seed0" not in out
    failed = next(line for line in out.splitlines() if line.startswith("erm-"))
    SweepFolder(tmp_path / "s").keep_failure(failed, "no memory")
    assert "1 runs: about " in crossbias("sweep", plan, "--out", "s", "--dry-run")[1]
    assert "2 runs: about " in crossbias("sweep", plan, "--out", "s", "--dry-run", "--retry")[1]
    assert crossbias("sweep", plan, "--out", "s", "--retry", "--quiet")[0] == 0
    code, out, _err = crossbias("sweep", plan, "--out", "s", "--dry-run")
    assert (code, out) == (0, "nothing to train: s has all runs of the plan\n")


def test_a_dry_run_refuses_the_folder_of_another_sweep(crossbias, plan, tmp_path, program):
    assert crossbias("sweep", plan, "--out", "s", "--quiet")[0] == 0
    (tmp_path / "other.toml").write_text(PLAN.replace("[0, 1]", "[2]"))
    code, _out, err = crossbias("sweep", "other.toml", "--out", "s", "--dry-run")
    assert code == 2
    assert "s holds another sweep: 4 of its runs are not in this plan" in err


def test_a_plan_of_a_million_runs_asks_first(crossbias, tmp_path):
    values = ", ".join(map(str, range(1, 1001)))
    grid = f"[grid]\ntrain.epochs = [{values}]\ntrain.batch_size = [{values}]\n"
    (tmp_path / "plan.toml").write_text(PLAN + grid)
    code, _out, err = crossbias("sweep", "plan.toml", "--out", "s")
    assert code == 2
    assert "the plan has 4,000,000 runs; add --yes if you mean it" in err
    code, _out, err = crossbias("sweep", "plan.toml", "--out", "s", "--dry-run")
    assert "4,000,000 runs, too many to list" in err


def test_stop_asks_the_process_that_drives_the_sweep(crossbias, tmp_path):
    folder = SweepFolder(tmp_path / "s")
    folder.path.mkdir()
    folder.write_listing({"a": "toy-2d"}, {})
    code, out, err = crossbias("sweep", "--stop", "--out", "s")
    assert (code, err) == (2, "crossbias: no sweep is running in s: there is nothing to stop\n")
    run = folder.runs / "a"
    run.mkdir(parents=True)
    writer = '{"process": 1, "host": "another"}'
    (run / "writer.json").write_text(writer)  # as on a cluster whose driver was killed
    code, out, err = crossbias("sweep", "--stop", "--out", "s")
    assert code == 2
    assert "but 1 of its runs are being trained; start the sweep again with its plan" in err
    (folder.path / "writer.json").write_text(writer)
    code, out, err = crossbias("sweep", "--stop", "--out", "s")
    assert (code, out) == (0, "s will stop; its runs save first\n")
    assert folder.stop_request.exists()
    code, out, err = crossbias("sweep", "--status", "--out", "s")
    assert out.splitlines()[0] == "1 running"


def test_failed_runs_are_listed_and_the_exit_code_says_so(crossbias, tmp_path, program):
    (tmp_path / "plan.toml").write_text(PLAN + '[[network]]\nname = "resnet18"\n')
    code, out, err = crossbias("sweep", "plan.toml", "--out", "s", "--quiet")
    assert code == 2
    assert out.startswith("4 failed\n")
    assert "resnet18" in out
    assert "to try them again: crossbias sweep plan.toml --out s --quiet --retry" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep", "plan.toml"], "a sweep needs a folder: --out sweeps/NAME"),
        (["sweep", "--out", "s"], "no plan is named"),
        (["sweep", "--status", "--out", "s"], "s holds no sweep: it has no sweep.json"),
        (["sweep", "plan.toml", "--out", "s", "--jobs", "0"], "jobs must be at least 1, got 0"),
        (["sweep", "none.toml", "--out", "s"], "cannot read none.toml"),
    ],
)
def test_mistakes_are_one_line(crossbias, plan, arguments, words):
    code, _out, err = crossbias(*arguments)
    assert code == 2
    assert words in err
    assert len(err.splitlines()) == 1
