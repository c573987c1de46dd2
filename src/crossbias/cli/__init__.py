"""The command line, ``crossbias COMMAND``."""

import shlex
import sys

from crossbias.cli.commands import app
from crossbias.cli.printing import say
from crossbias.errors import CrossbiasError, Interrupted, Untrusted
from crossbias.formatting import visible
from crossbias.launch import rank

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line. A user's mistake prints one line on standard error, no traceback."""
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    try:
        app(prog_name="crossbias")  # and not "python -m crossbias.crossbias"
    except CrossbiasError as error:
        if debug:
            raise
        if rank() == 0:  # every process of a run has the same error
            again = shlex.join(["crossbias", *sys.argv[1:], "--trust"])
            trusting = f": {again}" if isinstance(error, Untrusted) else ""
            say(f"crossbias: {visible(f'{error}{trusting}')}", stderr=True)
        sys.exit(error.exit_code)
    except SystemExit as ended:
        if ended.code == Interrupted.exit_code and rank() == 0:  # by Ctrl-C, not after a save
            say(
                "crossbias: stopped at once; what was saved before is as it was; a run that was "
                "begun goes on with: crossbias train --resume --out FOLDER",
                stderr=True,
            )
        raise
