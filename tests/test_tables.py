"""Tables of the papers: right files, runs that are not repeated, honest numbers."""

import io
import json
import math
import sys
import threading
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import timm
import torch
from benchmarks import backbone, table_pages
from benchmarks import table as tables
from PIL import Image

from crossbias.cli import main
from crossbias.cli.options import settings
from crossbias.data.generated import digit_source
from crossbias.data.generated.originals import Original
from crossbias.data.images.decoding import Fit
from crossbias.data.published.bar import ACTIONS, BAR
from crossbias.errors import CrossbiasError
from crossbias.experiment import Experiment
from crossbias.formatting import DASH
from crossbias.registry import create_method
from crossbias.train.config import TrainConfig
from crossbias.train.optimizers import learning_rate

ROOT = Path(__file__).parents[1]

RECIPE = """
[method]
name = "{method}"
[data]
name = "glyphs"
size = 60
test_size = 40
image_size = 16
[network]
name = "mlp"
[train]
steps = 2
batch_size = 16
device = "cpu"
"""

TABLE = """
title = "A table"
paper = "somebody"
seeds = [0, 1]
[metrics.all]
split = "test"
number = "overall"
[columns]
weak = {{ "data.rho" = 0.5 }}
strong = {{ "data.rho" = 0.9 }}
[rows.plain]
recipe = "{recipe}"
paper.all = [[50.0, 60.0], 10.0]
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with one recipe and one table, as the project has them."""
    for name in ("tables", "recipes"):
        (tmp_path / name).mkdir()
    (tmp_path / "recipes" / "tiny.toml").write_text(RECIPE.format(method="erm"))
    (tmp_path / "tables" / "one.toml").write_text(TABLE.format(recipe="tiny"))
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    return tmp_path


def made(home: Path, monkeypatch, *arguments: str, queue: tuple[str, ...] = ("one",)) -> dict:
    options = ["--runs", str(home / "runs"), "--results", str(home / "results")]
    monkeypatch.setattr(sys, "argv", ["table", *queue, *options, *arguments])
    tables.main()
    return json.loads((home / "results" / "one.json").read_text())


@pytest.mark.usefixtures("program")
def test_a_table_is_filled_once_and_shown(home, monkeypatch, capsys):
    found = made(home, monkeypatch, "--jobs", "2")
    assert set(found["runs"]) == {
        f"plain | {column} | {seed}" for column in ("weak", "strong") for seed in (0, 1)
    }
    run = found["runs"]["plain | weak | 1"]
    assert run["command"] == (
        "crossbias train --config recipes/tiny.toml --seed 1 --set data.rho=0.5 --set data.seed=1"
    )
    assert run["hashes"] != found["runs"]["plain | weak | 0"]["hashes"]  # another drawing
    weak = found["cells"][0]
    values = [found["runs"][f"plain | weak | {s}"]["found"]["test"]["overall"] for s in (0, 1)]
    assert weak["mean"] == pytest.approx(50 * sum(values), abs=0.01)
    assert weak["deviation"] == pytest.approx(
        100 * abs(values[0] - values[1]) / math.sqrt(2), abs=0.01
    )
    assert weak["difference"] == pytest.approx(weak["mean"] - 50, abs=0.01)
    assert weak["inside"] is True
    assert found["cells"][1]["inside"] is None  # the paper gives no spread
    text = (home / "results" / "one.md").read_text()
    assert f"| plain | all | weak | {weak['mean']:.2f} ± " in text
    assert "50.00 ± 60.00" in text
    capsys.readouterr()
    assert made(home, monkeypatch) == found
    assert capsys.readouterr().out == ""  # nothing was trained again


