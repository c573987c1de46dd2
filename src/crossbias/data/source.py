"""Where data comes from: a named, parameterized maker of splits."""

from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.parameters import closest, parameters_of


class Source(ABC):
    """A data set by name. Constructor keywords are its options and nothing else.

    Every source has a ``train`` and may have a ``validation`` split; all other splits are test
    splits, which training never sees.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test")
    network: ClassVar[str]  # trained by default on this data

    @abstractmethod
    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Make or read one split; ``split`` is one of ``splits``."""

    @property
    def test_splits(self) -> tuple[str, ...]:
        """The splits a model is judged on and never chosen by."""
        return tuple(split for split in self.splits if split not in ("train", "validation"))

    def load(self, split: str, *, root: Path | str | None = None, seed: int = 0) -> BiasedDataset:
        """One split, after checking its name."""
        if split not in self.splits:
            raise CrossbiasError(
                f"{self.name} has no split {split!r}{closest(split, self.splits)}; "
                f"its splits are: {', '.join(self.splits)}"
            )
        data = self.make(split, root=None if root is None else Path(root), seed=seed)
        return replace(data, origin={"seed": seed} | self.options())

    def options(self) -> dict[str, Any]:
        """The constructor's keywords and their values."""
        return {name: getattr(self, name) for name in parameters_of(type(self))}
