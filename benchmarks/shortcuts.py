"""Real images with a shortcut, planted or their own, as folders that anybody could have.

Photographs of BAR and chest X-rays, at 64 pixels, with a table of labels each. ``tables/
shortcuts.toml`` trains every method on them at its defaults:

    python -m benchmarks.shortcuts FOLDER_OF_ALL_DATA
    python -m benchmarks.table shortcuts
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

from crossbias.data import BiasedDataset, Folder, create_source, plant
from crossbias.data.planting.planting import write_split

FOLDER = Path("runs/shortcuts")
SIZE = 64  # pixels

PLANTED = {
    "bar-color-95": ("bar", "color", 0.95),
    "bar-color-98": ("bar", "color", 0.98),
    "x-rays-watermark-90": ("x-rays", "watermark", 0.90),
    "x-rays-watermark-95": ("x-rays", "watermark", 0.95),
}
"""Name of a folder: the images, what is planted, and in which share of the training images."""

NATURAL = {"x-rays-source": "x-rays", "bar": "bar"}
"""Name of a folder, and the images in which nothing is planted."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, help="folder with bar/ and covid-cxr/")
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    for name, (images, cue, rho) in PLANTED.items():
        write(options.out / name, planted(images, cue, rho, options.root))
    for name, images in NATURAL.items():
        write(options.out / name, splits_of(images, options.root))


def planted(images: str, cue: str, rho: float, root: Path) -> Iterator[BiasedDataset]:
    """Every split with a cue; in the test split it is useless."""
    for data in splits_of(images, root):
        strength = 1 / data.num_classes if data.split == "test" else rho
        yield plant(data, bias=cue, rho=strength)  # type: ignore[arg-type]


def splits_of(images: str, root: Path) -> Iterator[BiasedDataset]:
    """Training, validation and test images without anything planted."""
    source = photographs(root) if images == "bar" else x_rays(root)
    for split in ("train", "validation", "test"):
        yield source.load(split)


def photographs(root: Path) -> Folder:
    """BAR's training and test images together, split anew: the place is no shortcut then."""
    files = sorted((root / "bar").glob("*/*.jpg"))
    rows = [[str(file.relative_to(root)), file.stem.rpartition("_")[0]] for file in files]
    table = write_table("bar", ["file", "action"], rows)
    return Folder(path=str(root), labels=str(table), target="action", size=SIZE, test=0.3)


def x_rays(root: Path) -> Folder:
    """COVID-19 or not; all images of a patient are in one split, and the source is known."""
    source, rows = create_source("covid-cxr"), []
    for split in source.splits:
        data, files = source.load(split, root=root), source.files(split, root=root)
        assert files is not None
        for file, target, value in zip(files, data.targets, data.biases, strict=True):
            names = [data.classes[target], data.values["source"][value]]
            rows.append([str(file.relative_to(root)), split, *names])
    table = write_table("x-rays", ["file", "split", "finding", "source"], rows)
    return Folder(
        path=str(root), labels=str(table), target="finding", bias="source", size=SIZE, channels=1
    )


def write_table(name: str, header: list[str], rows: list[list[str]]) -> Path:
    """A table of labels."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def write(out: Path, splits: Iterator[BiasedDataset]) -> None:
    """PNG files and ``labels.csv``, unless they are there."""
    if (out / "labels.csv").exists():
        return
    rows = []
    for data in splits:
        rows += write_split(data, out)
    attributes = list(data.attributes)
    with open(out / "labels.csv", "w", newline="") as file:
        csv.writer(file).writerows([["file", "split", "target", *attributes], *rows])
    print(out, len(rows), "images")


if __name__ == "__main__":
    main()
