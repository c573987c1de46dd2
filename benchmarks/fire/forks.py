"""Commands in forks of this process, which has imported torch: thousands fit into minutes."""

import functools
import importlib.metadata
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple
from unicodedata import category

from PIL import Image

import crossbias.cli
from crossbias.train.environment import source_commit

# What commands import late is imported here once, not in every fork.
for _module in (
    *("scipy.special", "filelock", "numpy.testing", "PIL.ImageDraw", "typer._adapters"),
    *("rich._emoji_codes", "typer._click.decorators"),
    *("crossbias.train.run", "crossbias.judging", "crossbias.data.images.decoding"),
    *("crossbias.data.inspect.sheet", "crossbias.data.inspect.checking"),
    "crossbias.report.json_report",
):
    import_module(_module)
Image.init()
source_commit()
# Fabric reads the files of every installed package whenever a run begins; once is enough here.
importlib.metadata.entry_points = functools.cache(importlib.metadata.entry_points)

TRACEBACK = 70  # exit code of a command that raised an error which the command line did not expect
PATIENCE = 90.0  # seconds after which a command hangs


class Outcome(NamedTuple):
    """How a command ended."""

    code: int  # of a signal, its negative number
    out: str
    err: str

    @property
    def refused(self) -> bool:
        """Whether the command line refused in one line."""
        said = [line for line in self.err.splitlines() if line.startswith("crossbias: ")]
        return self.code in (1, 2, 130) and len(said) == 1 and "Traceback" not in self.err

    @property
    def sane(self) -> bool:
        """Whether the command ended well or refused in one line, and the terminal is safe."""
        return (self.code == 0 or self.refused) and not self.escapes

    @property
    def escapes(self) -> str:
        """Characters that were printed and steer a terminal or turn the direction of text."""
        printed = self.out + self.err
        return "".join(
            each for each in printed if each != "\n" and category(each) in ("Cc", "Cf", "Zl", "Zp")
        )

    def __str__(self) -> str:
        said = f"exit code {self.code}: {' | '.join(self.err.strip().splitlines()[-4:])[-600:]}"
        return f"{said}; printed {self.escapes!r}" if self.escapes else said


class Command:
    """A command of the command line that runs in a fork.

    Args:
        arguments: What follows ``crossbias``.
        prepare: Called in the fork before the command.
    """

    def __init__(
        self, arguments: Sequence[object], prepare: Callable[[], object] | None = None
    ) -> None:
        with tempfile.NamedTemporaryFile(prefix="fire-", delete=False) as printed:
            self._files = [printed.name, f"{printed.name}.err"]
        self.process = os.fork()
        if not self.process:
            _child([str(argument) for argument in arguments], prepare, self._files)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the fork."""
        os.kill(self.process, number)

    def ended(self) -> bool:
        """Whether the fork has ended; it can still be waited for."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process, flags) is not None

    def wait(self, patience: float = PATIENCE) -> Outcome:
        """Wait for the end. A command that hangs is killed, which its exit code shows."""
        limit = time.monotonic() + patience
        while not self.ended():
            if time.monotonic() > limit:
                self.send(signal.SIGKILL)
            time.sleep(0.003)
        code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        out, err = (Path(name).read_text(errors="replace") for name in self._files)
        for name in self._files:
            os.unlink(name)
        return Outcome(code, out, err)


def run(*arguments: object, prepare: Callable[[], object] | None = None) -> Outcome:
    """Run a command and wait for its end."""
    return Command(arguments, prepare).wait()


def _child(arguments: list[str], prepare: Callable[[], object] | None, files: list[str]) -> None:
    code = TRACEBACK
    try:
        for number, name in enumerate(files, start=1):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
        sys.argv = ["crossbias", *arguments]
        if prepare is not None:
            prepare()
        crossbias.cli.main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
