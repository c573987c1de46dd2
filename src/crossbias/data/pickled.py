"""Arrays of Python objects in .npy files, read without letting them run code."""

import pickle
from pathlib import Path
from typing import Any, Final

import numpy as np

from crossbias.errors import CrossbiasError

_ALLOWED: Final = frozenset({
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("_codecs", "encode"),
})  # fmt: skip
"""What numbers, texts, lists and dictionaries in an array need, and nothing that acts."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def read_pickled_array(path: Path) -> dict[Any, Any]:
    """The dictionary in a ``.npy`` file that was saved as an array of one object.

    Raises:
        CrossbiasError: The file is none, or holds anything but plain values.
    """
    try:
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            read = {(1, 0): np.lib.format.read_array_header_1_0}
            read[2, 0] = np.lib.format.read_array_header_2_0
            shape, _, dtype = read[version](file)
            if not dtype.hasobject or shape != ():
                raise CrossbiasError(f"{path} holds numbers, not one dictionary")
            value = _Unpickler(file, encoding="latin1").load().item()
    except (OSError, ValueError, KeyError, EOFError, pickle.UnpicklingError) as error:
        raise CrossbiasError(f"cannot read {path} safely: {error}") from error
    if not isinstance(value, dict):
        raise CrossbiasError(f"{path} holds a {type(value).__name__}, not a dictionary")
    return value
