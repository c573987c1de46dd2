"""Code that damaged files name. Importing it leaves a file behind: nothing may import it."""

import os
from pathlib import Path

VARIABLE = "CROSSBIAS_FIRE_CANARY"  # the file to leave

NAME = "benchmarks.fire.canary:burnt"
"""What a damaged file says in place of a method, a data set or a network."""

if VARIABLE in os.environ:
    Path(os.environ[VARIABLE]).touch()


def burnt(*arguments: object, **options: object) -> None:
    """Be called."""
