"""Programs in processes of their own that need not import torch first.

A new interpreter needs seconds to import what trains. These processes are forks of one that has
imported it and does nothing else. Several threads may start them. A test of what is imported starts
an interpreter itself.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import connection, forkserver
from pathlib import Path
from typing import Any

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        *("pytest", "scipy.special", "typer._adapters"),
        *("crossbias.cli", "crossbias.train.run", "crossbias.train.devices"),
        "crossbias.data.images.decoding",
    ]
)
_ONE_AT_A_TIME = threading.Lock()  # each start looks at all other processes

LOST = 255
"""The exit code of a program if the process that forks was killed, and it with it."""


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
        with _ONE_AT_A_TIME:
            self._process.start()

    @property
    def returncode(self) -> int | None:
        """The exit code; the number of a signal that ended it is negative."""
        with _ONE_AT_A_TIME:
            return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        os.kill(self._process.pid, number)

    def communicate(self, timeout: float | None = 300) -> tuple[str, str]:
        """Wait for the end; what the process printed and its errors."""
        connection.wait([self._process.sentinel], timeout)
        if self.returncode is None:
            self._process.kill()
            connection.wait([self._process.sentinel])
        out, err = (file.read_text() for file in self._files)
        self._printed.cleanup()
        return out, err

    @classmethod
    def run(
        cls, *arguments: Any, timeout: float | None = 300, **named: Any
    ) -> subprocess.CompletedProcess[str]:
        """Start a program and wait for its end."""
        process = cls(*arguments, **named)
        out, err = process.communicate(timeout)
        code = process.returncode
        assert code is not None
        return subprocess.CompletedProcess(arguments, code, out, err)


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
