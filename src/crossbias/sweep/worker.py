"""train_job: one run of a sweep, in whatever process a backend gives it."""

import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from crossbias.errors import CrossbiasError, Interrupted
from crossbias.formatting import visible
from crossbias.progress import shown_progress
from crossbias.runs.sweeps import SweepFolder
from crossbias.sweep.job import Job, Outcome

_LONGEST = 500  # characters of a last line


def train_job(job: Job, folder: Path) -> Outcome:
    """Train a run of a sweep to its end, or resume it; a finished run is left alone.

    What the run prints goes to ``logs`` of the sweep's folder. Whatever happens to the run, this
    returns: the other runs of the sweep go on. The line of a failed run names the machine, which
    may be the only one that lacks something.
    """
    sweep = SweepFolder(folder)
    if not sweep.exists:  # else the run would be made on this machine, where nobody looks for it
        return _failed(job, f"this machine does not see the sweep's folder {folder}")
    run = sweep.runs / job.name
    if (run / "done").exists():
        return Outcome(job.name, "finished")
    try:
        sweep.output.mkdir(parents=True, exist_ok=True)
        with _printed_to(sweep.output / f"{job.name}.txt"), _command_is(job, run):
            return _trained(job, run)
    except OSError as error:
        return _failed(job, f"cannot write to {folder}: {error.strerror or error}")


def _trained(job: Job, run: Path) -> Outcome:
    try:
        resume = (run / "config.json").exists()
        job.experiment().run(run, resume=resume, progress=shown_progress())
    except Interrupted as error:
        sys.stderr.write(f"{error}\n")
        return Outcome(job.name, "stopped", "", *_memory())
    except (CrossbiasError, MemoryError) as error:
        sys.stderr.write(f"{error}\n")
        return _failed(job, str(error) or "the memory is used up")
    except Exception as error:  # one run must not end the others
        traceback.print_exc()
        return _failed(job, f"{type(error).__name__}: {error}")
    return Outcome(job.name, "finished", "", *_memory())


def _failed(job: Job, line: str) -> Outcome:
    last = (line.strip().splitlines() or ["no message"])[-1]
    return Outcome(job.name, "failed", f"{visible(last)[:_LONGEST]} (on {socket.gethostname()})")


def _memory() -> tuple[int, int]:
    """The most memory of this process and of its GPU so far, in bytes."""
    import torch

    used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    on_device = torch.cuda.max_memory_reserved() if used else 0
    try:
        import resource
    except ImportError:  # Windows
        return 0, on_device
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return peak, on_device


@contextmanager
def _printed_to(path: Path) -> Iterator[None]:
    """Inside this, what is printed is added to a file."""
    with (
        open(path, "a", encoding="utf-8", errors="backslashreplace", buffering=1) as file,
        redirect_stdout(file),
        redirect_stderr(file),
    ):
        yield


@contextmanager
def _command_is(job: Job, run: Path) -> Iterator[None]:
    """Inside this, the command of the process is the one that trains this run alone."""
    before = sys.argv
    sys.argv = [*job.arguments(), "--out", str(run)]
    try:
        yield
    finally:
        sys.argv = before
