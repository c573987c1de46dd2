"""The command line, ``crossbias COMMAND``."""

import os
import sys

from crossbias.cli.commands import app
from crossbias.cli.printing import say
from crossbias.errors import CrossbiasError

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line. A user's mistake prints one line on standard error, no traceback."""
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    try:
        app()
    except CrossbiasError as error:
        if debug:
            raise
        if os.environ.get("LOCAL_RANK", "0") == "0":  # every process of a run has the same error
            say(f"crossbias: {error}", stderr=True)
        sys.exit(error.exit_code)
