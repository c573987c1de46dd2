"""Tensors in files of torch, read back without running anything from them."""

import zipfile
from pathlib import Path
from typing import Any

import torch

from crossbias.errors import CrossbiasError


def load_torch(path: Path) -> Any:
    """What ``torch.save`` wrote, without running code from it and with its checksums verified."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:  # torch.load itself does not look
                raise zipfile.BadZipFile("a checksum does not match")
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # zip, pickle and torch each have errors of their own
        raise CrossbiasError(
            f"{path} is damaged ({type(error).__name__}); delete it and resume, which trains this "
            f"stage again from its start, or restore the file from a copy"
        ) from error
