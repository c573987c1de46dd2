"""Chest X-rays: COVID-19 or not; the bias is the source of the image."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlparse

import torch

from crossbias.data.assignment import shuffled
from crossbias.data.images.decoding import Fit
from crossbias.data.images.files_inside import files_inside
from crossbias.data.own.table_files import read_table
from crossbias.data.published.image_source import ImageSource, Listing, images_in
from crossbias.data.source import once
from crossbias.seeds import generator_for

HOSTS: Final = ("radiopaedia.org", "www.eurorad.org", "github.com", "www.sirm.org",
                "www.sciencedirect.com")  # fmt: skip
"""Sources with at least forty images; all others share the value ``other``."""

UNDECIDED: Final = ("", "todo", "Unknown")
"""Findings that say neither yes nor no; images with these are left out."""

CORDA: Final = ("CDSS", "SLG")
CORDA_SIZES: Final = {
    "negative / CDSS": 150, "negative / SLG": 322, "positive / CDSS": 297, "positive / SLG": 129,
}  # fmt: skip

TEST, VALIDATION = 0.3, 0.1


@dataclass(kw_only=True)
class CovidCXR(ImageSource):
    """Chest X-rays whose target is COVID-19 and whose bias is the source (EnD 4.2.3).

    30% of each (finding, source) group are ``test``, and 10% of the rest ``validation``. Where
    patients are known, these are fractions of patients, all images of a patient are in the same
    split, and intervals and tests are over patients.

    Args:
        collection: ``cohen`` is the public collection with metadata.csv, without its CT scans,
            which would be a second shortcut: most show COVID-19. The source is the host of the
            image's address. ``corda`` has two hospitals, one with mostly positive and one
            with mostly negative patients.
    """

    name = "covid-cxr"
    version = 2  # without CT scans
    summary = "chest X-rays: COVID-19 against the source of the image"
    folder = "covid-cxr"
    home = "the covid-chestxray-dataset repository, or the CORDA archive"
    classes = ("negative", "positive")
    fit = Fit(256, "crop", channels=1)
    crop = 224
    augment = ("random-resized-crop(0.8,1)", "flip")
    mean = (0.5,)
    std = (0.25,)

    collection: Literal["cohen", "corda"] = "cohen"

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """Sources."""
        return {"source": (*HOSTS, "other") if self.collection == "cohen" else CORDA}

    def listing(self, split: str, *, root: Path, seed: int) -> Listing:
        """One split; the seed and the patient decide to which split an image belongs."""
        read = self._cohen if self.collection == "cohen" else self._corda
        listing = read(root / self.folder)
        groups = list(zip(listing.targets, listing.attributes["source"], strict=True))
        patients = listing.clusters or [str(row) for row in range(len(groups))]
        splits = split_by_patient(patients, groups, seed)
        return listing.subset(row for row, found in enumerate(splits) if found == split)

    @once
    def _cohen(self, folder: Path) -> Listing:
        table = read_table(self.needed(folder / "metadata.csv"))
        patients, findings, kinds, folders, names, urls = (
            table.column(name)
            for name in ("patientid", "finding", "modality", "folder", "filename", "url")
        )
        used = [
            row
            for row, (finding, kind) in enumerate(zip(findings, kinds, strict=True))
            if finding not in UNDECIDED and kind == "X-ray"
        ]
        unique = {names[row]: row for row in used}.values()  # some files are listed twice
        paths = [f"{folders[row]}/{names[row]}" for row in unique]
        titles = [f"{table.where[row]}: {names[row]}" for row in unique]
        return Listing(
            files_inside(folder, paths, titles, present=False),
            [int("COVID-19" in findings[row]) for row in unique],
            {"source": [_host(urls[row]) for row in unique]},
            [patients[row] or f"row {row}" for row in unique],
        )

    @once
    def _corda(self, folder: Path) -> Listing:
        rows = [
            (file, target, source)
            for source, hospital in enumerate(CORDA)
            for target, finding in enumerate(self.classes)
            for file in images_in(self.needed(folder / "corda" / hospital / finding))
        ]
        return Listing.of(rows, "source")  # patients are not known

    def published(self, split: str) -> dict[str, int]:
        """Number of images of CORDA in each group of a split."""
        if self.collection == "cohen":
            return {}
        sizes = {name: _shares(count)[split] for name, count in CORDA_SIZES.items()}
        return {"images": sum(sizes.values())} | sizes


def split_by_patient(
    patients: Sequence[str], groups: list[tuple[int, int]], seed: int
) -> list[str]:
    """A split for each image, the same for all images of a patient.

    A patient belongs to the group of most of their images. In each group, a random 30% of the
    patients are ``test`` and 10% of the others ``validation``.
    """
    seen: dict[str, Counter[tuple[int, int]]] = {}
    for patient, group in zip(patients, groups, strict=True):
        seen.setdefault(patient, Counter())[group] += 1
    members: dict[tuple[int, int], list[str]] = {}
    for patient, counts in seen.items():
        members.setdefault(counts.most_common(1)[0][0], []).append(patient)
    found: dict[str, str] = {}
    for group, names in sorted(members.items()):
        generator = generator_for(seed, "covid-cxr", "split", *group)
        order = shuffled(torch.arange(len(names)), generator).tolist()
        labels = [split for split, count in _shares(len(names)).items() for _ in range(count)]
        found |= {names[row]: label for row, label in zip(order, labels, strict=True)}
    return [found[patient] for patient in patients]


def _shares(count: int) -> dict[str, int]:
    test = round(TEST * count)
    validation = round(VALIDATION * (count - test))
    return {"test": test, "validation": validation, "train": count - test - validation}


def _host(url: str) -> int:
    try:
        host = urlparse(url).netloc
    except ValueError:  # malformed
        host = ""
    return HOSTS.index(host) if host in HOSTS else len(HOSTS)