def test_a_seed_that_fails_is_named_and_the_others_are_counted(home):
    table = tables.Table.read(home / "tables" / "one.toml", home / "recipes")
    good = {"found": {"test": {"overall": 0.25}}}
    found = {"plain | weak | 0": good, "plain | weak | 1": {"failed": "erm diverged: loss"}}
    tables.write(table, found, home / "one.json")
    (weak,) = json.loads((home / "one.json").read_text())["cells"]
    assert (weak["n"], weak["mean"]) == (1, 25.0)
    assert weak["failed"] == ["plain, weak, seed 1: erm diverged: loss"]
    text = (home / "one.md").read_text()
    assert "| 25.00 | 1, 1 failed |" in text
    assert text.endswith("\nFailed:\n- plain, weak, seed 1: erm diverged: loss\n")


def test_results_of_other_settings_are_refused(home):
    path = home / "tables" / "one.toml"
    table = tables.Table.read(path, home / "recipes")
    job = next(table.jobs())
    record = {"command": job.written(), "recipe": job.recipe_hash()}
    tables.check_results(table, {job.key: record})
    recipe = home / "recipes" / "tiny.toml"
    recipe.write_text("# only another comment\n" + recipe.read_text())
    tables.check_results(table, {job.key: record})
    recipe.write_text(recipe.read_text() + "lr = 0.5\n")
    with pytest.raises(
        CrossbiasError, match=r"'plain \| weak \| 0' was made when recipes/tiny.toml"
    ):
        tables.check_results(table, {job.key: record})
    path.write_text(path.read_text().replace('"data.rho" = 0.5', '"data.rho" = 0.6'))
    other = tables.Table.read(path, home / "recipes")
    with pytest.raises(CrossbiasError, match=r"rho=0\.5 .*', but the table asks for .*rho=0\.6"):
        tables.check_results(other, {job.key: record})


def test_runs_on_a_version_of_the_data_that_is_no_longer_made_are_refused(home):
    path = home / "tables" / "one.toml"
    strong = 'strong = { "data.rho" = 0.9 }'
    other = 'strong = { "data.name" = "colored-mnist-lnl" }'
    path.write_text(path.read_text().replace(strong, other))
    table = tables.Table.read(path, home / "recipes")
    found = {"plain | weak | 0": {"version": 1}, "plain | strong | 0": {"version": 2}}
    tables.check_results(table, found)
    found["plain | strong | 1"] = {"version": 1}
    with pytest.raises(
        CrossbiasError,
        match=r"strong \| 1' has version 1 of colored-mnist-lnl, .* version 2; remove",
    ):
        tables.check_results(table, found)


@pytest.mark.parametrize(
    "judged",
    [{"test": {}}, {"validation": {"overall": 0.5}}, {"test": {"overall": None}},
     {"test": {"overall": math.nan}}],
)  # fmt: skip
def test_a_run_without_a_number_of_the_table_is_named(home, monkeypatch, judged):
    def train(job, runs, jobs):
        return {"found": judged if job.key == "plain | weak | 1" else {"test": {"overall": 0.5}}}

    monkeypatch.setattr(tables, "train", train)
    with pytest.raises(SystemExit, match=r"'plain \| weak \| 1' has no 'overall' of split 'test'"):
        made(home, monkeypatch)
    found = json.loads((home / "results" / "one.json").read_text())
    assert len(found["runs"]) == 3


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "{}", '{"runs": []}', '{"runs": {"plain | weak | 0": 3}}',
     '{"runs": {"plain | weak | 0": {}}}'],
)  # fmt: skip
def test_a_file_that_holds_no_results_is_refused_and_kept(home, monkeypatch, content):
    (home / "results").mkdir()
    path = home / "results" / "one.json"
    path.write_text(content)
    with pytest.raises(SystemExit, match=r"one\.json .*; restore it, or remove it") as refused:
        made(home, monkeypatch)
    assert "\n" not in str(refused.value)
    assert path.read_text() == content


def test_a_folder_of_another_command_is_refused(home):
    table = tables.Table.read(home / "tables" / "one.toml", home / "recipes")
    job = next(table.jobs())
    folder = home / "runs" / "plain" / "weak" / "0"
    folder.mkdir(parents=True)
    config = {"command": job.written().replace("--seed 0", "--seed 3") + " --out x"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CrossbiasError, match=r"holds the run of .*--seed 3 .*, not of .*--seed 0"):
        tables.train(job, home / "runs", 1)


