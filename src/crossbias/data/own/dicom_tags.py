"""Tags of DICOM files, such as the manufacturer, as columns of a table of labels."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from crossbias.data.images.dicom import is_dicom
from crossbias.data.own.table import LabelTable
from crossbias.errors import CrossbiasError
from crossbias.extras import check_installed
from crossbias.parameters import unknown

_YEARS: Final = {"Y": 1.0, "M": 1 / 12, "W": 7 / 365.25, "D": 1 / 365.25}  # units of an age
_NOT_TEXT: Final = ("SQ", "OB", "OW", "OD", "OF", "OL", "OV", "UN", "OB or OW", "US or OW")
_PERSONAL: Final = ("PN", "DA", "DT", "TM", "UI")  # names, dates, times and unique identifiers
_PERSONAL_TEXTS: Final = (
    *(
        "PatientID",
        "OtherPatientIDs",
        "PatientAddress",
        "PatientTelephoneNumbers",
        "PatientComments",
    ),
    *("AdditionalPatientHistory", "AccessionNumber", "StudyID", "DeviceSerialNumber"),
)


def with_tags(table: LabelTable, files: Sequence[Path], tags: Sequence[str]) -> LabelTable:
    """A table with a column for each tag; a cell is empty where a file does not have the tag.

    Only the named tags are read. Ages become years.

    Args:
        table: A row for each file.
        files: The image files; those that are not DICOM have no tags.
        tags: DICOM keywords, such as ``Manufacturer``.
    """
    if not tags:
        return table
    check_installed("pydicom", what="tags=")
    _check_names(tags, table)
    rows = [_tags_of(file, tags) for file in files]
    if not any(row is not None for row in rows):
        raise CrossbiasError(
            f"tags= names {', '.join(tags)}, but none of the {len(files):,} files of {table.name} "
            f"is DICOM; leave tags= out"
        )
    added = {tag: [row[tag] if row else "" for row in rows] for tag in tags}
    return replace(table, columns={**table.columns, **added})


def is_personal(tag: str) -> bool:
    """Whether a tag may identify somebody: it is an attribute only if it is named as one.

    >>> [is_personal(tag) for tag in ("PatientID", "StudyDate", "PatientSex", "Manufacturer")]
    [True, True, False, False]
    """
    from pydicom.datadict import dictionary_VR

    return tag in _PERSONAL_TEXTS or dictionary_VR(tag) in _PERSONAL


def _check_names(tags: Sequence[str], table: LabelTable) -> None:
    from pydicom.datadict import dictionary_VR, keyword_dict

    for tag in tags:
        if tag not in keyword_dict:
            more = "; DICOM writes them without spaces"
            known = [word for word in keyword_dict if word[:3].lower() == tag[:3].lower()]
            raise unknown("there is no DICOM tag", tag, known[:20], "some are", more)
        if dictionary_VR(keyword_dict[tag]) in _NOT_TEXT:
            raise CrossbiasError(f"the DICOM tag {tag!r} holds no text or number; name another")
        if tag in table.columns:
            raise CrossbiasError(
                f"{table.name} has a column {tag!r}, which tags= names too; rename the column, or "
                f"take the tag out"
            )


def _tags_of(path: Path, tags: Sequence[str]) -> dict[str, str] | None:
    """The tags of a file as text; None for one that is not DICOM, or that decoding refuses."""
    import pydicom

    try:
        with open(path, "rb") as file:
            if not is_dicom(file):
                return None
            found = pydicom.dcmread(file, specific_tags=list(tags), stop_before_pixels=True)
            return {tag: _as_text(found.get(tag)) for tag in tags}
    except Exception:
        return None


def _as_text(value: Any) -> str:
    r"""A value of a tag; several become one text, and ages become years.

    >>> _as_text("045Y"), _as_text(["DERIVED", "PRIMARY"]), _as_text(None)
    ('45', 'DERIVED\\PRIMARY', '')
    """
    if value is None:
        return ""
    if isinstance(value, (list, tuple)) or hasattr(value, "extend"):
        return "\\".join(map(str, value))
    text = str(value).strip()
    if len(text) == 4 and text[:3].isdigit() and text[3] in _YEARS:
        return f"{int(text[:3]) * _YEARS[text[3]]:g}"
    return text
