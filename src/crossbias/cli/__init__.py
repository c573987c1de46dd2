"""The command line: ``crossbias demo``, ``data``, ``audit``, ``train``, and so on."""

import sys

from rich.console import Console

from crossbias.cli import auditing  # noqa: F401 (adds its command)
from crossbias.cli.commands import app
from crossbias.errors import CrossbiasError

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line; a person's mistake is one line on standard error, not a traceback."""
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    try:
        app()
    except CrossbiasError as error:
        if debug:
            raise
        Console(stderr=True).print(
            f"crossbias: {error}", markup=False, highlight=False, soft_wrap=True
        )
        sys.exit(error.exit_code)