def test_a_finished_run_is_written_while_others_train(home, monkeypatch):
    """The first run of the table ends last, and only after the second one is in the results."""
    path, shown = home / "results" / "one.json", threading.Event()

    def train(job, runs, jobs):
        if job.key == "plain | weak | 0":
            assert shown.wait(20)
            assert set(json.loads(path.read_text())["runs"]) >= {"plain | strong | 0"}
        return {"found": {"test": {"overall": 0.5}}}

    def write(*arguments):
        original(*arguments)
        shown.set()

    original = tables.write
    monkeypatch.setattr(tables, "train", train)
    monkeypatch.setattr(tables, "write", write)
    assert len(made(home, monkeypatch, "--jobs", "2")["runs"]) == 4


class Trainings:
    """Takes the place of training: ten seconds a run, by a clock of its own."""

    def __init__(self, monkeypatch, refused: str = "") -> None:
        self.started: list[str] = []
        self.seconds, self.refused = 0.0, refused
        monkeypatch.setattr(tables, "train", self.train)
        monkeypatch.setattr(tables.time, "monotonic", lambda: self.seconds)

    def train(self, job, runs, jobs):
        self.started.append(f"{runs.name}: {job.key}")
        self.seconds += 10
        if job.key == self.refused:
            raise CrossbiasError(f"{job.key} cannot be continued")
        return {"found": {"test": {"overall": 0.5}}}


def test_a_queue_takes_parts_of_several_tables_in_the_order_of_their_names(home, monkeypatch):
    other = TABLE.format(recipe="tiny").replace("[rows.plain]", '[rows."plain, again"]')
    (home / "tables" / "two.toml").write_text(other)
    trainings = Trainings(monkeypatch)
    queue = ("two:plain, again:strong:1", "one::weak", "two:::1", "one:plain")
    found = made(home, monkeypatch, queue=queue)
    assert trainings.started == [
        "two: plain, again | strong | 1",
        "one: plain | weak | 0",
        "one: plain | weak | 1",
        "two: plain, again | weak | 1",
        "one: plain | strong | 0",
        "one: plain | strong | 1",
    ]
    assert len(found["runs"]) == 4
    two = json.loads((home / "results" / "two.json").read_text())
    assert set(two["runs"]) == {f"plain, again | {column} | 1" for column in ("weak", "strong")}


def test_no_run_starts_after_the_time_limit_and_the_next_call_goes_on(home, monkeypatch, capsys):
    trainings = Trainings(monkeypatch)
    assert len(made(home, monkeypatch, "--stop-after", "15")["runs"]) == 2
    assert "2 runs were not started; the same command continues" in capsys.readouterr().out
    assert len(made(home, monkeypatch, "--stop-after", "15")["runs"]) == 4
    assert len(set(trainings.started)) == len(trainings.started) == 4
    assert "not started" not in capsys.readouterr().out


def test_a_run_that_is_refused_does_not_stop_the_others(home, monkeypatch):
    Trainings(monkeypatch, refused="plain | strong | 0")
    with pytest.raises(SystemExit, match=r"plain \| strong \| 0 cannot be continued"):
        made(home, monkeypatch)
    found = json.loads((home / "results" / "one.json").read_text())
    assert len(found["runs"]) == 3


