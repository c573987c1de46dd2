"""Making Waterbirds: birds of CUB are cut out and pasted onto photographs of Places."""

import csv
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch
from PIL import Image

from crossbias.data.assignment import biased_values, shuffled
from crossbias.data.images.files_inside import files_inside
from crossbias.data.published.image_source import images_in
from crossbias.data.published.waterbirds import is_waterbird
from crossbias.errors import CrossbiasError
from crossbias.parameters import Fraction, convert
from crossbias.seeds import generator_for

BACKGROUNDS: Final = (
    ("bamboo_forest", "forest/broadleaf"),
    ("ocean", "lake/natural"),
)
"""Categories of Places for the backgrounds land and water."""

VALIDATION: Final = 0.2  # fraction of CUB's training images that becomes the validation split

_LIMIT: Final = 64_000_000  # pixels; a larger photograph is refused as a decompression bomb


def make_waterbirds(
    cub: Path | str, places: Path | str, output: Path | str, *, rho: float = 0.95, seed: int = 0
) -> Path:
    """Make the data set at any severity, in the layout of the public release.

    Species are matched exactly. In training, the fraction ``rho`` of each class has the aligned
    background; in validation and test, half. No background is used twice.

    Args:
        cub: Folder of CUB-200-2011 with ``images.txt``, ``train_test_split.txt``, ``images/`` and
            ``segmentations/``.
        places: Folder of Places with the categories in ``BACKGROUNDS``, either directly or in a
            folder with their first letter (``b/bamboo_forest``).
        output: Folder to create; it must not exist. It appears when it is complete.
        rho: Fraction of aligned training images. IE's severities are 0.995, 0.99, 0.98 and 0.95.
        seed: Seed of splits and backgrounds.

    Returns:
        The path of ``metadata.csv``.
    """
    rho = convert(rho, Fraction, "rho of waterbirds")
    cub, places, output = Path(cub), Path(places), Path(output)
    if output.exists():
        raise CrossbiasError(f"{output} exists already; name a folder that does not")
    birds = _birds(cub)
    splits = _splits(birds, seed)
    water = torch.tensor([int(is_waterbird(Path(name).parent.name)) for name, _ in birds])
    backgrounds = _backgrounds(places, seed)
    rows = []
    for split in (0, 1, 2):
        chosen = (splits == split).nonzero().squeeze(1)
        strength = rho if split == 0 else 0.5
        generator = generator_for(seed, "waterbirds", "place", split)
        place = biased_values(water[chosen], values=2, rho=strength, generator=generator)
        rows += [(int(row), split, int(where)) for row, where in zip(chosen, place, strict=True)]
    _check_enough(backgrounds, [where for _, _, where in rows])
    return _write(cub, output, sorted(rows), birds, water.tolist(), backgrounds)


def _write(
    cub: Path,
    output: Path,
    rows: Sequence[tuple[int, int, int]],
    birds: Sequence[tuple[str, bool]],
    water: Sequence[int],
    backgrounds: Sequence[list[Path]],
) -> Path:
    """Write all files into a folder that appears under its name when they are complete."""
    nearest = next(folder for folder in output.absolute().parents if folder.is_dir())
    try:
        with tempfile.TemporaryDirectory(dir=nearest, prefix=".waterbirds-") as unfinished:
            whole = Path(unfinished, "whole")
            whole.mkdir()
            _fill(cub, whole, rows, birds, water, backgrounds)
            output.parent.mkdir(parents=True, exist_ok=True)
            whole.rename(output)
    except OSError as error:
        raise CrossbiasError(
            f"cannot write {output}: {error.strerror or error}; nothing was kept"
        ) from error
    return output / "metadata.csv"


