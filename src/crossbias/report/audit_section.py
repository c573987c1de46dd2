"""The audit's findings, read from the folder that ``crossbias audit`` wrote."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from crossbias.errors import CrossbiasError
from crossbias.formatting import percent
from crossbias.runs.files import read_json
from crossbias.runs.read import FinishedRun

KINDS: Final = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg"}
"""The first bytes of the kinds of pictures that a page can hold."""

LARGEST_TABLE: Final = 20  # tables of counts with more rows or columns are left to audit.json

LARGEST_PICTURE: Final = 2**20  # the page names larger pictures, in bytes, instead of showing them


class AuditPicture(NamedTuple):
    """A picture of an audit; the page only names it if it has no source."""

    source: str  # a data: address, or empty
    file: str
    alt: str
    caption: str


class AuditRow(NamedTuple):
    """One attribute or cue, and how well it predicts the class by itself."""

    name: str
    what: str
    accuracy: float | None  # balanced
    chance: float | None
    p: float | None  # corrected
    reason: str  # why it could not be tested, or empty


class CountTable(NamedTuple):
    """Samples of each class (row) with each value of an attribute (column)."""

    attribute: str
    values: Sequence[str]
    rows: Sequence[tuple[str, Sequence[int]]]


class SuspectClass(NamedTuple):
    """The suspects of one class: which class each is taken for, and its file or number."""

    target: str
    listed: Sequence[tuple[str, str]]


class SliceRow(NamedTuple):
    """A slice on which the audited model fails."""

    target: str
    answer: str
    errors: Mapping[str, Any]  # an estimate
    rest: float
    p: float | None
    explained_by: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class AuditFindings:
    """What an audit found."""

    path: Path | None  # the folder, where it was read from one
    data: Mapping[str, Any]  # what was audited: name, split, hash, samples
    sentence: str  # the verdict, in paragraphs
    findings: Sequence[Mapping[str, str]]  # kind, name and strength of each
    not_tested: Sequence[str]
    rows: Sequence[AuditRow]
    counts: Sequence[CountTable]
    suspects: Sequence[SuspectClass]
    slices: Sequence[SliceRow]
    pictures: Sequence[AuditPicture]


def read_audit(folder: Path) -> AuditFindings:
    """Read ``audit.json`` and the pictures beside it."""
    path = folder / "audit.json"
    if not path.is_file():
        raise CrossbiasError(f"{folder} holds no audit.json; name a folder of `crossbias audit`")
    content = read_json(path)
    try:
        if content["version"] != 1:
            raise CrossbiasError(f"{path} has version {content['version']!r}, this report reads 1")
        return findings_of(content, lambda file: _read_inside(folder, file), folder)
    except (KeyError, TypeError, AttributeError) as error:
        raise CrossbiasError(f"{path} is damaged, it is not an audit: {error!r}") from error


def check_same_data(audit: AuditFindings, run: FinishedRun) -> None:
    """Refuse to put findings about a data set with another name beside the runs."""
    if audit.data["name"] != run.config["data"]["name"]:
        raise CrossbiasError(
            f"the audit in {audit.path} is about {audit.data['name']}, but the runs are about "
            f"{run.config['data']['name']}; name an audit of the same data"
        )


def findings_of(
    content: Mapping[str, Any], read: Callable[[str], bytes], path: Path | None = None
) -> AuditFindings:
    """The findings in the content of ``audit.json``; ``read`` gives the bytes of a picture."""
    verdict = content["verdict"]
    rows = [_row(part, "attribute") for part in content["attributes"]]
    return AuditFindings(
        path=path,
        data={"name": content["data"]["name"], **content["data"]},
        sentence=str(verdict["sentence"]),
        findings=[
            {key: str(finding.get(key, "")) for key in ("kind", "name", "strength", "sentence")}
            for finding in verdict["findings"]
        ],
        not_tested=[str(sentence) for sentence in verdict["not_tested"]],
        rows=rows + [_row(part, "cue") for part in content["cues"]],
        counts=[_counts(part) for part in content["attributes"] if _fits_the_page(part)],
        suspects=_suspects(content.get("suspects") or {}),
        slices=[_slice(part) for part in _slices(content)],
        pictures=[_picture(part, read) for part in content.get("pictures", ())],
    )


def _fits_the_page(part: Mapping[str, Any]) -> bool:
    sides = [len(part.get(side, ())) for side in ("classes", "values", "counts")]
    return min(sides) > 0 and max(sides) <= LARGEST_TABLE


def _counts(part: Mapping[str, Any]) -> CountTable:
    rows = zip(map(str, part["classes"]), part["counts"], strict=True)
    return CountTable(str(part["name"]), [str(value) for value in part["values"]], list(rows))


def _suspects(part: Mapping[str, Any]) -> list[SuspectClass]:
    """The candidates by class, the class with most of them first."""
    found: dict[str, list[tuple[str, str]]] = {}
    for each in part.get("candidates", ()):
        shown = str(each.get("file") or f"sample {each['index']}")
        found.setdefault(str(each["target"]), []).append((str(each["answer"]), shown))
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    return [SuspectClass(target, listed) for target, listed in ordered]


def _slices(content: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = ((content.get("model") or {}).get("slices") or {}).get(
        "found", ()
    )
    return found


def _slice(part: Mapping[str, Any]) -> SliceRow:
    explained = [
        f"{each['attribute']} {each['value']}: {percent(each['inside'], decimals=0)} against "
        f"{percent(each['outside'], decimals=0)}"
        for each in part["explained_by"]
    ]
    errors = {key: float(part["errors"][key]) for key in ("value", "low", "high")}
    return SliceRow(
        target=str(part["target"]),
        answer=str(part["answer"]),
        errors=errors | {"n": int(part["errors"]["n"])},
        rest=float(part["rest"]["value"]),
        p=_number(part["p_corrected"]),
        explained_by=explained,
    )


def _row(part: Mapping[str, Any], kind: str) -> AuditRow:
    return AuditRow(
        name=str(part["name"]),
        what=f"{kind}: {part['what']}" if part.get("what") else kind,
        accuracy=_number(part.get("balanced_accuracy")),
        chance=_number(part.get("chance")),
        p=_number(part.get("p_corrected")),
        reason=str(part.get("reason") or ""),
    )


def _number(value: Any) -> float | None:
    """A number, or the value of an estimate."""
    plain = value.get("value") if isinstance(value, dict) else value
    return None if plain is None else float(plain)


def _read_inside(folder: Path, file: str) -> bytes:
    """The bytes of a file in the folder; none where there is no such file."""
    path = (folder / file).resolve()
    inside = path.is_relative_to(folder.resolve()) and path.is_file()
    return path.read_bytes() if inside else b""


def _picture(part: Mapping[str, Any], read: Callable[[str], bytes]) -> AuditPicture:
    told = (str(part["file"]), str(part["alt"]), str(part.get("caption", "")))
    content = read(told[0])
    kind = next((kind for start, kind in KINDS.items() if content.startswith(start)), None)
    if kind is None or len(content) > LARGEST_PICTURE:
        return AuditPicture("", *told)
    return AuditPicture(f"data:image/{kind};base64," + base64.b64encode(content).decode(), *told)
