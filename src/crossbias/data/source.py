"""Source: a named data set with options, which makes or reads its splits."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar, cast

from crossbias.data.dataset import BiasedDataset
from crossbias.data.noise import with_label_noise
from crossbias.data.stylized import with_stylized
from crossbias.errors import CrossbiasError
from crossbias.parameters import Fraction, closest, convert, parameters_of
from crossbias.progress import Progress

ROOT_VARIABLE: Final = "CROSSBIAS_DATA"
"""Environment variable with the folder of all data, used where no folder is given."""

_Method = TypeVar("_Method", bound=Callable[..., Any])


def once(method: _Method) -> _Method:
    """Make a method of a source do its work once for the same arguments.

    The source keeps the result, so that files read for one split are not read again for the
    next. An error is not kept.
    """

    @wraps(method)
    def remembered(self: "Source", *arguments: Any, **options: Any) -> Any:
        results = vars(self).setdefault("_results", {})
        key = (method.__qualname__, arguments, frozenset(options.items()))
        if key not in results:
            results[key] = method(self, *arguments, **options)
        return results[key]

    return cast(_Method, remembered)


class Source(ABC):
    """A data set by name. The keywords of its constructor are its options and nothing else.

    Every source has a ``train`` split and may have a ``validation`` split. All other splits are
    test splits, which training never sees. Subclasses are usually keyword-only dataclasses; a
    plain ``__init__`` that stores its keywords works as well. One source object serves all splits
    of a run: methods marked ``once`` read their files for the first split only.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test")
    network: ClassVar[str]  # name of the network that is trained by default
    version: ClassVar[int] = 1  # raised whenever the same options give different data
    progress: Progress = Progress()  # receives reports while files are read
    judged_only: bool = False  # whether a model is judged on this data and none is trained on it

    @abstractmethod
    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Make or read one split; ``split`` is one of ``available_splits``."""

    @property
    def available_splits(self) -> tuple[str, ...]:
        """The splits that exist with these options; by default all of ``splits``."""
        return self.splits

    @property
    def test_splits(self) -> tuple[str, ...]:
        """The splits on which a model is evaluated; nothing is ever selected on them."""
        return tuple(
            split for split in self.available_splits if split not in ("train", "validation")
        )

    @property
    def other_columns(self) -> tuple[str, ...]:
        """Columns of a table of labels that the data leaves out."""
        return ()

    def published(self, split: str) -> dict[str, int]:
        """Published counts of a split, which ``crossbias data check`` compares.

        Keys are ``images``, the name of a class, ``class / value``, ``aligned``, ``conflicting``.
        """
        return {}

    def load(
        self,
        split: str,
        *,
        root: Path | str | None = None,
        seed: int = 0,
        label_noise: float = 0.0,
        stylized: Path | str | None = None,
    ) -> BiasedDataset:
        """Load one of the ``available_splits``; arguments as for ``crossbias.load``."""
        self._check_split(split)
        fraction = convert(label_noise, Fraction, f"label_noise of data set {self.name!r}")
        data = self.make(split, root=data_root(root), seed=seed)
        if fraction and split == "train":
            data = with_label_noise(data, fraction=fraction, seed=seed)
        if stylized is not None and split == "train":
            data = with_stylized(data, Path(stylized), progress=self.progress)
        origin = {"version": self.version, "seed": seed, "label_noise": fraction}
        if stylized is not None:
            origin["stylized"] = str(Path(stylized).absolute())
        if root is not None:
            origin["root"] = str(Path(root).absolute())
        return replace(data, origin=origin | self.recorded())

    def files(
        self, split: str, *, root: Path | str | None = None, seed: int = 0
    ) -> Sequence[Path] | None:
        """The image file of each sample of a split; None where samples have no image files."""
        return None

    def options(self) -> dict[str, Any]:
        """The keywords of the constructor and their values."""
        return {name: getattr(self, name) for name in parameters_of(type(self))}

    def recorded(self) -> dict[str, Any]:
        """The options that a run records: with them, the same data is made again."""
        return self.options()

    def _check_split(self, split: str) -> None:
        available = self.available_splits
        if split not in available:
            why = f" with the options {self.options()}" if split in self.splits else ""
            raise CrossbiasError(
                f"{self.name} has no split {split!r}{why}{closest(split, available)}; "
                f"its splits are: {', '.join(available)}"
            )


def data_root(given: Path | str | None = None) -> Path | None:
    """The folder of all data: the given one, else the one that ``CROSSBIAS_DATA`` names."""
    named = given or os.environ.get(ROOT_VARIABLE)
    return Path(named) if named else None