def test_a_run_with_other_data_is_refused_and_the_results_stay_as_they_are(home, monkeypatch):
    path = home / "tables" / "one.toml"
    path.write_text(path.read_text() + '[rows.other]\nrecipe = "tiny"\n')

    def train(job, runs, jobs):
        data = job.key if job.column == "weak" else "the same"
        return {"found": {"test": {"overall": 0.5}}, "hashes": {"test": data}}

    monkeypatch.setattr(tables, "train", train)
    with pytest.raises(
        SystemExit, match=r"'plain \| weak \| 0' and 'other \| weak \| 0' have other"
    ):
        made(home, monkeypatch)
    found = json.loads((home / "results" / "one.json").read_text())
    assert set(found["runs"]) == {
        *(f"{row} | strong | {seed}" for row in ("plain", "other") for seed in (0, 1)),
        *(f"plain | weak | {seed}" for seed in (0, 1)),
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("won", r"there is no table 'won' \(did you mean 'one'"),
        ("one:plane", r"'one:plane' names a row that is not in the table: 'plane' \(did you mean"),
        ("one::week", r"names a column that is not in the table: 'week' \(did you mean 'weak'"),
        ("one:plain:weak:7", r"names a seed that is not in the table: '7'.*; there are: 0, 1"),
        ("one:plain:weak:0:1", "has too many parts; it may have a row, a column and a seed"),
    ],
)
def test_what_is_not_in_a_table_is_refused(home, monkeypatch, name, message):
    with pytest.raises(SystemExit, match=message):
        made(home, monkeypatch, queue=(name,))


def test_an_interrupted_run_is_no_result(home, monkeypatch, capsys):
    table = tables.Table.read(home / "tables" / "one.toml", home / "recipes")
    job = next(table.jobs())
    for code in (130, -9, 255):
        answer = SimpleNamespace(returncode=code, stderr="stopped on request")
        monkeypatch.setattr(tables.Program, "run", lambda *_, answer=answer, **__: answer)
        assert tables.train(job, home / "runs", 1) is None
        assert "plain | weak | 0 was interrupted" in capsys.readouterr().out


@pytest.mark.parametrize(
    "reason",
    [
        "No space left on device", "CUDA out of memory. Tried 2 GiB",
        "CUDA error: out of memory", "you tried to allocate 9 bytes. Cannot allocate memory",
        "numpy: Unable to allocate 1.00 TiB", "MemoryError",
    ],
)  # fmt: skip
def test_a_run_that_the_machine_ended_is_no_result(home, monkeypatch, reason):
    answer = SimpleNamespace(returncode=1, stderr=f"Traceback\n{reason}; no\nCompile with more")
    monkeypatch.setattr(tables.Program, "run", lambda *_, **__: answer)
    with pytest.raises(SystemExit, match=rf"'plain \| weak \| 0' was ended .* {reason}.*make room"):
        made(home, monkeypatch, queue=("one:::0",))
    assert json.loads((home / "results" / "one.json").read_text())["runs"] == {}


@pytest.mark.usefixtures("program")
def test_a_run_in_the_results_keeps_all_but_its_weights(home, monkeypatch):
    (home / "recipes" / "tiny.toml").write_text(RECIPE.format(method="pgd"))
    found = made(home, monkeypatch, queue=("one:plain:weak:0",))
    folder = home / "runs" / "one" / "plain" / "weak" / "0"
    left = {file.name for file in folder.rglob("*") if file.is_file()}
    assert left >= {"done", "metrics.json", "predictions.npz", "scores.pt"}
    assert not left & {"checkpoint.pt", "model.safetensors", "biased.state.pt"}
    (home / "results" / "one.json").unlink()  # the folder still tells what came out
    assert made(home, monkeypatch, queue=("one:plain:weak:0",)) == found


def test_the_checkpoint_that_an_error_names_stays(home, monkeypatch):
    def train(job, runs, jobs):
        checkpoint = tables.folder_of(job, runs) / "checkpoint.pt"
        checkpoint.parent.mkdir(parents=True)
        checkpoint.touch()
        return {"failed": f"diverged; the last good checkpoint is {checkpoint}"}

    monkeypatch.setattr(tables, "train", train)
    found = made(home, monkeypatch, queue=("one:plain:weak:0",))
    (run,) = found["runs"].values()
    assert Path(run["failed"].split()[-1]).exists()


