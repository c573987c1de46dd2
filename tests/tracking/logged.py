"""Trainings with and without trackers, and what each tracker's own reader finds, as JSON.

Started by test_round_trips.py, since the libraries of the trackers take seconds to import. The
logged run is stopped in its second epoch and resumed; the test split is judged after its end.
"""

import glob
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import crossbias
from crossbias import TrainConfig
from crossbias.errors import Interrupted
from crossbias.methods import PGD
from crossbias.progress import Progress
from crossbias.runs.files import hash_of
from crossbias.testing import tiny_data, tiny_network
from crossbias.train.run import Run

CONFIG = TrainConfig(epochs=3, batch_size=16, device="cpu", lr=0.01)
BLOCK = 32768


class Notes(Progress):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        """Keep it."""
        self.texts.append(text)


def fitted(folder: Path, progress: Progress, **more: Any) -> crossbias.Result:
    validation = tiny_data(30, seed=1, split="validation")
    return crossbias.fit(
        PGD(biased_epochs=2), tiny_data(), validation, network=tiny_network(), config=CONFIG,
        folder=folder, progress=progress, **more,
    )  # fmt: skip


def train(folder: Path) -> list[str]:
    notes = Notes()
    test = tiny_data(60, seed=2, split="test")
    fitted(folder / "plain", Progress()).evaluate(test)
    asked: list[int] = []

    def in_second_epoch(run: Run, step: int) -> bool:
        asked.extend([step] if run.stage_name == "final" else [])
        return asked == [1, 2, 3, 1]

    with mock.patch.object(Run, "asked_to_stop", in_second_epoch):
        try:
            fitted(folder / "logged", notes, log=["tensorboard", "wandb", "mlflow"])
        except Interrupted as error:
            notes.texts.append(str(error))
    time.sleep(1.1)  # W&B names the folder of an offline run by the second
    resumed = fitted(folder / "logged", notes, resume=True)
    time.sleep(1.1)
    resumed.evaluate(test)
    return notes.texts


def from_tensorboard(folder: Path) -> dict[str, Any]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder))
    reader.Reload()
    return {
        "scalars": {
            tag: [(event.step, event.value) for event in reader.Scalars(tag)]
            for tag in reader.Tags()["scalars"]
        },
        "texts": {
            tag: [event.tensor_proto.string_val[0].decode() for event in reader.Tensors(tag)]
            for tag in reader.Tags()["tensors"]
        },
    }


def from_mlflow() -> list[dict[str, Any]]:
    from mlflow import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("crossbias")
    return [
        {
            "status": run.info.status,
            "name": run.info.run_name,
            "params": run.data.params,
            "tags": run.data.tags,
            "metrics": {
                name: [(entry.step, entry.value) for entry in history]
                for name in run.data.metrics
                if (history := client.get_metric_history(run.info.run_id, name))
            },
        }
        for run in client.search_runs([experiment.experiment_id])
    ]


def records_in(path: str) -> list[Any]:
    """The records of an offline run of W&B, whose file is a LevelDB log of its messages."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, parts, found = Path(path).read_bytes(), 7, b"", []
    while place + 7 <= len(content):
        if BLOCK - place % BLOCK < 7:  # too short for the head of a part
            place += BLOCK - place % BLOCK
            continue
        size, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        parts += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last part
            record = Record()
            record.ParseFromString(parts)
            found.append(record)
            parts = b""
    return found


def from_wandb(folder: Path) -> list[dict[str, Any]]:
    runs = []
    for path in sorted(glob.glob(f"{folder}/wandb/offline-run-*/*.wandb")):
        records = records_in(path)
        (begun,) = [record.run for record in records if record.HasField("run")]
        rows = [
            {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}
            for record in records
            if (items := record.history.item)
        ]
        summary: dict[str, Any] = {}
        for record in records:
            for item in record.summary.update:
                summary["/".join(item.nested_key) or item.key] = json.loads(item.value_json)
        exits = [record.exit.exit_code for record in records if record.HasField("exit")]
        config = {item.key: json.loads(item.value_json) for item in begun.config.update}
        runs.append(
            {"id": begun.run_id, "name": begun.display_name, "config": config, "rows": rows,
             "summary": summary, "exits": exits}
        )  # fmt: skip
    return runs


def main() -> None:
    warnings.simplefilter("ignore")  # the libraries of others have theirs
    folder = Path(sys.argv[1])
    notes = train(folder)
    models = [hash_of(folder / name / "model.safetensors") for name in ("plain", "logged")]
    found = {
        "notes": notes,
        "models": models,
        "tensorboard": from_tensorboard(folder / "logged" / "tensorboard"),
        "mlflow": from_mlflow(),
        "wandb": from_wandb(folder),
    }
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
