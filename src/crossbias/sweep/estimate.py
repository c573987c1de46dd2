"""estimate: how long a sweep will take, from a few timed steps of each kind of run."""

import json
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from crossbias.data import BiasedDataset
from crossbias.progress import Progress
from crossbias.sweep.job import Job
from crossbias.train.config import TrainConfig

_STEPS = (2, 12)  # of the two timed trainings


class Timing(NamedTuple):
    """How fast runs of one method, data, network and device are.

    Args:
        fixed: Seconds of a run without its steps: reading data, judging, writing.
        sample: Seconds for each sample that is trained on.
    """

    fixed: float
    sample: float


def estimate(jobs: Sequence[Job], progress: Progress | None = None) -> list[float]:
    """The seconds that each run would take alone, in the same order.

    One run of each method, data, network and device is trained for a few steps, twice, in a folder
    that is deleted. The difference is the time of the steps, which grows with the length of the
    training.
    """
    kinds: dict[str, list[Job]] = {}
    for job in jobs:
        kinds.setdefault(_kind(job), []).append(job)
    found: dict[str, float] = {}
    for alike in kinds.values():
        if progress is not None:
            progress.note(f"timing {alike[0].name}")
        timing, data = _timed(alike[0])
        for job in alike:
            found[job.name] = _seconds(timing, job.experiment().training(data), len(data))
    return [found[job.name] for job in jobs]


def _kind(job: Job) -> str:
    """What the time of a step depends on, but for the size of a batch."""
    tables = [job.tables[table] for table in ("method", "data", "network")]
    return json.dumps([*tables, job.tables["train"].get("device")], default=str)


def _timed(job: Job) -> tuple[Timing, BiasedDataset]:
    """How fast a run is, and its training data."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for steps in _STEPS:
            train = {**job.tables["train"], "steps": steps, "epochs": 1}
            short = replace(job, tables={**job.tables, "train": train})
            started = time.perf_counter()
            experiment = short.experiment()
            experiment.run(Path(folder, str(steps)))
            seconds.append(time.perf_counter() - started)
    data = experiment.split("train")
    size = experiment.training(data).batch_size
    each = max(seconds[1] - seconds[0], 0.0) / ((_STEPS[1] - _STEPS[0]) * size)
    return Timing(max(seconds[0] - _STEPS[0] * size * each, 0.0), each), data


def _seconds(timing: Timing, config: TrainConfig, samples: int) -> float:
    """The seconds of a run with these settings on so many training samples."""
    epoch = config.epoch_size or samples
    steps = config.steps or config.epochs * math.ceil(epoch / config.batch_size)
    return timing.fixed + timing.sample * steps * config.batch_size
