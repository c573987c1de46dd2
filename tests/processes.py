"""Programs in processes of their own that need not import torch first.

A new interpreter needs seconds to import what trains. These processes are forks of one that has
imported it and does nothing else. A test of what is imported starts an interpreter itself.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from pathlib import Path

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        *("pytest", "scipy.special", "typer._adapters"),
        *("crossbias.cli", "crossbias.train.run", "crossbias.data.images.decoding"),
    ]
)


class Program:
    """Python code in a process of its own, handled like a ``subprocess.Popen``.

    Args:
        code: What the process runs.
        argv: Its ``sys.argv``.
        folder: Where it starts; the current folder if not given.
        environment: Added to the environment of this process.
    """

    def __init__(
        self,
        code: str,
        argv: Sequence[str] = ("-c",),
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._printed = tempfile.TemporaryDirectory()
        self._files = [Path(self._printed.name, name) for name in ("out", "err")]
        for file in self._files:
            file.touch()
        variables = {**os.environ, **(environment or {})}
        arguments = (code, argv, folder or Path.cwd(), variables, self._files)
        self._process = _FORKS.Process(target=_run, args=arguments)
        self._process.start()

    @property
    def returncode(self) -> int | None:
        """The exit code; the number of a signal that ended it is negative."""
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        os.kill(self._process.pid, number)

    def communicate(self, timeout: float = 300) -> tuple[str, str]:
        """Wait for the end; what the process printed and its errors."""
        self._process.join(timeout)
        if self.returncode is None:
            self._process.kill()
            self._process.join()
        out, err = (file.read_text() for file in self._files)
        self._printed.cleanup()
        return out, err

    @classmethod
    def run(cls, *arguments: object, **named: object) -> subprocess.CompletedProcess:
        """Start a program and wait for its end."""
        process = cls(*arguments, **named)
        out, err = process.communicate()
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def stop() -> None:
    """End the process that forks, and wait: its time and its children's are those of the tests."""
    forkserver._forkserver._stop()


def _run(
    code: str, argv: Sequence[str], folder: Path, variables: Mapping[str, str], files: list[Path]
) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    for number, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY), number)
    sys.argv = list(argv)
    exec(code, {"__name__": "__main__"})
