"""The report as Markdown and as JSON: the same numbers as the page's."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crossbias.errors import CrossbiasError
from crossbias.formatting import markdown
from crossbias.report import report as write_report
from crossbias.runs import compare, grids_of
from crossbias.runs.files import read_json

WriteRun = Callable[..., Path]
END = {"method": "end", "paper": "EnD (CVPR 2021)", "supervision": "bias labels"}


def refuse(value: str) -> None:
    raise AssertionError(f"{value} is not JSON")


def test_json_holds_every_number_and_what_made_it(
    write_run: WriteRun, report: Callable[..., str]
) -> None:
    folders = [write_run("a", attribute="size"), write_run("b", **END, conflicting=0.8)]
    found = json.loads(report(*folders, format="json"), parse_constant=refuse)
    assert [run["name"] for run in found["runs"]] == ["Plain training (ERM)", "EnD (CVPR 2021)"]
    for folder, run in zip(folders, found["runs"], strict=True):
        assert run["metrics"] == read_json(folder / "metrics.json")
        assert run["config"] == read_json(folder / "config.json")
    assert found["summary"][0].startswith("The models predict the class (circle, square, star)")
    assert found["summary"][1].startswith("In this one run, plain training is clearly worse")
    assert found["title"] == "Bias report: glyphs"
    assert [row["name"] for row in found["rows"]] == ["Plain training (ERM)", "EnD (CVPR 2021)"]
    assert (found["baseline"], found["rows"][0]["gains"]) == ("Plain training (ERM)", {})
    end, comparison = found["rows"][1], compare(folders)
    number = comparison.rows[1].numbers["conflicting"]
    assert end["metrics"]["conflicting"] == number._asdict() | {"deviation": None}
    assert found["comparisons"] == 1
    assert end["gains"]["conflicting"] == comparison.gains[end["name"]]["conflicting"].to_json()
    assert end["p"]["conflicting"] == comparison.tests[end["name"]]["conflicting"].p
    assert found["commands"][-1].startswith("crossbias report ")
    assert (found["split"], found["bias"], found["audit"]) == ("test", "background", None)


def cells(text: str, title: str) -> list[list[str]]:
    """The rows of the table under a heading."""
    part = text.split(f"## {title}\n")[1].split("\n## ", maxsplit=1)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_markdown_shows_the_numbers_of_metrics_json(
    write_run: WriteRun, report: Callable[..., str]
) -> None:
    folders = [write_run("a"), write_run("b", **END, conflicting=0.8, selection="other")]
    text = report(*folders, format="md")
    heads, _, *rows = cells(text, "Accuracy on the test split")
    assert heads == [
        *("Method", "Conflicting", "Worst of 9 groups", "Aligned", "Overall", "Unbiased"),
        *("Seeds", "Supervision", "Selection"),
    ]
    for folder, row in zip(folders, rows, strict=True):
        test = read_json(folder / "metrics.json")["test"]
        for name, cell in zip(("aligned", "overall", "unbiased"), row[3:6], strict=True):
            numbers = [100 * test[name][part] for part in ("value", "low", "high")]
            expected = "{:.1f}% ({:.1f}\N{EN DASH}{:.1f}%)".format(*numbers)
            assert cell == expected
    assert len(cells(text, "Accuracy by group")) == 2 + 9
    assert "The rows differ in more than method and seed: the rule by which the model" in text
    gains = grids_of(compare(folders))[1]
    (row,) = cells(text, markdown(gains.title))[2:]
    assert row == [markdown(cell) for cell in gains.rows[0]]
    for told in ("It used bias labels.", "a1b2", "c0ffee", "crossbias report "):
        assert told in text


def test_names_stay_text_in_markdown(write_run: WriteRun, report: Callable[..., str]) -> None:
    names = ("<script>x</script>", "a|b", "`*_[c](d)", "e\n# f")
    like = {"classes": names, "biases": names, "bias": names[1], "data": names[3], "each": 4}
    text = report(write_run("a", **like, method=names[0]), format="md")
    prose = [line for line in text.splitlines() if not line.startswith("    ")]  # rest is code
    assert not [line for line in prose if "<script" in line]
    assert not re.search(r"^# f", text, re.MULTILINE)
    assert r"a\|b" in text
    assert r"\`\*\_\[c\](d)" in text
    widths = {len(re.findall(r"(?<!\\)\|", row)) for row in text.splitlines() if row[:1] == "|"}
    assert widths == {10, 6, 4}  # every row of a table has the columns of its heading


def test_an_unknown_format_is_refused(write_run: WriteRun, tmp_path: Path) -> None:
    with pytest.raises(CrossbiasError, match="one of html, md, json, pdf, got 'doc'"):
        write_report([write_run("a")], tmp_path / "r", format="doc")  # type: ignore[arg-type]
    with pytest.raises(CrossbiasError, match="one of html, md, json, pdf, got 'docx'"):
        write_report([write_run("b")], tmp_path / "r.docx")
    assert not (tmp_path / "r.docx").exists()


@pytest.mark.parametrize(
    ("name", "format", "start"),
    [
        ("page.html", None, "<!DOCTYPE html>"),
        ("report", None, "<!DOCTYPE html>"),
        ("x.MD", None, "# Bias report"),
        ("x.json", None, "{"),
        ("x.json", "md", "# Bias report"),
    ],
)
def test_the_files_ending_decides_unless_a_format_is_named(
    write_run: WriteRun, tmp_path: Path, name: str, format: Any, start: str
) -> None:
    written = write_report(str(write_run("a")), str(tmp_path / name), format=format)
    assert written.path == tmp_path / name
    assert written.path.read_text().lstrip().startswith(start)


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(
    write_run: WriteRun, tmp_path: Path, parse: Callable[[str], Any]
) -> None:
    folder = write_run("a", classes=('"><script>alert(1)</script>', "b", "c"))
    written = write_report(folder, tmp_path / "page.html")
    root = parse(written._repr_html_())
    assert [element.tag for element in root.every()[1:]] == ["iframe"]
    (frame,) = root.find("iframe")
    assert frame.attributes["srcdoc"] == written.path.read_text()
    assert frame.attributes["sandbox"] == "allow-scripts"  # and nothing of the notebook


@pytest.mark.parametrize("name", ["x.md", "x.json"])
def test_a_notebook_shows_other_formats_as_text(
    write_run: WriteRun, tmp_path: Path, parse: Callable[[str], Any], name: str
) -> None:
    folder = write_run("a", classes=("</pre><script>alert(1)</script>", "b", "c"))
    written = write_report([folder], tmp_path / name)
    root = parse(written._repr_html_())
    assert [element.tag for element in root.every()[1:]] == ["pre"]
    assert root.text == written.path.read_text()


@pytest.mark.parametrize(
    ("arguments", "output", "start"),
    [
        (["--format", "json"], "report.json", "{"),
        (["-o", "x.md"], "x.md", "# Bias report"),
        (["-o", "x.md", "--format", "json"], "x.md", "{"),
    ],
)
def test_the_command_line_chooses_by_option_or_by_the_files_ending(
    write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str],
    output: str, start: str,
) -> None:  # fmt: skip
    from typer.testing import CliRunner

    from crossbias.cli import app

    folder: Any = write_run("a")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["report", str(folder), *arguments])
    assert result.exit_code == 0, result.output
    assert result.output == f"wrote {output}\n"
    assert (tmp_path / output).read_text().startswith(start)


def test_a_title_of_ones_own(write_run: WriteRun, report: Callable[..., str], parse: Any) -> None:
    title = "Gender & age <in> faces"
    root = parse(report(write_run("a"), title=title))
    assert root.find("h1")[0].text == root.find("title")[0].text == title
    assert report(write_run("b"), title=title, format="md").startswith("# Gender &amp; age &lt;in")
    assert json.loads(report(write_run("c"), title=title, format="json"))["title"] == title


def test_a_folder_of_images_is_called_by_its_own_name(
    write_run: WriteRun, report: Callable[..., str]
) -> None:
    text = report(write_run("a", data="folder:/home/me/faces"), format="md")
    assert text.startswith("# Bias report: faces\n")


def test_without_a_browser_a_pdf_is_refused_before_the_work(
    write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    with pytest.raises(CrossbiasError, match="a PDF needs Chromium or Chrome, and neither is on"):
        write_report([write_run("half", done=False)], tmp_path / "x.pdf")
    assert not (tmp_path / "x.pdf").exists()


def test_a_browser_that_prints_nothing_is_told_with_its_reason(
    write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\necho cannot open display >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(CrossbiasError, match="printed no PDF: cannot open display; write report"):
        write_report([write_run("a")], tmp_path / "x.pdf")
