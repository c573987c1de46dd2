"""Nine super-classes of ImageNet; the bias is texture. Also tested on ImageNet-A and -C."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from crossbias.data.images.decoding import Fit
from crossbias.data.own.table_files import read_table
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

ALL_SYNSETS: Final = tuple(synset for synsets in SYNSETS.values() for synset in synsets)

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
        clusters: A CSV file with the columns path, cluster1, cluster2, cluster3, as released by
            the authors or made by ``write_texture_clusters``. A path is that in the validation
            folder (``n02085620/ILSVRC2012_val_00000011.JPEG``). Without it the textures are
            unknown.
        imagenet_a: Whether to test on ImageNet-A.
        imagenet_c: Whether to test on the 75 splits of ImageNet-C.
    """

    name = "imagenet-9"
    version = 2  # images of ImageNet-C are not resized
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

    def fit_of(self, split: str) -> Fit:
        """The images of ImageNet-C are published as squares of 224 pixels, which are kept."""
        return Fit(self.crop, "crop") if split.startswith("test-c-") else self.fit

    def listing(self, split: str, *, root: Path, seed: int) -> Listing:
        """Classes are folders named by synset."""
        folder = self.needed(self.folder_of(split, root=root))
        if not any((folder / synset).is_dir() for synset in ALL_SYNSETS) and images_in(folder):
            raise CrossbiasError(
                f"{self.name}: {folder} holds images that are not sorted into folders by synset; "
                f"sort them as docs/data/{self.name}.md says"
            )
        rows = [
            (file, target)
            for target, synsets in enumerate(SYNSETS.values())
            for synset in synsets
            for file in images_in(self._folder(folder / synset, split))
        ]
        files, targets = [file for file, _ in rows], [target for _, target in rows]
        return Listing(files, targets, self._textures(files, folder, split))

    def folder_of(self, split: str, *, root: Path) -> Path:
        """Each kind of test has a folder of its own."""
        return root / _folder_of(split)

    def _folder(self, folder: Path, split: str) -> Path:
        """The folder of a synset; some are absent from ImageNet-A and only from there."""
        return folder if split == "test-a" else self.needed(folder)

    def _textures(self, files: Sequence[Path], folder: Path, split: str) -> dict[str, list[int]]:
        """The cluster of each file in each of the three clusterings."""
        if split != "test" or not self.clusters:
            return {name: [UNKNOWN] * len(files) for name in TEXTURES}
        known = _clusters(Path(self.clusters))
        names = [file.relative_to(folder).as_posix() for file in files]
        if known.keys().isdisjoint(names):
            raise CrossbiasError(
                f"{self.clusters} names no image of {folder}; its column path must name files as "
                f"{names[0]}"
            )
        unknown = (UNKNOWN,) * len(TEXTURES)
        rows = [known.get(name, unknown) for name in names]
        return {name: [row[i] for row in rows] for i, name in enumerate(TEXTURES)}


def _clusters(path: Path) -> dict[str, tuple[int, ...]]:
    """The clusters of each image in a file as the authors of ReBias released it."""
    if not path.is_file():
        raise CrossbiasError(
            f"{path} does not exist; get clusters/9class_imagenet_val.csv from the repository of "
            f"ReBias, or make it with write_texture_clusters"
        )
    table = read_table(path)
    columns = [table.chosen(f"cluster{number}", CLUSTERS) for number in range(1, len(TEXTURES) + 1)]
    return dict(zip(table.column("path"), zip(*columns, strict=True), strict=True))


def _folder_of(split: str) -> str:
    if split.startswith("test-c-"):
        name, _, severity = split.removeprefix("test-c-").rpartition("-")
        return f"imagenet-c/{name}/{severity}"
    return {"train": "imagenet/train", "test": "imagenet/val", "test-a": "imagenet-a"}[split]
