"""Where the cache of decoded images lies."""

import os
import sys
from pathlib import Path
from typing import Final

CACHE_VARIABLE: Final = "CROSSBIAS_CACHE"
"""Environment variable that names the folder of the cache, where none is given."""


def cache_folder(given: Path | None = None) -> Path:
    """The folder of the cache: the one given, what ``CROSSBIAS_CACHE`` names, or the user's."""
    named = given or os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "crossbias"
    local = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME"
    return Path(os.environ.get(local) or Path.home() / ".cache") / "crossbias"