def _fill(
    cub: Path,
    output: Path,
    rows: Sequence[tuple[int, int, int]],
    birds: Sequence[tuple[str, bool]],
    water: Sequence[int],
    backgrounds: Sequence[list[Path]],
) -> None:
    used = [0, 0]
    lines = []
    for row, split, place in rows:
        name = birds[row][0]
        background = backgrounds[place][used[place]]
        used[place] += 1
        target = output / name
        target.parent.mkdir(parents=True, exist_ok=True)
        _pasted(cub, name, background).save(target, quality=95)
        lines.append((row + 1, name, water[row], split, place, background.name))
    with open(output / "metadata.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("img_id", "img_filename", "y", "split", "place", "place_filename"))
        writer.writerows(lines)


def _pasted(cub: Path, name: str, background: Path) -> Image.Image:
    """The bird, cut out by its mask, on the background scaled to cover the bird's image."""
    bird = _opened(cub / "images" / name).convert("RGB")
    mask = _opened(cub / "segmentations" / Path(name).with_suffix(".png")).convert("L")
    if mask.size != bird.size:
        raise CrossbiasError(
            f"the mask of {name} has {mask.size} pixels, its image {bird.size}; "
            f"get images and segmentations of the same release"
        )
    scenery = _opened(background).convert("RGB")
    scale = max(bird.width / scenery.width, bird.height / scenery.height)
    size = (round(scenery.width * scale), round(scenery.height * scale))
    scenery = scenery.resize((max(size[0], bird.width), max(size[1], bird.height)))
    left, top = (scenery.width - bird.width) // 2, (scenery.height - bird.height) // 2
    scenery = scenery.crop((left, top, left + bird.width, top + bird.height))
    return Image.composite(bird, scenery, mask)


def _opened(path: Path) -> Image.Image:
    too_large = CrossbiasError(f"{path} has more than {_LIMIT:,} pixels; make it smaller")
    try:
        image = Image.open(path)
        if image.width * image.height > _LIMIT:
            raise too_large
        image.load()
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise too_large from error
    except OSError as error:
        raise CrossbiasError(f"cannot read {path}: {error}") from error
    return image


def _birds(cub: Path) -> list[tuple[str, bool]]:
    """The name of each image and whether it is in CUB's training part, in CUB's order."""
    names, training = _numbered(cub / "images.txt"), _numbered(cub / "train_test_split.txt")
    if names.keys() != training.keys():
        raise CrossbiasError(f"images.txt and train_test_split.txt in {cub} list different images")
    files_inside(
        cub / "images", list(names.values()), [f"images.txt: {name}" for name in names.values()]
    )
    return [(name, training[number] == "1") for number, name in names.items()]


def _numbered(path: Path) -> dict[str, str]:
    """The values in a list of CUB, by their numbers."""
    if not path.is_file():
        raise CrossbiasError(f"{path} does not exist; pass the folder of CUB-200-2011")
    found = {}
    for line, text in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match text.split(maxsplit=1):
            case [number, value]:
                found[number] = value.strip()
            case [_]:
                raise CrossbiasError(
                    f"{path} line {line} is {text!r}; it must be a number and a value"
                )
    return found


def _splits(birds: Sequence[tuple[str, bool]], seed: int) -> torch.Tensor:
    """0 for training, 1 for validation, 2 for test."""
    splits = torch.tensor([0 if training else 2 for _, training in birds])
    training = (splits == 0).nonzero().squeeze(1)
    generator = generator_for(seed, "waterbirds", "split")
    splits[shuffled(training, generator)[: round(VALIDATION * len(training))]] = 1
    return splits


def _backgrounds(places: Path, seed: int) -> list[list[Path]]:
    """Photographs of land and of water, in random order."""
    found = []
    for number, categories in enumerate(BACKGROUNDS):
        files = [file for name in categories for file in _photographs(places, name)]
        generator = generator_for(seed, "waterbirds", "background", number)
        found.append([files[i] for i in shuffled(torch.arange(len(files)), generator).tolist()])
    return found


def _photographs(places: Path, category: str) -> list[Path]:
    for folder in (places / category, places / category[0] / category):
        if folder.is_dir():
            return images_in(folder)
    raise CrossbiasError(f"{places} has no category {category}; pass the folder of Places")


def _check_enough(backgrounds: Sequence[Sequence[Path]], needed: Sequence[int]) -> None:
    for place, name in enumerate(("land", "water")):
        if needed.count(place) > len(backgrounds[place]):
            raise CrossbiasError(
                f"{needed.count(place)} backgrounds of {name} are needed, but there are "
                f"{len(backgrounds[place])}; get more photographs of "
                f"{', '.join(BACKGROUNDS[place])}"
            )
