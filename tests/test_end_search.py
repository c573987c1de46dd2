"""The search for EnD's alpha and beta: equal budgets, chosen on validation, nothing forgotten."""

import argparse
import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch
from benchmarks import end_search
from benchmarks.end_search import Plan, expected_improvement, next_pair, summary
from benchmarks.table import Job

from crossbias.errors import CrossbiasError
from crossbias.registry import create_method

PLAN = Plan.read(Path(end_search.__file__).with_suffix(".toml"))


def test_the_plan_is_that_of_the_authors():
    assert PLAN.trials >= 20
    assert (PLAN.seed, PLAN.best) == (42, 3)
    ranges = {name: (about["alpha"], about["beta"]) for name, about in PLAN.columns.items()}
    wide, narrow = ([0, 50], [0, 50]), ([0, 1], [0, 1])
    assert ranges == {
        "rho .999": wide, "rho .995": narrow, "rho .990": narrow, "rho .997": narrow,
    }  # fmt: skip
    assert PLAN.set["train.selection"] == "validation-accuracy"


class Trainer:
    """Instead of training: accuracies with one peak, by the pair in units of its range."""

    def __init__(self, best: tuple[float, float]) -> None:
        self.best, self.jobs = best, []

    def __call__(self, job: Job, runs: Path, jobs: int):
        self.jobs.append(job)
        assert create_method("end", alpha=job.settings["method.alpha"])
        pair = [job.settings[f"method.{name}"] for name in ("alpha", "beta")]
        scale = 50 if job.column == "rho .999" else 1
        gap = math.dist([each / scale for each in pair], self.best)
        if len(self.jobs) == 3:
            return {"failed": "diverged", "command": "a"}
        accuracy = math.exp(-((gap / 0.3) ** 2))
        judged = {"validation": {"overall": accuracy}, "test": {"overall": 1 - accuracy}}
        return {"found": judged, "command": "a"}


@pytest.fixture
def options(tmp_path):
    return argparse.Namespace(
        only=None, jobs=1, stop_after=math.inf, runs=tmp_path, results=tmp_path / "found.json"
    )


def test_every_rho_has_the_same_number_of_trials_and_all_are_kept(options, monkeypatch):
    trainer = Trainer(best=(0.1, 0.15))
    monkeypatch.setattr(end_search, "train", trainer)
    end_search.search(dataclasses.replace(PLAN, trials=1), options)
    assert [job.column for job in trainer.jobs] == list(PLAN.columns)
    end_search.search(PLAN, options)  # goes on from there
    assert len(trainer.jobs) == 20 * 4
    assert {job.seed for job in trainer.jobs} == {42}
    found = json.loads(options.results.read_text())["found"]
    assert {name: each["n"] for name, each in found.items()} == dict.fromkeys(PLAN.columns, 20)
    assert sum(each["failed"] for each in found.values()) == 1
    for name, each in found.items():
        high = PLAN.columns[name]["alpha"][1]
        pairs = [(trial["alpha"], trial["beta"]) for trial in each["trials"]]
        assert all(0 <= value <= high for pair in pairs for value in pair)
        assert len(set(pairs)) == 20
        chosen = (each["chosen"]["alpha"] / high, each["chosen"]["beta"] / high)
        assert math.dist(chosen, (0.1, 0.15)) < 0.1  # by validation; by test it would be far away
    end_search.search(PLAN, options)
    assert len(trainer.jobs) == 20 * 4  # nothing is repeated


def test_trials_of_another_plan_are_refused(options, monkeypatch):
    monkeypatch.setattr(end_search, "train", Trainer(best=(0.5, 0.5)))
    end_search.search(dataclasses.replace(PLAN, trials=1), options)
    with pytest.raises(CrossbiasError, match="holds the trials of another plan; remove it"):
        end_search.search(dataclasses.replace(PLAN, recipe="biased-mnist-erm"), options)


def test_the_best_are_those_by_validation_and_failures_are_counted():
    tests, validations = (0.1, 0.5, 0.6, 0.7), (0.9, 0.8, 0.7, 0.6)
    trials = [
        {"alpha": n, "beta": -n, "validation": v, "test": t}
        for n, (v, t) in enumerate(zip(validations, tests, strict=True))
    ]
    found = summary(PLAN, "rho .997", [{"alpha": 9, "beta": 9, "failed": "diverged"}, *trials])
    assert (found["n"], found["failed"]) == (5, 1)
    assert found["chosen"] == {"alpha": 0, "beta": 0}
    assert found["mean"] == pytest.approx(40.0)
    assert found["deviation"] == pytest.approx(21.60)  # over three, not two: as the authors


def test_expected_improvement_is_largest_between_the_best_points():
    points = torch.tensor([[0.0, 0.5], [0.4, 0.5], [0.6, 0.5], [1.0, 0.5]]).double()
    values = torch.tensor([0.0, 0.9, 0.9, 0.0]).double()
    line = torch.stack([torch.linspace(0, 1, 101), torch.full((101,), 0.5)], 1).double()
    found = expected_improvement(points, values, line)
    assert (found >= 0).all()
    assert abs(int(found.argmax()) - 50) <= 1
    assert found[50] > 5 * found[0]


def test_pairs_are_spread_first_and_then_proposed():
    trials = []
    for _ in range(PLAN.uniform):
        alpha, beta = next_pair(PLAN, "rho .999", trials)
        trials.append({"alpha": alpha, "beta": beta, "validation": 1 - alpha / 50})
    quarters = {(trial["alpha"] > 25, trial["beta"] > 25) for trial in trials}
    assert len(quarters) == 4
    alpha, _ = next_pair(PLAN, "rho .999", trials)
    assert alpha < 10
