"""Kinetics-10: ten actions in videos; the bias is the scene. Tested on mimes, Mimetics-10."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from crossbias.data.dataset import BiasedDataset
from crossbias.data.images.decoding import Fit, read_images
from crossbias.data.images.stored_images import as_clips
from crossbias.data.published.clips import FRAMES, clip_files, clips_in
from crossbias.data.published.image_source import ImageSource, Listing
from crossbias.errors import CrossbiasError

ACTIONS: Final = (
    "canoeing or kayaking", "climbing a rope", "driving car", "golf driving", "opening bottle",
    "playing piano", "playing volleyball", "shooting goal (soccer)", "surfing water", "writing",
)  # fmt: skip
"""Every fifth of the fifty classes of Mimetics, in alphabetical order (ReBias)."""

FOLDERS: Final = {
    "train": "kinetics-10/train", "validation": "kinetics-10/validation", "test": "mimetics-10",
}  # fmt: skip


class Kinetics10(ImageSource):
    """Ten actions of Kinetics (ReBias), tested on the same actions mimed without scene or object.

    A clip is a folder of frames or a video file. A sample has eight frames from the middle of the
    clip, 8/30 of a second apart. ``validation`` is the validation part of Kinetics, as biased as
    the training part. ``test`` is Mimetics.
    """

    name = "kinetics-10"
    version = 2  # frames are chosen by time
    summary = "ten actions in their usual scenes; tested on mimes (Mimetics-10)"
    folder = "kinetics-10"
    home = "the Kinetics project (train, validation) and the Mimetics page (test)"
    classes = ACTIONS
    fit = Fit(256, "crop")
    crop = 224
    mean = (0.45,) * 3
    std = (0.225,) * 3
    network = "resnet18-3d"

    def listing(self, split: str, *, root: Path, seed: int) -> Listing:
        """Each action has a folder of clips; spaces in its name may be written as ``_``."""
        folder = self.needed(self.folder_of(split, root=root))
        clips = [
            (clip, target)
            for target, action in enumerate(ACTIONS)
            for clip in clips_in(_folder_of(folder, action))
        ]
        return Listing([clip for clip, _ in clips], [target for _, target in clips])

    def folder_of(self, split: str, *, root: Path) -> Path:
        """Mimetics has a folder of its own."""
        return root / FOLDERS[split]

    def files(
        self, split: str, *, root: Path | str | None = None, seed: int = 0
    ) -> Sequence[Path] | None:
        """None: a clip is not an image file."""
        return None

    def frames(self, file: Path) -> list[Path]:
        """The eight frames of a clip."""
        return clip_files(file)

    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Read the frames of all clips of one split."""
        clips = self.listed(split, root=root, seed=seed)
        frames = [frame for clip in clips.files for frame in self.frames(clip)]
        images, digest = read_images(frames, self.fit, progress=self.progress)  # (n T, C, S, S)
        return self.assembled(split, clips, as_clips(images, FRAMES), digest)


def _folder_of(folder: Path, action: str) -> Path:
    candidates = (folder / action, folder / action.replace(" ", "_"))
    found = next((path for path in candidates if path.is_dir()), None)
    if found is None:
        raise CrossbiasError(
            f"kinetics-10: {folder} has no folder {action!r}; see its page in docs"
        )
    return found
