"""Nine super-classes of ImageNet; the bias is texture. Also tested on ImageNet-A and -C."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from crossbias.data.images.decoding import Fit
from crossbias.data.published.image_source import ImageSource, Listing, images_in
from crossbias.errors import CrossbiasError
from crossbias.types import UNKNOWN

SYNSETS: Final = {
    "dog": ("n02085620", "n02099601", "n02106550", "n02106662", "n02110958"),
    "cat": ("n02123045", "n02123159", "n02123394", "n02123597", "n02124075"),
    "frog": ("n01641577", "n01644373", "n01644900"),
    "turtle": ("n01664065", "n01665541", "n01667114", "n01667778", "n01669191"),
    "bird": ("n01819313", "n01820546", "n01833805", "n01843383", "n01847000"),
    "monkey": ("n02486410", "n02487347", "n02488291", "n02488702", "n02492035"),
    "fish": ("n02607072", "n02640242", "n02641379", "n02643566", "n02655020"),
    "crab": ("n01978287", "n01978455", "n01980166", "n01981276"),
    "insect": ("n02174001", "n02177972", "n02190166", "n02206856", "n02219486"),
}
"""The 42 classes of ImageNet that ReBias merges into nine, in the order of ReBias."""

CORRUPTIONS: Final = (
    "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur",
    "zoom_blur", "snow", "frost", "fog", "brightness", "contrast", "elastic_transform",
    "pixelate", "jpeg_compression",
)  # fmt: skip
CORRUPTED: Final = tuple(
    f"test-c-{name}-{severity}" for name in CORRUPTIONS for severity in range(1, 6)
)
"""Test splits of ImageNet-C: five severities of each corruption."""

TEXTURES: Final = ("texture-1", "texture-2", "texture-3")  # attributes of three clusterings
CLUSTERS: Final = tuple("012345678")  # of each clustering

_VALIDATION_IMAGES = 50  # images of each class in ImageNet's validation part


@dataclass(kw_only=True)
class ImageNet9(ImageSource):
    """9-class ImageNet (ReBias), with its three kinds of test.

    ``test`` is ImageNet's validation part, ``test-a`` is ImageNet-A, and ``test-c-NAME-SEVERITY``
    is one corruption of ImageNet-C. The attributes ``texture-1`` to ``texture-3`` of ``test`` are
    three clusterings of its images by texture. The paper's unbiased accuracy averages over
    (class, cluster) cells.

    Args:
        clusters: A CSV file with the columns file, texture-1, texture-2, texture-3. A file is
            named as in the validation folder (``n02085620/ILSVRC2012_val_00000011.JPEG``).
            ``write_texture_clusters`` makes such a file. Without it the textures are unknown.
        imagenet_a: Whether to test on ImageNet-A.
        imagenet_c: Whether to test on the 75 splits of ImageNet-C.
    """

    name = "imagenet-9"
    summary = "nine super-classes of ImageNet; texture, ImageNet-A and ImageNet-C"
    splits = ("train", "test", "test-a", *CORRUPTED)
    folder = "imagenet"
    home = "ILSVRC 2012, and the repositories of ImageNet-A and ImageNet-C"
    classes = tuple(SYNSETS)
    values: ClassVar[dict[str, tuple[str, ...]]] = dict.fromkeys(TEXTURES, CLUSTERS)
    fit = Fit(256, "crop")
    crop = 224
    augment = ("random-resized-crop(0.08,1)", "flip")

    clusters: str = ""
    imagenet_a: bool = False
    imagenet_c: bool = False

    @property
    def available_splits(self) -> tuple[str, ...]:
        """All splits without the test sets that are not switched on."""
        return tuple(
            split
            for split in self.splits
            if (self.imagenet_a or split != "test-a")
            and (self.imagenet_c or not split.startswith("test-c-"))
        )

    def published(self, split: str) -> dict[str, int]:
        """Number of images in ImageNet's validation part."""
        if split != "test":
            return {}
        sizes = {name: _VALIDATION_IMAGES * len(synsets) for name, synsets in SYNSETS.items()}
        return {"images": sum(sizes.values())} | sizes

    def listing(self, split: str, *, root: Path, seed: int) -> Listing:
        """Classes are folders named by synset."""
        folder = self.needed(root / _folder_of(split))
        rows = [
            (file, target)
            for target, synsets in enumerate(SYNSETS.values())
            for synset in synsets
            for file in images_in(folder / synset)
        ]
        files, targets = [file for file, _ in rows], [target for _, target in rows]
        known = self._known_clusters() if split == "test" else {}
        unknown = (UNKNOWN,) * len(TEXTURES)
        found = [known.get(file.relative_to(folder).as_posix(), unknown) for file in files]
        columns = {name: [row[i] for row in found] for i, name in enumerate(self.values)}
        return Listing(files, targets, columns)

    def _known_clusters(self) -> dict[str, tuple[int, ...]]:
        if not self.clusters:
            return {}
        path = self.needed(Path(self.clusters))
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        try:
            return {
                row["file"]: tuple(_cluster(row[name], path) for name in self.values)
                for row in rows
            }
        except KeyError as error:
            columns = ", ".join(("file", *self.values))
            raise CrossbiasError(f"{path} has no column {error}; it needs {columns}") from error


def _folder_of(split: str) -> str:
    if split.startswith("test-c-"):
        name, _, severity = split.removeprefix("test-c-").rpartition("-")
        return f"imagenet-c/{name}/{severity}"
    return {"train": "imagenet/train", "test": "imagenet/val", "test-a": "imagenet-a"}[split]


def _cluster(text: str, path: Path) -> int:
    if text in CLUSTERS:
        return int(text)
    raise CrossbiasError(f"{path}: a cluster must be a number below {len(CLUSTERS)}, got {text!r}")
