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
    wanted = f"({data.full_size}, D)"
    shape = getattr(found, "shape", None)
    if (
        shape is None
        or len(shape) != 2
        or shape[0] != data.full_size
        or found.dtype.kind not in "fiu"
    ):
        raise CrossbiasError(
            f"features {path!r} must be an array of numbers of shape {wanted}, one row for each "
            f"training sample of {data.name}, got {'several arrays' if shape is None else shape}"
        )
    features = torch.from_numpy(found.astype(np.float32))
    if not features.isfinite().all():
        raise CrossbiasError(
            f"features {path!r} are not all finite; replace what is NaN or infinite"
        )
    return features