def test_a_run_that_fails_is_named_and_never_averaged(home, monkeypatch):
    table = home / "tables" / "one.toml"
    text = table.read_text().replace("[0, 1]", "[0]").replace("[[50.0, 60.0], 10.0]", "[10.0]")
    table.write_text(text.replace('strong = { "data.rho" = 0.9 }\n', ""))
    (home / "recipes" / "tiny.toml").write_text(RECIPE.format(method="erm") + "lr = 1e30\n")
    found = made(home, monkeypatch)
    assert all("diverged" in run["failed"] for run in found["runs"].values())
    assert [cell["n"] for cell in found["cells"]] == [0]
    assert "0, 1 failed" in (home / "results" / "one.md").read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"tiny"',
            '"tony"',
            r"recipe that is not there: 'tony' \(did you mean 'tiny'",
        ),
        (
            'recipe = "tiny"',
            'method = "emr"',
            r"row 'plain' of .* names a method that is not there: 'emr' \(did you mean 'erm'",
        ),
        ("[0, 1]", "[0, 0]", r"has a seed twice: \[0, 0\]"),
        ("title =", "titel =", "one.toml (lacks 'title'|has an unknown)"),
        ("[[50.0, 60.0], 10.0]", "[10.0]", "has 1 numbers of 'all' for 2 columns"),
        ("paper.all", "papers.all", r"unknown key 'papers' \(did you mean 'paper'"),
        ('recipe = "tiny"', "", "names neither a recipe nor a method"),
        ("paper.all", "at.week = {}\npaper.all", r"at 'week', which is no column \(did you mean"),
        ("[0, 1]", "[0, 1", r"one\.toml is not TOML: "),
        ("[0, 1]", "[]", r"seeds of .*one\.toml must be whole numbers from 0 on, got \[\]"),
        ("[0, 1]", '["0"]', r"seeds of .* must be whole numbers from 0 on, got \['0'\]"),
        ("[0, 1]", "2", "seeds of .* must be whole numbers from 0 on, got 2"),
        ('"overall"', '"overal"', r"metric 'all' of .*: 'overal' \(did you mean 'overall'"),
        ('number = "overall"', "", "metric 'all' of .* must have a split and a number"),
        ("[[50.0, 60.0], 10.0]", "5.0", "numbers of 'all' in row 'plain' of .*, got 5.0"),
        ("[[50.0, 60.0], 10.0]", '["50", 10.0]', "numbers of 'all' in row 'plain' of"),
        ("[[50.0, 60.0], 10.0]", "[[1.0, 2.0, 3.0], 10.0]", "numbers of 'all' in row 'plain' of"),
        ("paper.all =", "paper =", "paper of row 'plain' of .* must be a table, got"),
        (
            'weak = { "data.rho" = 0.5 }',
            "weak = 0.5",
            "column 'weak' of .* must be a table, got 0.5",
        ),
        ("paper.all", "set = 3\npaper.all", "set of row 'plain' of .* must be a table, got 3"),
        ("paper.all", "at.weak = 3\npaper.all", "'weak' in at of row 'plain' .* a table, got 3"),
        ('recipe = "tiny"', "recipe = 3", "recipe of row 'plain' of .* must be text, got 3"),
    ],
)
def test_mistakes_in_a_table_are_refused(home, old, new, message):
    path = home / "tables" / "one.toml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(CrossbiasError, match=message):
        tables.Table.read(path, home / "recipes")


def test_settings_of_a_row_in_one_column(home):
    path = home / "tables" / "one.toml"
    path.write_text(path.read_text() + 'set."train.lr" = 1\nat.weak."train.lr" = 2\n')
    table = tables.Table.read(path, home / "recipes")
    rates = {(job.column, job.settings["train.lr"]) for job in table.jobs()}
    assert rates == {("weak", 2), ("strong", 1)}


