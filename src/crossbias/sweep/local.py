"""LocalExecutor: each run in a process of its own on this machine."""

import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from crossbias.runs.writer import is_written
from crossbias.sweep.job import Job, Outcome
from crossbias.sweep.worker import train_job

_PRELOADED = [  # what a run imports
    *("__main__", "crossbias.sweep.worker", "crossbias.train.run"),
    *("filelock", "rich.console", "scipy.special", "timm"),
]
_RUNS = 50  # of one process, before a new one takes its place
_SAVING_SECONDS = 30.0  # that a run may take to save after its driver was killed
_MARGIN = 1.1  # times the most memory that a run had, before another one starts


@dataclass
class _Worker:
    """A process that trains one run after the other."""

    process: BaseProcess
    channel: Connection
    device: int | None
    job: Job | None = None
    trained: int = 0


class LocalExecutor:
    """Processes of this machine, forked from one that has imported torch already.

    A process trains several runs, because a new one needs longer than a tiny run. A run that fails
    takes its process with it. If the process that drives the sweep is killed, the runs save and
    end. A further run starts only if the memory that earlier runs needed is free.

    Args:
        folder: The sweep's folder.
        jobs: How many runs to train at a time.
        threads: Threads of each run.
        devices: Number of GPUs; the runs are spread over them.
    """

    def __init__(self, folder: Path, *, jobs: int, threads: int, devices: int = 0) -> None:
        self.folder, self.jobs, self.threads, self.devices = folder, jobs, threads, devices
        self._workers: list[_Worker] = []
        self._memory = self._device_memory = 0
        self._stopping = False
        forks = "forkserver" in multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("forkserver" if forks else "spawn")
        if forks:
            self._context.set_forkserver_preload(_PRELOADED)

    def room(self) -> int:
        """One at a time, so that each start sees the memory that the others have taken."""
        busy = self._busy()
        if len(busy) >= self.jobs:
            return 0
        return 1 if not busy or self._memory_suffices() else 0

    def submit(self, jobs: Sequence[Job]) -> None:
        """Give each job to an idle process, or to a new one."""
        for job in jobs:
            device = self._least_used_device()
            idle = [each for each in self._workers if not each.job and each.device == device]
            worker = idle[0] if idle else self._started(device)
            worker.job = job
            worker.channel.send(job)

    def ended(self, seconds: float) -> list[Outcome]:
        """Outcomes of runs that ended, also of those whose process was killed."""
        by_channel = {worker.channel: worker for worker in self._busy()}
        if not by_channel:
            return []
        ready = wait(list(by_channel), seconds)
        return [self._outcome(worker) for channel, worker in by_channel.items() if channel in ready]

    def stop(self) -> None:
        """Ask every run to save and end."""
        self._stopping = True
        for worker in self._busy():
            worker.process.terminate()

    def close(self) -> None:
        """End the processes, which are idle."""
        for worker in list(self._workers):
            self._retire(worker)

    def _busy(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.job is not None]

    def _started(self, device: int | None) -> _Worker:
        mine, theirs = self._context.Pipe()
        arguments = (self.folder, theirs, self.threads, device)
        process = self._context.Process(target=_train_all, args=arguments)
        process.start()
        theirs.close()
        self._workers.append(_Worker(process, mine, device))
        return self._workers[-1]

    def _outcome(self, worker: _Worker) -> Outcome:
        assert worker.job is not None
        try:
            outcome: Outcome = worker.channel.recv()
        except (EOFError, OSError):  # it died before it could answer
            worker.process.join()
            code = worker.process.exitcode or 0
            ending = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            outcome = Outcome(worker.job.name, "failed", f"its process ended with {ending}")
            if self._stopping and code == -signal.SIGTERM:  # before its training began
                outcome = Outcome(worker.job.name, "stopped")
        worker.job, worker.trained = None, worker.trained + 1
        self._memory = max(self._memory, outcome.memory)
        self._device_memory = max(self._device_memory, outcome.device_memory)
        if outcome.state != "finished" or worker.trained >= _RUNS:
            self._retire(worker)
        return outcome

    def _retire(self, worker: _Worker) -> None:
        """Let a process end."""
        self._workers.remove(worker)
        worker.channel.close()
        worker.process.join()
        worker.process.close()

    def _least_used_device(self) -> int | None:
        used = [worker.device for worker in self._busy()]
        return min(range(self.devices), key=used.count) if self.devices else None

    def _memory_suffices(self) -> bool:
        free = free_memory()
        if free is not None and free < _MARGIN * self._memory:
            return False
        device = self._least_used_device()
        if device is None or not self._device_memory:
            return True
        free = free_device_memory(_gpu(device))
        return free is None or free >= _MARGIN * self._device_memory


def _train_all(folder: Path, channel: Connection, threads: int, device: int | None) -> None:
    """What a process does: train the runs that it is sent, until nobody sends more."""
    import torch

    if device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = _gpu(device)
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with_driver, daemon=True).start()
    while True:
        try:
            job = channel.recv()
            _wait_for_writer(folder / "runs" / job.name)
            channel.send(train_job(job, folder))
        except (EOFError, OSError):
            return


def _end_with_driver() -> None:
    """Let this process save and end as soon as the one that drives the sweep is gone."""
    driver = multiprocessing.parent_process()
    assert driver is not None
    driver.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _wait_for_writer(run: Path) -> None:
    """Wait until a process whose driver was killed has saved the run; longer ones are refused."""
    limit = time.monotonic() + _SAVING_SECONDS
    while is_written(run) and time.monotonic() < limit:
        time.sleep(0.05)


def free_memory(root: Path = Path("/")) -> int | None:
    """Memory that a new process can have, in bytes; None where nobody knows."""
    limits = []
    if sys.platform == "linux":
        meminfo = _read(root / "proc/meminfo")
        if found := re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo, re.MULTILINE):
            limits.append(int(found[1]) * 1024)
        most, used = (_read(root / f"sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
        if most.strip().isdigit() and used.strip().isdigit():  # the limit of a container
            limits.append(int(most) - int(used))
    return min(limits) if limits else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _gpu(device: int) -> str:
    """How the driver of the GPUs calls the device with this number among those to be used."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return visible.split(",")[device].strip() if visible else str(device)


def free_device_memory(gpu: str) -> int | None:
    """Free memory of a GPU in bytes, without taking any of it; None where nobody knows."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = [program, f"--id={gpu}", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    found = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    return int(found) * 2**20 if found.isdigit() else None
