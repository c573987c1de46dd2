"""Audits beside the runs: what is shown, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from crossbias.errors import CrossbiasError
from crossbias.report.audit_section import LARGEST_PICTURE, LARGEST_TABLE, read_audit

WriteRun = Callable[..., Path]
Parse = Callable[[str], Any]
HOSTILE = '<script>alert("x")</script>'


def content(**changes: Any) -> dict[str, Any]:
    """An audit of the made-up runs' data."""
    attribute = {"name": "background", "balanced_accuracy": {"value": 0.9}, "chance": 0.1}
    verdict = {
        "sentence": "The background alone gives the class away.",
        "findings": [{"kind": "attribute", "name": "background", "strength": "strong",
                      "sentence": f"Background {HOSTILE} goes along with the class."}],
        "not_tested": ["Other networks."],
    }  # fmt: skip
    return {
        "version": 1,
        "data": {"name": "glyphs", "split": "train", "hash": "a1b2", "samples": 300},
        "attributes": [attribute | {"p_corrected": 0.002, "reason": None}],
        "cues": [{"name": "thumbnail", "what": "4 x 4 pixels", "reason": "no images"}],
        "model": None,
        "verdict": verdict,
        "pictures": [{"file": "a.png", "alt": "two suspects", "caption": "Suspects."}],
    } | changes


@pytest.fixture
def write_audit(tmp_path: Path) -> Callable[..., Path]:
    def write(**changes: Any) -> Path:
        folder = tmp_path / "audit"
        folder.mkdir()
        (folder / "audit.json").write_text(json.dumps(content(**changes)))
        Image.fromarray(np.zeros((4, 6, 3), dtype=np.uint8)).save(folder / "a.png")
        return folder

    return write


def test_its_findings_are_on_the_page(
    write_run: WriteRun, write_audit: Callable[..., Path], report: Callable[..., str], parse: Parse
) -> None:
    root = parse(report(write_run("a", side=0), audit=write_audit()))
    assert [heading.text for heading in root.find("h2")][:3] == [
        *("Results", "What the audit found", "Accuracy by group")
    ]
    section = root.find("section")[1]
    for told in ("The background alone gives", HOSTILE, "strong", "Other networks.", "a1b2"):
        assert told in section.text
    (table,) = section.find("table")
    rows = [[cell.text for cell in row.children] for row in table.find("tbody")[0].find("tr")]
    assert rows[0] == ["background", "90.0%", "10.0%", "0.002", "attribute"]
    assert rows[1][0] == "thumbnail"
    assert rows[1][1:4] == ["\N{EN DASH}"] * 3
    assert "no images" in rows[1][4]
    (image,) = section.find("img")
    assert image.attributes["alt"] == "two suspects"
    assert image.attributes["src"].startswith("data:image/png;base64,")


@pytest.mark.parametrize("file", ["../a.png", "missing.png", "audit.json", "large.png"])
def test_pictures_that_are_outside_missing_foreign_or_too_large_are_named(
    write_audit: Callable[..., Path], file: str
) -> None:
    folder = write_audit(pictures=[{"file": file, "alt": "x", "caption": ""}])
    (folder.parent / "a.png").write_bytes((folder / "a.png").read_bytes())
    large = (folder / "a.png").read_bytes() + bytes(LARGEST_PICTURE)
    (folder / "large.png").write_bytes(large)
    (picture,) = read_audit(folder).pictures
    assert (picture.source, picture.file) == ("", file)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "has version 2, this report reads 1"),
        ({"verdict": None}, "is damaged, it is not an audit"),
        ({"attributes": 3}, "is damaged, it is not an audit"),
        ({"data": {}}, "is damaged, it is not an audit"),
        ({"pictures": [{}]}, "is damaged, it is not an audit"),
    ],
)
def test_a_foreign_audit_is_refused(
    write_audit: Callable[..., Path], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(CrossbiasError, match=message):
        read_audit(write_audit(**changes))


def test_a_missing_audit_and_one_of_other_data_are_refused(
    write_run: WriteRun, write_audit: Callable[..., Path], report: Callable[..., str],
    tmp_path: Path,
) -> None:  # fmt: skip
    with pytest.raises(CrossbiasError, match=r"holds no audit\.json"):
        report(write_run("a"), audit=tmp_path)
    folder = write_audit(data={"name": "faces"})
    with pytest.raises(CrossbiasError, match="is about faces, but the runs are about glyphs"):
        report(write_run("b"), audit=folder)


def test_tables_of_counts_that_no_page_can_show_are_left_out(
    write_audit: Callable[..., Path],
) -> None:
    small = content()["attributes"][0] | {
        "classes": ["a", "b"], "values": ["x"], "counts": [[1], [2]],
    }  # fmt: skip
    names = [str(number) for number in range(LARGEST_TABLE + 1)]
    large = small | {"values": names, "counts": [[0] * len(names)] * 2}
    (table,) = read_audit(write_audit(attributes=[small, large])).counts
    assert (table.values, table.rows) == (["x"], [("a", [1]), ("b", [2])])
