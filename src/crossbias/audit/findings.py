"""Audit: everything that an audit found, and how it is written to a folder."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from crossbias.audit import exports
from crossbias.audit.attributes import AttributeFinding
from crossbias.audit.exports import SliceMember
from crossbias.audit.model import ModelFinding
from crossbias.audit.near_duplicates import NearDuplicates
from crossbias.audit.probed_cues import CueFinding
from crossbias.audit.suspect_sheet import SuspectPicture
from crossbias.audit.suspects import Suspects
from crossbias.audit.verdict import Verdict
from crossbias.errors import CrossbiasError
from crossbias.formatting import as_json
from crossbias.runs.files import write_atomically, write_json

VERSION: Final = 1  # of the format of audit.json

FILE: Final = "audit.json"


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What an audit found.

    Args:
        data: Name, split, hash and sizes of the audited data.
        settings: The settings of the audit.
        attributes: Each attribute against the target.
        cues: What each cheap cue reveals about the target.
        near_duplicates: How many images look alike, if there are enough to matter.
        suspects: Samples that may conflict with a shortcut, if the inputs are images.
        model: What was found about the audited network, if there was one.
        verdict: All of it in words.
        slice_members: The samples of the model's slices.
        pictures: Pictures for the report.
    """

    data: Mapping[str, Any]
    settings: Mapping[str, Any]
    attributes: tuple[AttributeFinding, ...]
    cues: tuple[CueFinding, ...]
    near_duplicates: NearDuplicates | None
    suspects: Suspects | None
    model: ModelFinding | None
    verdict: Verdict
    slice_members: tuple[SliceMember, ...] = ()
    pictures: tuple[SuspectPicture, ...] = ()

    def __repr__(self) -> str:
        name, split = self.data["name"], self.data["split"]
        first = self.verdict.sentence.partition(": ")[0]
        return f"<audit of {name} {split}, {self.data['samples']:,} samples: {first}>"

    def to_json(self) -> dict[str, Any]:
        """What ``audit.json`` holds."""
        fields = {name: part for name, part in vars(self).items() if name != "slice_members"}
        return {"version": VERSION, **as_json(fields)}

    def write(self, folder: Path | str) -> None:
        """Write the audit to a folder: pictures, tables, ``audit.html``, last ``audit.json``."""
        folder = Path(folder)
        check_folder(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CrossbiasError(f"cannot make the folder {folder}: {error.strerror}") from error
        for picture in self.pictures:
            _write_bytes(folder / picture.file, picture.content)
        self._write_lists(folder)
        page = self._page().encode(errors="replace")
        write_atomically(folder / "audit.html", lambda file: file.write(page))
        write_json(folder / FILE, self.to_json())

    def _write_lists(self, folder: Path) -> None:
        """Write suspects, slices and groups for other programs."""
        candidates = () if self.suspects is None else self.suspects.candidates
        for file, text in (
            (exports.SUSPECTS_FILE, exports.suspects_csv(candidates)),
            (exports.SLICES_FILE, exports.slices_csv(self.slice_members)),
            (exports.GROUPS_FILE, exports.groups_csv(self.attributes)),
        ):
            _write_bytes(folder / file, text.encode(errors="replace"))
        labels, path = (
            exports.fiftyone_labels(candidates, self.slice_members),
            folder / exports.FIFTYONE_FILE,
        )
        path.unlink(missing_ok=True)  # of an earlier audit
        if labels is not None:
            path.parent.mkdir(exist_ok=True)
            write_json(path, labels)

    def _page(self) -> str:
        # Imported here, because importing the package must not import matplotlib and jinja2.
        from crossbias.report.audit_page import audit_page

        pictures = {picture.file: picture.content for picture in self.pictures}
        return audit_page(self.to_json(), pictures)

    def _repr_html_(self) -> str:
        """The page in a frame of its own, for a notebook."""
        from crossbias.report.writing import in_frame

        return in_frame(self._page())


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds anything but an earlier audit, or that cannot be written to."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not os.access(there, os.W_OK):
        raise CrossbiasError(f"{there} cannot be written to; choose another folder for the audit")
    if not folder.exists():
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / FILE).exists()):
        raise CrossbiasError(f"{folder} is not empty and holds no audit; choose another folder")


def _write_bytes(path: Path, content: bytes) -> None:
    write_atomically(path, lambda file: file.write(content))