def test_rows_with_other_data_do_not_share_a_column(home):
    path = home / "tables" / "one.toml"
    path.write_text(path.read_text() + '[rows.other]\nrecipe = "tiny"\n')
    table = tables.Table.read(path, home / "recipes")
    runs = {
        "plain | weak | 0": {"hashes": {"train": "a", "test": "b"}},
        "other | weak | 0": {"hashes": {"train": "a", "test": "c"}},
    }
    with pytest.raises(CrossbiasError, match=r"'plain .* and 'other .* have other data in test"):
        tables.check_same_data(table, runs)
    path.write_text(path.read_text() + 'set = { "data.image_size" = 20 }\n')
    tables.check_same_data(tables.Table.read(path, home / "recipes"), runs)


def experiment_of(job: tables.Job) -> Experiment:
    """What the command line would run."""
    start = Experiment.from_toml(ROOT / "recipes" / f"{job.recipe}.toml", trust=True)
    if job.method:
        start = start.updated(method={"name": job.method})
    arguments = job.command()
    written = [arguments[i + 1] for i, word in enumerate(arguments) if word == "--set"]
    return start.updated(**settings(written))


def first_of_each_kind(table: tables.Table) -> Iterator[tables.Job]:
    """For each row, one run on each data set in the columns."""
    jobs = [job for job in table.jobs() if job.seed == 0]
    kinds = {(job.row, job.settings.get("data.name")): job for job in reversed(jobs)}
    return reversed(kinds.values())


@pytest.mark.parametrize("path", sorted((ROOT / "tables").glob("*.toml")), ids=lambda p: p.stem)
def test_every_cell_of_a_table_is_a_training_with_its_own_seeds(path):
    table = tables.Table.read(path, ROOT / "recipes")
    assert table.seeds == [0, 1, 2]
    for job in table.jobs():
        command = " ".join(job.command())
        assert f"--seed {job.seed} " in command
        assert command.endswith(f"--set data.seed={job.seed}")
        if job.recipe is None:
            continue
        experiment = experiment_of(job)
        method = dict(experiment.method)
        assert create_method(method.pop("name"), **method)
        for metric in table.metrics.values():
            assert metric["split"] in experiment.source.splits
        assert experiment.recipe()
        assert TrainConfig.from_dict(experiment.train)


OWN = ("shortcuts", "shortcuts-pretrained")  # their folders are made by another program
STARTS = [
    pytest.param(job, path, id=f"{path.stem} {job.row} {job.column}")
    for path in sorted((ROOT / "tables").glob("*.toml"))
    if path.stem not in OWN
    for job in first_of_each_kind(tables.Table.read(path, ROOT / "recipes"))
]
SHORT = {
    "train.epochs": 1,
    "train.steps": 2,
    "train.batch_size": 20,
    "train.device": "cpu",
    "train.precision": "float32",
}


def test_features_are_swapped_while_the_rate_is_that_of_the_start():
    """In PGD's recipes, training ends in effect when the rate falls first."""
    table = tables.Table.read(ROOT / "tables" / "pgd-table-1.toml", ROOT / "recipes")
    experiment = experiment_of(next(job for job in table.jobs() if job.row == "disent"))
    config = TrainConfig.from_dict(experiment.train)
    method = dict(experiment.method)
    start = create_method(method.pop("name"), **method).swap_start
    rates = [learning_rate(config, epoch, config.epochs) for epoch in range(config.epochs)]
    full = rates.count(config.lr)
    assert start * config.epochs == pytest.approx(full / 5)


@pytest.mark.parametrize("name", [f"pgd-table-{number}" for number in (1, 2, 5, 6, 12, 13)])
def test_a_shorter_training_is_the_beginning_of_the_papers(name):
    """Epoch by epoch the same fraction of the rate, and what is left out has hardly any rate."""
    table = tables.Table.read(ROOT / "tables" / f"{name}.toml", ROOT / "recipes")
    shorter = [job for job in table.jobs() if "train.epochs" in job.settings]
    assert shorter
    for job in shorter:
        recipe = Experiment.from_toml(ROOT / "recipes" / f"{job.recipe}.toml", trust=True)
        own, whole = (
            [
                learning_rate(config, epoch, config.epochs) / config.lr
                for epoch in range(config.epochs)
            ]
            for config in (
                TrainConfig.from_dict(each.train) for each in (experiment_of(job), recipe)
            )
        )
        assert own == pytest.approx(whole[: len(own)])
        assert max(whole[len(own) :]) <= 1.001e-3
        assert job.settings.get("method.biased_epochs", len(own)) == len(own)


