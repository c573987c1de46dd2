"""estimate: how long a sweep will take, from a few timed steps of each method, data and network."""

import json
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from crossbias.progress import Progress
from crossbias.runs.files import read_json
from crossbias.sweep.job import Job

_STEPS = (2, 12)  # of the two timed trainings


class Timing(NamedTuple):
    """How fast runs of one method, data and network are.

    Args:
        fixed: Seconds of a run without its steps: reading data, judging, writing.
        sample: Seconds for each sample that is trained on.
        samples: Training samples.
    """

    fixed: float
    sample: float
    samples: int


def estimate(jobs: Sequence[Job], progress: Progress | None = None) -> list[float]:
    """The seconds that each run would take alone, in the same order.

    One run of each method, data and network is trained for a few steps, twice, in a folder that is
    deleted. The difference is the time of the steps, which grows with the length of the training.
    """
    timings: dict[str, Timing] = {}
    found = []
    for job in jobs:
        kind = json.dumps(
            [job.tables[table] for table in ("method", "data", "network")], default=str
        )
        if kind not in timings:
            if progress is not None:
                progress.note(f"timing {job.name}")
            timings[kind] = _timed(job)
        found.append(_seconds(timings[kind], job.tables["train"]))
    return found


def _timed(job: Job) -> Timing:
    seconds, settings = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for steps in _STEPS:
            train = {**job.tables["train"], "steps": steps, "epochs": 1}
            short = replace(job, tables={**job.tables, "train": train})
            started = time.perf_counter()
            experiment = short.experiment()
            experiment.run(Path(folder, str(steps)))
            seconds.append(time.perf_counter() - started)
            settings = read_json(Path(folder, str(steps), "config.json"))["train"]
        samples = len(experiment.split("train"))
    trained = (_STEPS[1] - _STEPS[0]) * settings["batch_size"]
    each = max(seconds[1] - seconds[0], 0.0) / trained
    fixed = max(seconds[0] - _STEPS[0] * settings["batch_size"] * each, 0.0)
    return Timing(fixed, each, samples)


def _seconds(timing: Timing, train: Mapping[str, Any]) -> float:
    """The seconds of a run by what its table [train] says."""
    from crossbias.train.config import TrainConfig

    config = TrainConfig.from_dict(train)
    epoch = config.epoch_size or timing.samples
    steps = config.steps or config.epochs * math.ceil(epoch / config.batch_size)
    return timing.fixed + timing.sample * steps * config.batch_size
