"""Downloading MNIST and Fashion-MNIST from the addresses that torchvision knows."""

import http.client
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from crossbias.extras import check_installed

TIMEOUT: Final = 5.0  # seconds to wait for an answer before the next address is tried


def download(collection: str, files: Sequence[str], folder: Path) -> str | None:
    """Download files of ``mnist`` or ``fashion-mnist`` into a folder, each whole or not at all.

    The folder is created if its parent exists. Returns what went wrong, or None if nothing did.
    """
    if not os.access(folder.parent, os.W_OK):
        return f"{folder.parent} is not a folder that can be written to"
    check_installed(
        "torchvision",
        what=f"downloading {', '.join(files)}",
        instead=f"put the original files into {folder}",
    )
    from torchvision.datasets import MNIST, FashionMNIST

    kind = {"mnist": MNIST, "fashion-mnist": FashionMNIST}[collection]
    try:
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as unfinished, _impatient_sockets():
            for name, md5 in kind.resources:
                if name in files:
                    _from_some_mirror(kind.mirrors, name, md5, Path(unfinished))
                    os.replace(Path(unfinished, name), folder / name)
    except (OSError, RuntimeError, http.client.HTTPException) as error:
        return (str(error) or type(error).__name__).splitlines()[0]
    return None


def _from_some_mirror(mirrors: Sequence[str], name: str, md5: str, folder: Path) -> None:
    """Try one address after the other, and raise the error of the last."""
    from torchvision.datasets.utils import download_url

    *others, last = mirrors
    for mirror in others:
        try:
            return download_url(f"{mirror}{name}", folder, name, md5)  # type: ignore[no-any-return]
        except (OSError, RuntimeError, http.client.HTTPException):
            continue
    return download_url(f"{last}{name}", folder, name, md5)  # type: ignore[no-any-return]


@contextmanager
def _impatient_sockets() -> Iterator[None]:
    """Let connections fail soon; torchvision itself has no option for the timeout."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
