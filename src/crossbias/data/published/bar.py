"""Biased Action Recognition (BAR): six actions; the bias is the place of the photograph."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, cast

import torch
from torch import Tensor

from crossbias.data.assignment import shuffled
from crossbias.data.images.decoding import CIFAR_MEAN, CIFAR_STD
from crossbias.data.published.image_source import ImageSource, Listing, images_in, numbers_in_name
from crossbias.errors import CrossbiasError
from crossbias.parameters import Interval
from crossbias.seeds import generator_for
from crossbias.types import UNKNOWN

ACTIONS: Final = ("climbing", "diving", "fishing", "racing", "throwing", "vaulting")

ALIGNED, CONFLICTING = 0, 1

TRAINING: Final = (326, 520, 163, 336, 317, 279)
TEST: Final = (105, 159, 42, 132, 85, 131)
"""Number of images of each action in the original release."""


@dataclass(kw_only=True)
class BAR(ImageSource):
    """Biased Action Recognition: the original of LfF, or BiasEnsemble's with severities.

    The place of an image was never published. The attribute ``setting`` says only whether it is
    the typical place of the action. In the original release this is unknown for training images,
    and all test images conflict.

    Args:
        severity: ``original``, or the percentage of conflicting training images in the release
            of BiasEnsemble, which also has a validation split; ``1pct`` is the same as ``1``.
        held_out: Fraction of the original training images that is moved from ``train`` to
            ``validation``; PGD holds out a tenth.
    """

    name = "bar"
    summary = "six actions at their typical places; tested at others"
    folder = "bar"
    home = "the repositories of LfF (original) or BiasEnsemble (severities)"
    classes = ACTIONS
    values: ClassVar[dict[str, tuple[str, ...]]] = {"setting": ("typical", "other")}
    alignments: ClassVar[dict[str, Tensor]] = {
        "setting": torch.tensor([[True, False]] * len(ACTIONS))
    }
    augment = ("crop(4)", "flip")
    mean = CIFAR_MEAN
    std = CIFAR_STD

    severity: Literal["original", "1", "5", "1pct", "5pct"] = "original"
    held_out: Annotated[float, Interval(0, 0.5)] = 0.0

    def __post_init__(self) -> None:
        if self.severity != "original" and self.held_out:
            raise CrossbiasError(
                f"held_out of {self.name} is for the original release; severity {self.severity} "
                f"has a validation split of its own"
            )
        self.severity = cast(Literal["1", "5"], self.severity.removesuffix("pct"))

    @property
    def available_splits(self) -> tuple[str, ...]:
        """The original release has no validation split unless images are held out."""
        whole = self.severity == "original" and not self.held_out
        return ("train", "test") if whole else self.splits

    def published(self, split: str) -> dict[str, int]:
        """Number of images of each action in the original release."""
        if self.severity != "original" or (self.held_out and split != "test"):
            return {}
        counts = TRAINING if split == "train" else TEST
        return {"images": sum(counts)} | dict(zip(ACTIONS, counts, strict=True))

    def listing(self, split: str, *, root: Path, seed: int) -> Listing:
        """Labels are read from the file names."""
        read = self._original if self.severity == "original" else self._of_severity
        return read(split, root / self.folder, seed)

    def _original(self, split: str, folder: Path, seed: int) -> Listing:
        part, setting = ("test", CONFLICTING) if split == "test" else ("train", UNKNOWN)
        files = images_in(self.needed(folder / part))
        if self.held_out and split != "test":
            rows = shuffled(torch.arange(len(files)), generator_for(seed, self.name, "held out"))
            cut = round(self.held_out * len(files))
            chosen = rows[:cut] if split == "validation" else rows[cut:]
            files = [files[row] for row in sorted(chosen.tolist())]
        targets = [_action(file) for file in files]
        return Listing(files, targets, {"setting": [setting] * len(files)})

    def _of_severity(self, split: str, folder: Path, seed: int) -> Listing:
        if split == "train":
            aligned = images_in(self.needed(folder / "train" / "align"), "*/*")
            chosen = self.needed(folder / "train" / "conflict" / f"{self.severity}pct")
            conflicting = images_in(chosen, "*/*")
            settings = [ALIGNED] * len(aligned) + [CONFLICTING] * len(conflicting)
            files = aligned + conflicting
        else:
            name = {"validation": "valid", "test": "test"}[split]
            files = images_in(self.needed(folder / name), "*/*")
            labels = [self._labels(file) for file in files]
            settings = [ALIGNED if target == bias else CONFLICTING for target, bias in labels]
        targets = [self._labels(file)[0] for file in files]
        return Listing(files, targets, {"setting": settings})

    def _labels(self, file: Path) -> tuple[int, int]:
        return numbers_in_name(file, source=self.name, limits=(len(ACTIONS), len(ACTIONS)))


def _action(file: Path) -> int:
    """The class in a name such as ``pole vaulting_12.jpg``."""
    action = file.stem.rpartition("_")[0].split()[-1:]
    if not action or action[0] not in ACTIONS:
        raise CrossbiasError(
            f"bar: {file} is not named ACTION_NUMBER with one of the actions {', '.join(ACTIONS)}"
        )
    return ACTIONS.index(action[0])
