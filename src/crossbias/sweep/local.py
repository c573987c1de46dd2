"""LocalExecutor: each run in a process of its own on this machine."""

import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from crossbias.sweep.job import Job, Outcome
from crossbias.sweep.worker import train_job

_PRELOADED = ["__main__", "crossbias.sweep.worker", "crossbias.train.run"]
_MARGIN = 1.1  # times the most memory that a run had, before another one starts


class _Running(NamedTuple):
    job: Job
    process: BaseProcess
    answer: Connection
    device: int | None


class LocalExecutor:
    """Processes of this machine, forked from one that has imported torch already.

    A further run starts only if the memory that earlier runs needed is free.

    Args:
        folder: The sweep's folder.
        jobs: How many runs to train at a time.
        threads: Threads of each run.
        devices: Number of GPUs; the runs are spread over them.
    """

    def __init__(self, folder: Path, *, jobs: int, threads: int, devices: int = 0) -> None:
        self.folder, self.jobs, self.threads, self.devices = folder, jobs, threads, devices
        self._running: dict[str, _Running] = {}
        self._memory = self._device_memory = 0
        forks = "forkserver" in multiprocessing.get_all_start_methods()
        # A fork of a process that has imported torch starts in milliseconds.
        self._context: Any = multiprocessing.get_context("forkserver" if forks else "spawn")
        if forks:
            self._context.set_forkserver_preload(_PRELOADED)

    def room(self) -> int:
        """One at a time, so that each start sees the memory that the others have taken."""
        if len(self._running) >= self.jobs:
            return 0
        return 1 if not self._running or self._memory_suffices() else 0

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start a process for each job."""
        for job in jobs:
            device = self._least_used_device()
            mine, theirs = self._context.Pipe(duplex=False)
            arguments = (job, self.folder, theirs, self.threads, device)
            process = self._context.Process(target=_run, args=arguments, name=job.name)
            process.start()
            theirs.close()
            self._running[job.name] = _Running(job, process, mine, device)

    def ended(self, seconds: float) -> list[Outcome]:
        """Outcomes of processes that ended, also of those that were killed."""
        by_sentinel = {each.process.sentinel: each for each in self._running.values()}
        outcomes = []
        for sentinel in wait(list(by_sentinel), seconds):
            running = by_sentinel[sentinel]  # type: ignore[index]
            outcomes.append(self._outcome(running))
            del self._running[running.job.name]
        return outcomes

    def stop(self) -> None:
        """Ask every process to save and end."""
        for running in self._running.values():
            running.process.terminate()

    def close(self) -> None:
        """Nothing is left to release: the processes have ended."""

    def _outcome(self, running: _Running) -> Outcome:
        running.process.join()
        try:
            outcome: Outcome = running.answer.recv()
        except EOFError:  # it died before it could answer
            code = running.process.exitcode or 0
            how = (
                f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
            )
            outcome = Outcome(running.job.name, "failed", f"the process {how}")
        running.answer.close()
        running.process.close()
        self._memory = max(self._memory, outcome.memory)
        self._device_memory = max(self._device_memory, outcome.device_memory)
        return outcome

    def _least_used_device(self) -> int | None:
        used = [running.device for running in self._running.values()]
        return min(range(self.devices), key=used.count) if self.devices else None

    def _memory_suffices(self) -> bool:
        free = free_memory()
        if free is not None and free < _MARGIN * self._memory:
            return False
        device = self._least_used_device()
        if device is None or not self._device_memory:
            return True
        on_devices = free_device_memory()
        return device >= len(on_devices) or on_devices[device] >= _MARGIN * self._device_memory


def _run(job: Job, folder: Path, answer: Connection, threads: int, device: int | None) -> None:
    """What the process of a run does."""
    import torch

    if device is not None:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        own = visible.split(",")[device] if visible else str(device)
        os.environ["CUDA_VISIBLE_DEVICES"] = own
    torch.set_num_threads(threads)
    answer.send(train_job(job, folder))
    answer.close()


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


def free_device_memory() -> list[int]:
    """Free memory of each GPU in bytes, without taking any of it; empty where nobody knows."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    found = subprocess.run(query, capture_output=True, text=True, check=False)
    return [int(line) * 2**20 for line in found.stdout.split("\n") if line.strip().isdigit()]