@pytest.mark.parametrize("name", ["ie", "bar-original"])
def test_ie_stands_beside_its_base_with_the_same_ensemble(name):
    table = tables.Table.read(ROOT / "tables" / f"{name}.toml", ROOT / "recipes")
    made = {}
    for job in table.jobs():
        if job.row in ("ie", "lff with ensemble"):
            experiment = experiment_of(job)
            method = create_method(**experiment.method)
            ensemble = (method.members, method.ensemble_length, method.q)
            made[job.row] = (ensemble, experiment.data, experiment.network, experiment.train)
    assert made["ie"] == made["lff with ensemble"]


def few_originals(collection: str, part: str, root: Path | None) -> Original:
    """Noise with labels in place of the collections, enough to start on."""
    count = 60 if part == "train" else 20
    generator = torch.Generator().manual_seed(count)
    images = torch.randint(0, 256, (count, 28, 28), dtype=torch.uint8, generator=generator)
    return Original(images, torch.arange(count) % 10)


def run_here(_: str, arguments: list[str], *__: object, **___: object) -> SimpleNamespace:
    """The program that the table starts, in this process."""
    errors = io.StringIO()
    sys.argv = arguments
    with redirect_stderr(errors), redirect_stdout(io.StringIO()), pytest.raises(SystemExit) as end:
        main()
    return SimpleNamespace(returncode=end.value.code or 0, stderr=errors.getvalue())


def few_photographs(root: Path) -> None:
    """Noise in place of BAR, five images of each action in each split."""
    generator = torch.Generator().manual_seed(0)
    for split in ("train", "test"):
        folder = root / "bar" / split
        folder.mkdir(parents=True)
        for number, action in enumerate(ACTIONS * 5):
            noise = torch.randint(0, 256, (64, 64, 3), dtype=torch.uint8, generator=generator)
            Image.fromarray(noise.numpy()).save(folder / f"{action}_{number}.jpg")


@pytest.mark.slow
@pytest.mark.parametrize(("job", "path"), STARTS)
def test_every_row_starts_and_gives_the_numbers_of_the_table(job, path, tmp_path, monkeypatch):
    """Two steps on a few images of each data set in the columns, by the commands of the table."""
    monkeypatch.setattr(digit_source, "load_original", few_originals)
    few_photographs(tmp_path)
    monkeypatch.setenv("CROSSBIAS_DATA", str(tmp_path))
    monkeypatch.setattr(BAR, "fit", Fit(64, "squash"))
    untrained = partial(timm.create_model, "tf_efficientnet_lite0", pretrained=False)
    monkeypatch.setattr(backbone, "pretrained", untrained)
    monkeypatch.setattr(tables.Program, "run", run_here)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.chdir(ROOT)
    table = tables.Table.read(path, ROOT / "recipes")
    record = tables.train(replace(job, settings=job.settings | SHORT), tmp_path, 1)
    assert record is not None
    assert "failed" not in record
    for metric in table.metrics.values():
        assert 0 <= record["found"][metric["split"]][metric["number"]] <= 1


@pytest.mark.parametrize("path", sorted((ROOT / "tables").glob("*.toml")), ids=lambda p: p.stem)
def test_the_tables_of_the_papers_are_right_and_shown_as_generated(path):
    table = tables.Table.read(path, ROOT / "recipes")
    results = ROOT / "benchmarks" / "results" / "tables" / f"{path.stem}.json"
    if results.exists():
        content = json.loads(results.read_text())
        tables.check_results(table, content["runs"])
        text = tables.markdown(table, content["cells"])
        assert results.with_suffix(".md").read_text() == text
        readme = (ROOT / "benchmarks" / "README.md").read_text()
        assert f"**{table.title}** ({table.paper})\n\n<!-- table {path.stem} -->\n" in readme


