"""IMDB Face: gender or age of a face; the other one is the bias."""

import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import torch
from torch import Tensor

from crossbias.data.images.files_inside import files_inside
from crossbias.data.published.image_source import ImageSource, Listing
from crossbias.data.published.pickled import read_dictionary
from crossbias.data.source import once
from crossbias.errors import CrossbiasError

GENDERS: Final = ("female", "male")
AGES: Final = ("0-29", "40+")
PARTS: Final = ("train_list", "test_list")
SIZES: Final = {"EB1": 36_004, "EB2": 16_800, "test": 13_129}


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
        """Labels and splits are read from two pickled dictionaries, without running code."""
        folder = root / self.folder
        labels = folder / "imdb_age_gender.npy"
        people, parts = self._people(labels), self._parts(folder / "imdb_split.npy")
        rows = [
            (name, int(age >= 40), gender)
            for name in parts["test_list" if split == "test" else "train_list"]
            for age, gender in [_age_and_gender(people.get(name), name, labels)]
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
    def _people(self, path: Path) -> dict[str, Any]:
        """What is known about each face, by its name."""
        return {_text(name, path): row for name, row in read_dictionary(self.needed(path)).items()}

    @once
    def _parts(self, path: Path) -> dict[str, list[str]]:
        """The names of the faces of each part."""
        found = read_dictionary(self.needed(path))
        for part in PARTS:
            if not isinstance(found.get(part), list):
                raise _other(path, f"a list {part!r}")
        return {part: [_text(name, path) for name in found[part]] for part in PARTS}

    def _set(self, split: str) -> str:
        other = {"EB1": "EB2", "EB2": "EB1"}[self.training]
        return self.training if split == "train" else other


def _age_and_gender(row: Any, name: str, path: Path) -> tuple[int, int]:
    wanted = f"the age of {name} and its gender, which is 0 or 1"
    if not isinstance(row, dict):
        raise _other(path, wanted)
    named = {_text(key, path): value for key, value in row.items()}
    try:
        # An array of one number is read as a list of one.
        age, gender = (
            int(value[0] if isinstance(value, list) else value)
            for value in (named["age"], named["gender"])
        )
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise _other(path, wanted) from error
    if gender not in (0, 1):
        raise _other(path, wanted)
    return age, gender


def _text(name: object, path: Path) -> str:
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
    if not isinstance(text, str) or not text.isprintable():
        raise _other(path, f"names as text, not {reprlib.repr(name)}")
    return text


def _other(path: Path, wanted: str) -> CrossbiasError:
    return CrossbiasError(
        f"{path} is another dictionary: imdb-face needs {wanted}; get the file from the "
        f"repository of LNL"
    )
