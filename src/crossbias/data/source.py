"""Where data comes from: a named, parameterized maker of splits."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, Concatenate, Final, ParamSpec, TypeVar

from crossbias.data.dataset import BiasedDataset
from crossbias.data.noise import with_label_noise
from crossbias.errors import CrossbiasError
from crossbias.parameters import Fraction, closest, convert, parameters_of
from crossbias.progress import Progress

ROOT_VARIABLE: Final = "CROSSBIAS_DATA"
"""Environment variable that names the folder of all data, where none is given."""

_Owner = TypeVar("_Owner", bound="Source")
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def once(
    method: Callable[Concatenate[_Owner, _Arguments], _Result],
) -> Callable[Concatenate[_Owner, _Arguments], _Result]:
    """Make a method of a source do its work once for the same arguments.

    The source keeps the result, so that files read for one split are not read again for the
    next. An error is not kept.
    """

    @wraps(method)
    def remembered(
        self: _Owner, /, *arguments: _Arguments.args, **options: _Arguments.kwargs
    ) -> _Result:
        results = vars(self).setdefault("_results", {})
        key = (method.__qualname__, arguments, frozenset(options.items()))
        if key not in results:
            results[key] = method(self, *arguments, **options)
        found: _Result = results[key]
        return found

    return remembered


class Source(ABC):
    """A data set by name. Constructor keywords are its options and nothing else.

    Every source has a ``train`` and may have a ``validation`` split; all other splits are test
    splits, which training never sees.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test")
    network: ClassVar[str]  # trained by default on this data
    version: ClassVar[int] = 1  # another one whenever the same options give other data
    progress: Progress = Progress()  # hears how far the reading is

    @abstractmethod
    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Make or read one split; ``split`` is one of ``available_splits``."""

    @property
    def available_splits(self) -> tuple[str, ...]:
        """The splits there are with these options; all of them, unless a source says otherwise."""
        return self.splits

    @property
    def test_splits(self) -> tuple[str, ...]:
        """The splits a model is judged on and never chosen by."""
        return tuple(
            split for split in self.available_splits if split not in ("train", "validation")
        )

    def published(self, split: str) -> dict[str, int]:
        """Counts that were published, which ``crossbias data check`` compares.

        Of ``images``, of a class by its name, of a ``class / value``, ``aligned``, ``conflicting``.
        """
        return {}

    def load(
        self,
        split: str,
        *,
        root: Path | str | None = None,
        seed: int = 0,
        label_noise: float = 0.0,
    ) -> BiasedDataset:
        """One split, after checking its name.

        Args:
            split: One of ``available_splits``.
            root: Folder of all data; what ``CROSSBIAS_DATA`` names if not given.
            seed: Of everything random in how the data is made.
            label_noise: Fraction of the labels of ``train`` that are made wrong; other splits
                keep theirs.
        """
        self._check_split(split)
        fraction = convert(label_noise, Fraction, f"label_noise of data set {self.name!r}")
        data = self.make(split, root=data_root(root), seed=seed)
        if fraction and split == "train":
            data = with_label_noise(data, fraction=fraction, seed=seed)
        origin = {"version": self.version, "seed": seed, "label_noise": fraction}
        if root is not None:
            origin["root"] = str(Path(root).absolute())
        return replace(data, origin=origin | self.options())

    def files(
        self, split: str, *, root: Path | str | None = None, seed: int = 0
    ) -> Sequence[Path] | None:
        """The image file behind each sample of a split; None where there are no such files."""
        return None

    def options(self) -> dict[str, Any]:
        """The constructor's keywords and their values."""
        return {name: getattr(self, name) for name in parameters_of(type(self))}

    def _check_split(self, split: str) -> None:
        available = self.available_splits
        if split not in available:
            why = f" with the options {self.options()}" if split in self.splits else ""
            raise CrossbiasError(
                f"{self.name} has no split {split!r}{why}{closest(split, available)}; "
                f"its splits are: {', '.join(available)}"
            )


def data_root(given: Path | str | None = None) -> Path | None:
    """The folder of all data: the one given, else what ``CROSSBIAS_DATA`` names, if anything."""
    named = given or os.environ.get(ROOT_VARIABLE)
    return Path(named) if named else None