@pytest.mark.parametrize("page", table_pages.pages(), ids=lambda page: page.stem)
def test_tables_in_the_documentation_are_those_of_the_results(page):
    """Else run ``python -m benchmarks.table_pages``."""
    text = page.read_text(encoding="utf-8")
    assert table_pages.filled(text, ROOT / "benchmarks" / "results" / "tables") == text
    assert text.count("<!-- table ") == text.count("<!-- end of table -->")
    assert text.count("<!-- failures ") == text.count("<!-- end of failures -->")


def test_a_page_gets_the_rows_that_it_names(home, monkeypatch):
    monkeypatch.setattr(table_pages, "ROOT", home)
    (home / "results").mkdir()
    numbers = {"n": 2, "failed": [], "mean": 50.04, "deviation": 1.26}
    cells = [
        {"row": "plain", "metric": "all", "column": "weak"} | numbers
        | {"paper": 50.05, "spread": 2.0, "difference": -0.01},
        {"row": "plain", "metric": "all", "column": "strong"} | numbers
        | {"n": 0, "failed": ["diverged"], "paper": 10.0, "spread": None},
    ]  # fmt: skip
    (home / "results" / "one.json").write_text(json.dumps({"cells": cells}))
    page = "Before.\n<!-- table one{} -->\nold\n<!-- end of table -->\nAfter.\n"
    found = table_pages.filled(page.format(": plain"), home / "results")
    assert found.splitlines() == [
        "Before.",
        "<!-- table one: plain -->",
        "| measured | row | weak | strong |",
        "|---|---|---|---|",
        "| all | plain | 50.0 ± 1.3 (2) | 1 failed |",
        "|  | in the paper | 50.0 ± 2.0 (+0.0) | 10.0 |",
        "<!-- end of table -->",
        "After.",
    ]
    assert table_pages.filled(found, home / "results") == found
    (home / "results" / "one.json").write_text(json.dumps({"cells": cells[:1]}))
    found = table_pages.filled(found, home / "results")
    assert f"| all | plain | 50.0 ± 1.3 (2) | {DASH} |\n" in found
    cells[0]["failed"] = ["diverged"]
    (home / "results" / "one.json").write_text(json.dumps({"cells": cells[:1]}))
    failed = table_pages.filled(found, home / "results")
    assert f"| all | plain | 50.0 ± 1.3 (2, 1 failed) | {DASH} |\n" in failed
    assert "|  | in the paper | 50.0 ± 2.0 (+0.0) | 10.0 |\n" in found  # what is left to reach
    with pytest.raises(CrossbiasError, match="the table one has no row 'fancy': plain"):
        table_pages.filled(page.format(": plain; fancy"), home / "results")


def test_a_page_gets_the_measure_that_it_names(home, monkeypatch):
    monkeypatch.setattr(table_pages, "ROOT", home)
    path = home / "tables" / "one.toml"
    more = '[metrics."class average"]\nsplit = "test"\nnumber = "class_averaged"\n'
    path.write_text(path.read_text().replace("[columns]", more + "[columns]"))
    (home / "results").mkdir()
    cells = [
        {"row": "plain", "metric": metric, "column": "weak", "n": 1, "failed": [], "mean": mean}
        | {"deviation": None}
        for metric, mean in (("all", 50.0), ("class average", 40.0))
    ]
    (home / "results" / "one.json").write_text(json.dumps({"cells": cells}))
    page = "<!-- table one, {}: plain -->\n<!-- end of table -->\n"
    found = table_pages.filled(page.format("class average"), home / "results")
    assert f"| class average | plain | 40.0 (1) | {DASH} |\n" in found
    assert "| all |" not in found
    with pytest.raises(CrossbiasError, match="table one has no measure 'al': all, class average"):
        table_pages.filled(page.format("al"), home / "results")
