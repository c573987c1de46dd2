"""files_inside: resolve file names from a table, which must stay inside their folder."""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PurePosixPath, PureWindowsPath

from crossbias.data.images.encoded_images import UnusableImages


def files_inside(
    folder: Path, names: Sequence[str], labels: Sequence[str], *, present: bool = True
) -> list[Path]:
    """The files with the given names in a folder, which no name may leave.

    ``labels`` are the names of the images in messages. With ``present``, names without a file are
    refused, which finds the missing files of all splits at once; otherwise they are found when a
    split is read.
    """
    # Folders are few and files are many: each folder is looked up and listed once, and a file
    # that its folder lists needs no look of its own.
    real, listed = cache(os.path.realpath), cache(_plain_files)
    home = os.path.join(real(folder), "")  # ends in a separator

    def reason(name: str) -> str | None:
        if not name or "\0" in name:
            return "is not the name of a file"
        if PurePosixPath(name).is_absolute() or PureWindowsPath(name).anchor:
            return "is absolute; write it relative to the folder of the images"
        if ".." in PureWindowsPath(name).parts:  # parts between either kind of slash
            return "leaves the folder of the images; move the file into it"
        path = folder / name
        plain = path.name in listed(path.parent)
        if not plain and path.is_symlink():
            found = os.path.realpath(path)
        else:
            found = os.path.join(real(path.parent), path.name)
        if not found.startswith(home):
            return "is a link out of the folder of the images; copy the file into it"
        return "is missing" if present and not plain and not os.path.isfile(path) else None

    reasons = {row: why for row, name in enumerate(names) if (why := reason(name)) is not None}
    if reasons:
        raise UnusableImages(reasons, labels)
    return [folder / name for name in names]


def _plain_files(folder: Path) -> frozenset[str]:
    """The files in a folder that are no links; none where it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(e.name for e in entries if e.is_file(follow_symlinks=False))
    except OSError:
        return frozenset()
