"""Private folders of the cache: pixels that somebody else could have exchanged are not used."""

import os
import stat
from pathlib import Path

from crossbias.data.memory_maps import CACHE_VARIABLE
from crossbias.errors import CrossbiasError

_PRIVATE = 0o700
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ADMINISTRATOR = 0


def make_private(folder: Path) -> None:
    """Make a folder that only this user can enter, or check the one that is there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=_PRIVATE, exist_ok=True)
    check_private(folder)


def check_private(folder: Path) -> None:
    """Refuse a folder of the cache that is a link, or that another user can write to.

    A folder that does not exist is fine. On Windows, where folders of users are private, only
    links are refused.
    """
    try:
        status = os.lstat(folder)
    except OSError:
        return  # what is wrong with it shows where it is used
    user = os.geteuid() if hasattr(os, "geteuid") else None
    if reason := why_not_private(status, user):
        raise CrossbiasError(
            f"the cache {folder} cannot be trusted: {reason}; delete it, or name a folder of your "
            f"own: {CACHE_VARIABLE}"
        )


def why_not_private(status: os.stat_result, user: int | None) -> str | None:
    """Why somebody else could have written what is in a folder; None if nobody could."""
    if stat.S_ISLNK(status.st_mode):
        return "it is a link"
    if user is None:
        return None
    if status.st_uid not in (user, _ADMINISTRATOR):
        return "it belongs to another user"
    return "others can write to it" if status.st_mode & _OTHERS_WRITE else None
