"""IMDB Face: gender or age of a face; the other one is the bias."""

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
from torch import Tensor

from crossbias.data.images.files_inside import files_inside
from crossbias.data.published.image_source import ImageSource, Listing
from crossbias.data.source import once
from crossbias.errors import CrossbiasError

GENDERS: Final = ("female", "male")
AGES: Final = ("0-29", "40+")
SIZES: Final = {"EB1": 36_004, "EB2": 16_800, "test": 13_129}


_ALLOWED: Final = frozenset({
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("_codecs", "encode"),
})  # fmt: skip
"""What plain values in an array need for unpickling; nothing here can run code."""


@dataclass(kw_only=True)
class IMDBFace(ImageSource):
    """IMDB Face as LNL uses it: young women and old men (EB1), or old women and young men (EB2).

    Only faces of at most 29 or at least 40 years are used, as in the paper, so age has two
    values. The paper does not state how it bins age as the target. ``test-other`` is the other
    training set.

    Args:
        training: The training set, ``EB1`` or ``EB2``.
        target: What to predict; the other one is the bias.
    """

    name = "imdb-face"
    summary = "young women and old men, or the other way; age or gender"
    splits = ("train", "test", "test-other")
    folder = "imdb-face"
    home = "the IMDB-WIKI project (images) and the repository of LNL (labels)"

    training: Literal["EB1", "EB2"] = "EB1"
    target: Literal["gender", "age"] = "gender"

    @property
    def classes(self) -> tuple[str, ...]:
        """The values of the target."""
        return GENDERS if self.target == "gender" else AGES

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The values of the bias."""
        return {"age": AGES} if self.target == "gender" else {"gender": GENDERS}

    @property
    def alignments(self) -> dict[str, Tensor]:
        """The combinations in the training set are aligned; in EB1 these are the diagonal."""
        table = torch.eye(2, dtype=torch.bool)
        name = next(iter(self.values))
        return {name: table if self.training == "EB1" else ~table}

    def published(self, split: str) -> dict[str, int]:
        """Sizes of the splits in the paper."""
        return {"images": SIZES["test" if split == "test" else self._set(split)]}

    def listing(self, split: str, *, root: Path, seed: int) -> Listing:
        """Labels and splits are read from two pickled arrays, without running code."""
        folder = root / self.folder
        labels, parts = (
            self._array(folder / name) for name in ("imdb_age_gender.npy", "imdb_split.npy")
        )
        names = parts["test_list" if split == "test" else "train_list"]
        rows = [
            (_text(name), int(age >= 40), gender)
            for name in names
            for age, gender in [_age_and_gender(labels, name)]
            if age <= 29 or age >= 40
        ]
        if split != "test":
            together = self._set(split) == "EB1"
            rows = [row for row in rows if (row[1] == row[2]) == together]
        ages, genders = [age for _, age, _ in rows], [gender for _, _, gender in rows]
        targets, biases = (genders, ages) if self.target == "gender" else (ages, genders)
        used = [name for name, _, _ in rows]
        titles = [f"imdb_split.npy: {name}" for name in used]
        files = files_inside(folder / "imdb_crop", used, titles, present=False)
        return Listing(files, targets, {next(iter(self.values)): biases})

    @once
    def _array(self, path: Path) -> dict[Any, Any]:
        return read_pickled_array(self.needed(path))

    def _set(self, split: str) -> str:
        other = {"EB1": "EB2", "EB2": "EB1"}[self.training]
        return self.training if split == "train" else other


def _age_and_gender(labels: dict[Any, Any], name: str | bytes) -> tuple[int, int]:
    text = _text(name)
    row = labels.get(text, labels.get(text.encode()))
    if row is None:
        raise CrossbiasError(f"imdb-face: imdb_age_gender.npy has no row for {text}")
    named = {_text(key): value for key, value in row.items()}
    return int(named["age"]), int(named["gender"])


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def read_pickled_array(path: Path) -> dict[Any, Any]:
    """Read the dictionary in a ``.npy`` file that was saved as an array of one object."""
    try:
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            read = {(1, 0): np.lib.format.read_array_header_1_0}
            read[2, 0] = np.lib.format.read_array_header_2_0
            shape, _, dtype = read[version](file)
            if not dtype.hasobject or shape != ():
                raise CrossbiasError(f"{path} holds numbers, not one dictionary")
            value = _PlainUnpickler(file, encoding="latin1").load().item()
    except (OSError, ValueError, KeyError, EOFError, pickle.UnpicklingError) as error:
        raise CrossbiasError(f"cannot read {path} safely: {error}") from error
    if not isinstance(value, dict):
        raise CrossbiasError(f"{path} holds a {type(value).__name__}, not a dictionary")
    return value
