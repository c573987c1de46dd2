"""The audit's findings, read from the folder that ``crossbias audit`` wrote."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from crossbias.errors import CrossbiasError
from crossbias.runs.files import read_json
from crossbias.runs.read import FinishedRun

KINDS: Final = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg"}
"""The first bytes of the kinds of pictures that a page can hold."""

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


@dataclass(frozen=True, kw_only=True)
class AuditFindings:
    """What an audit found."""

    path: Path
    data: Mapping[str, Any]  # what was audited: name, split, hash, samples
    sentence: str  # the verdict
    findings: Sequence[Mapping[str, str]]  # kind, name and strength of each
    not_tested: Sequence[str]
    rows: Sequence[AuditRow]
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
        return _audit(folder, content)
    except (KeyError, TypeError, AttributeError) as error:
        raise CrossbiasError(f"{path} is damaged, it is not an audit: {error!r}") from error


def check_same_data(audit: AuditFindings, run: FinishedRun) -> None:
    """Refuse to put findings about a data set with another name beside the runs."""
    if audit.data["name"] != run.config["data"]["name"]:
        raise CrossbiasError(
            f"the audit in {audit.path} is about {audit.data['name']}, but the runs are about "
            f"{run.config['data']['name']}; name an audit of the same data"
        )


def _audit(folder: Path, content: Mapping[str, Any]) -> AuditFindings:
    verdict = content["verdict"]
    rows = [_row(part, "attribute") for part in content["attributes"]]
    return AuditFindings(
        path=folder,
        data={"name": content["data"]["name"], **content["data"]},
        sentence=str(verdict["sentence"]),
        findings=[
            {key: str(finding.get(key, "")) for key in ("kind", "name", "strength", "sentence")}
            for finding in verdict["findings"]
        ],
        not_tested=[str(sentence) for sentence in verdict["not_tested"]],
        rows=rows + [_row(part, "cue") for part in content["cues"]],
        pictures=[_picture(folder, part) for part in content.get("pictures", ())],
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


def _picture(folder: Path, part: Mapping[str, Any]) -> AuditPicture:
    told = (str(part["file"]), str(part["alt"]), str(part.get("caption", "")))
    path = (folder / part["file"]).resolve()
    inside = path.is_relative_to(folder.resolve()) and path.is_file()
    content = path.read_bytes() if inside else b""
    kind = next((kind for start, kind in KINDS.items() if content.startswith(start)), None)
    if kind is None or len(content) > LARGEST_PICTURE:
        return AuditPicture("", *told)
    return AuditPicture(f"data:image/{kind};base64," + base64.b64encode(content).decode(), *told)
