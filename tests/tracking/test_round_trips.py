"""Every tracker for real, offline: what its own reader finds of a run that was stopped."""

import json
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("logged.py")
EPOCHS = {"biased": [1, 2], "final": [1, 2, 3]}


@pytest.fixture(scope="module")
def found(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("logged")
    environment = {
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(folder),
        "WANDB_CACHE_DIR": str(folder / "cache"),
        "WANDB_CONFIG_DIR": str(folder / "config"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    done = program.run(PROGRAM.read_text(), ["logged.py", str(folder)], folder, environment)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "found.json").read_text()) | {"folder": folder}


@pytest.fixture(scope="module")
def log(found):
    """The lines of log.jsonl, by stage."""
    lines = (found["folder"] / "logged" / "log.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return {stage: [r for r in records if r["stage"] == stage] for stage in EPOCHS}


def test_logging_changes_no_bit_of_the_network(found):
    plain, logged = found["models"]
    assert plain == logged


def test_one_line_says_where_each_log_is_and_none_warns(found):
    said = [note for note in found["notes"] if note.startswith("logging to")]
    assert len(said) == 6  # of the start and of the resume
    assert not [note for note in found["notes"] if "goes on without" in note]


@pytest.mark.parametrize("stage", EPOCHS)
def test_tensorboard_reads_every_epoch_once(found, log, stage):
    scalars = found["tensorboard"]["scalars"]
    losses, accuracies = scalars[f"{stage}/loss/loss"], scalars[f"{stage}/validation/accuracy"]
    assert [step for step, _ in losses] == EPOCHS[stage]
    # Event files hold float32
    logged = [(record["losses"]["loss"], record["validation"]["accuracy"]) for record in log[stage]]
    assert [value for _, value in losses] == pytest.approx([loss for loss, _ in logged], rel=1e-6)
    assert [value for _, value in accuracies] == pytest.approx([a for _, a in logged], rel=1e-6)


def test_tensorboard_reads_configuration_results_and_ends(found):
    texts = found["tensorboard"]["texts"]
    assert json.loads(texts["config/text_summary"][0])["method"]["biased_epochs"] == 2
    assert [text.split(":")[0] for text in texts["end/text_summary"]] == [
        *("stopped", "finished", "finished")
    ]
    assert found["tensorboard"]["scalars"]["test/overall"][0][1] == pytest.approx(accuracy(found))


@pytest.mark.parametrize("stage", EPOCHS)
def test_mlflow_has_one_run_with_every_epoch_once(found, log, stage):
    (run,) = found["mlflow"]
    expected = [[record["epoch"], record["losses"]["loss"]] for record in log[stage]]
    assert run["metrics"][f"{stage}/loss/loss"] == expected


def test_mlflow_has_parameters_results_and_status(found):
    (run,) = found["mlflow"]
    assert (run["status"], run["name"], run["tags"]["stage"]) == ("FINISHED", "logged", "final")
    assert run["tags"]["reason"] == ""  # that of the stop is gone
    assert (run["params"]["method.name"], run["params"]["train.lr"]) == ("pgd", "0.01")
    assert run["metrics"]["test/overall"] == [[0, accuracy(found)]]


def test_wandb_has_one_run_with_every_epoch_once(found, log):
    runs = found["wandb"]
    assert len({run["id"] for run in runs}) == 1
    assert [run["exits"] for run in runs] == [[130], [0], [0]]
    rows = [row for run in runs for row in run["rows"]]
    assert [row["_step"] for row in rows] == [0, 1, 2, 3, 4]
    for stage, epochs in EPOCHS.items():
        own = [row for row in rows if f"{stage}/epoch" in row]
        assert [row[f"{stage}/epoch"] for row in own] == epochs
        expected = [record["losses"]["loss"] for record in log[stage]]
        assert [row[f"{stage}/loss/loss"] for row in own] == pytest.approx(expected)


def test_wandb_has_configuration_and_results(found):
    first, *_, last = found["wandb"]
    assert first["config"]["method"]["biased_epochs"] == 2
    assert last["summary"]["test/overall"] == pytest.approx(accuracy(found))


def accuracy(found) -> float:
    metrics = json.loads((found["folder"] / "logged" / "metrics.json").read_text())
    return metrics["test"]["overall"]["value"]
