"""The command line: ``crossbias demo``, ``data``, ``audit``, ``train``, and so on."""

import sys

from crossbias.cli.commands import app
from crossbias.cli.options import refuse_former_options
from crossbias.cli.printing import make_console, say
from crossbias.errors import CrossbiasError

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line; a person's mistake is one line on standard error, not a traceback."""
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    try:
        refuse_former_options(sys.argv[1:])
        app()
    except CrossbiasError as error:
        if debug:
            raise
        say(make_console(stderr=True), f"crossbias: {error}")
        sys.exit(error.exit_code)
