"""Features of the training samples from a file, for methods that need a fixed representation."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError


def given_features(path: str, data: BiasedDataset) -> Tensor:
    """The features in a file, (full_size, D) float32.

    Args:
        path: A file that ``numpy.save`` wrote: one row of numbers for each row of the full
            training set.
        data: The training data.
    """
    try:
        with Path(path).open("rb") as file:
            found = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CrossbiasError(
            f"features {path!r} cannot be read ({error}); name a file that numpy.save wrote"
        ) from error
    if not _fits(found, data):
        got = (
            f"{found.shape} of {found.dtype}" if isinstance(found, np.ndarray) else "several arrays"
        )
        raise CrossbiasError(
            f"features {path!r} must be an array of numbers of shape ({data.full_size}, D), one "
            f"row for each training sample of {data.name}, got {got}"
        )
    with np.errstate(over="ignore"):  # what is too large becomes infinite
        features = torch.from_numpy(found.astype(np.float32))
    if not features.isfinite().all():
        raise CrossbiasError(
            f"features {path!r} are not all finite as float32; replace what is NaN, infinite or "
            f"too large"
        )
    return features


def _fits(found: object, data: BiasedDataset) -> bool:
    """Whether it is one row of numbers for each row of the training set."""
    return (
        isinstance(found, np.ndarray)
        and found.ndim == 2
        and len(found) == data.full_size
        and found.shape[1] > 0
        and found.dtype.kind in "fiu"
    )
