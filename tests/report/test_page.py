import base64
import hashlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crossbias.errors import CrossbiasError
from crossbias.report import write_report
from crossbias.storage import read_json
from crossbias.verify import Estimate

WriteRun = Callable[..., Path]
Parse = Callable[[str], Any]
PACKAGE = Path(sys.modules["crossbias.report"].__path__[0])
END = {"method": "end", "paper": "EnD (CVPR 2021)", "supervision": "bias labels"}


@pytest.fixture
def report(tmp_path: Path) -> Callable[..., str]:
    """The page of some run folders, as text."""

    def make(*folders: Path) -> str:
        write_report(folders, tmp_path / "report.html")
        return (tmp_path / "report.html").read_text(encoding="utf-8")

    return make


def cells(table: Any) -> list[list[Any]]:
    (body,) = table.find("tbody")
    return [[cell for cell in row.children if cell.tag in ("td", "th")] for row in body.find("tr")]


def test_every_section_is_there_once_and_in_order(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    root = parse(report(write_run("erm"), write_run("end", **END, conflicting=0.8)))
    (html,) = root.find("html")
    assert html.attributes["lang"] == "en"
    assert [title.text for title in root.find("title")] == ["Bias report: glyphs"]
    assert [heading.text for heading in root.find("h1")] == ["Bias report: glyphs"]
    assert [heading.text for heading in root.find("h2")] == [
        *("Comparison", "Accuracy by group", "Pictures", "Learning curves"),
        *("Supervision and selection", "Repeat it"),
    ]
    assert root.find("h3")
    assert not root.find("h4")


def test_every_table_and_picture_says_what_it_is(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    root = parse(report(write_run("erm"), write_run("end", **END)))
    assert len(root.find("table")) == 6
    for table in root.find("table"):
        assert len(table.find("caption")) == 1
        assert table.inside[-1] == "div"  # wide tables scroll by themselves
    assert {head.attributes.get("scope") for head in root.find("th")} == {"row", "col"}
    assert len(root.find("img")) == 12
    for image in root.find("img"):
        assert image.attributes["src"].startswith("data:image/png;base64,")
        assert re.fullmatch(r"Sample of class \w+, background \w+", image.attributes["alt"])
    figures = root.find("svg")
    assert len(figures) == 1 + 2 + 2
    assert all(figure.attributes["aria-label"] for figure in figures)
    identifiers = [
        each.attributes["id"] for tag in TAGS for each in root.find(tag) if "id" in each.attributes
    ]
    assert len(identifiers) == len(set(identifiers))


def test_the_table_shows_the_numbers_of_metrics_json(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    folders = [write_run("erm"), write_run("end", **END, conflicting=0.75, seed=7)]
    comparison, validation, *_ = parse(report(*folders)).find("table")
    for table, split in ((comparison, "test"), (validation, "validation")):
        heads = [head.text for head in table.find("thead")[0].find("button")]
        assert heads == [
            *("Method", "Supervision", "Selection", "Seed"),
            *("Overall", "Aligned", "Conflicting", "Unbiased", "Worst group"),
        ]
        for folder, row in zip(folders, cells(table), strict=True):
            metrics = read_json(folder / "metrics.json")[split]
            parts = ("overall", "aligned", "conflicting", "unbiased", "worst_group")
            for name, cell in zip(parts, row[4:], strict=True):
                check_number(cell, Estimate.from_json(metrics[name]))
            worst = metrics["worst_group"]
            assert f"{worst['target']}, {worst['bias']}" in row[-1].text
    erm, end = cells(comparison)
    assert [cell.text for cell in erm[1:4]] == ["none", "last", "0"]
    assert end[0].text.startswith("EnD (CVPR 2021)")
    assert [cell.text for cell in end[1:4]] == ["bias labels", "last", "7"]


def check_number(cell: Any, estimate: Estimate) -> None:
    assert float(cell.attributes["data-value"]) == estimate.value
    assert cell.text.startswith(f"{100 * estimate.value:.1f}%")
    limits = f"{100 * estimate.low:.1f}\N{EN DASH}{100 * estimate.high:.1f}"
    assert limits in cell.text
    assert cell.attributes["title"] == f"95% interval {limits}, n = {estimate.n}"


def test_the_table_of_groups_shows_the_numbers_of_metrics_json(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    folders = [write_run("erm"), write_run("end", **END, conflicting=0.75)]
    table = parse(report(*folders)).find("table")[2]
    metrics = [read_json(folder / "metrics.json")["test"] for folder in folders]
    for place, row in enumerate(cells(table)):
        groups = [each["groups"][place] for each in metrics]
        kind = "aligned" if place in (0, 4, 8) else "conflicting"
        names = [groups[0]["target"], groups[0]["bias"], kind, str(groups[0]["n"])]
        assert [cell.text for cell in row[:4]] == names
        assert [float(cell.attributes["data-value"]) for cell in row[4:]] == [
            group["value"] for group in groups
        ]


def test_the_best_number_of_each_column_stands_out(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    root = parse(report(write_run("erm", aligned=1.0), write_run("end", **END, conflicting=0.8)))
    erm, end = cells(root.find("table")[0])
    assert ["best" in cell.attributes["class"] for cell in erm[4:]] == [0, 1, 0, 0, 0]
    assert ["best" in cell.attributes["class"] for cell in end[4:]] == [1, 0, 1, 1, 1]


def test_supervision_selection_and_what_repeats_a_run_are_told(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    folder = write_run(
        "end", **END, selection="validation-worst-group", parameters=(("alpha", 0.25),)
    )
    root = parse(report(write_run("erm"), folder))
    training = root.find("table")[5].text
    assert "It used bias labels." in training
    assert "It knew nothing about the bias." in training
    assert "highest worst-group accuracy on the validation split, which used its bias" in training
    assert "alpha 0.25" in training
    assert "5.0 s" in training
    repeat = root.find("section")[-1].text
    config = read_json(folder / "config.json")
    for told in (config["command"], "0.1.0", "2.15.0", "c0ffee", "a1b2", '"alpha": 0.25'):
        assert told in repeat
    assert "These runs differ in more than their method: the rule by which" in root.text


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "$\\frac{</svg></style>",
    "naïve 漢字 \N{RIGHT-TO-LEFT OVERRIDE}abc",
    "{{ 7 * 7 }} &lt;b&gt; \udcff",
)
TAGS = (
    *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section"),
    *("h1", "h2", "h3", "p", "div", "span", "ul", "li", "dl", "dt", "dd", "pre", "code", "small"),
    *("strong", "bdi", "figure", "details", "summary", "button", "script", "img"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("svg", "g", "path", "text", "tspan", "use", "defs", "clippath", "rect", "image"),
)


def every_element(element: Any) -> list[Any]:
    return [element, *(each for child in element.children for each in every_element(child))]


def test_names_from_data_are_text_wherever_they_appear(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    names = {"classes": HOSTILE, "biases": HOSTILE, "bias": HOSTILE[1], "data": HOSTILE[0]}
    codes = {"method": HOSTILE[2], "paper": HOSTILE[1], "selection": HOSTILE[0]}
    settings = {"parameters": ((HOSTILE[0], HOSTILE[1]),), "stages": HOSTILE, "each": 4}
    page = report(
        write_run(HOSTILE[2], **names, **settings),
        write_run("b", **names, **codes, supervision=HOSTILE[3], each=4, conflicting=0.9),
    )
    root = parse(page)
    elements = every_element(root)[1:]
    assert {element.tag for element in elements} <= set(TAGS)
    attributes = {name for element in elements for name in element.attributes}
    assert not [name for name in attributes if name.startswith("on")]
    (script,) = root.find("script")
    assert script.text == (PACKAGE / "page.js").read_text()
    for name in HOSTILE:
        shown = name.replace("\udcff", "?")
        assert shown in root.text
        assert any(shown in image.attributes["alt"] for image in root.find("img"))
    assert "49" not in root.find("h1")[0].text
    assert [image.attributes["src"][:5] for image in root.find("img")] == ["data:"] * 12


def test_the_page_needs_no_network_and_its_policy_allows_its_own_script_only(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    page = report(write_run("erm"), write_run("end", **END))
    root = parse(page)
    assert "http://" not in page
    assert "https://" not in page
    assert "@import" not in page
    assert not set(re.findall(r"url\((.)", page)) - {"#"}  # clip paths of the figures
    for element in every_element(root):
        for name in ("src", "href", "xlink:href"):
            assert element.attributes.get(name, "#").startswith(("#", "data:image/png;base64,"))
    (policy,) = (
        meta.attributes["content"] for meta in root.find("meta") if "http-equiv" in meta.attributes
    )
    (script,) = root.find("script")
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'; img-src data:;")


def test_sortable_headings_are_buttons_and_their_cells_carry_values(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    root = parse(report(write_run("erm"), write_run("end", **END)))
    tables = [t for t in root.find("table") if "sortable" in t.attributes.get("class", "")]
    assert len(tables) == 3
    for table in tables:
        heads = table.find("thead")[0].find("th")
        assert all(len(head.find("button")) == 1 for head in heads)
        for row in cells(table):
            assert len(row) == len(heads)
            for head, cell in zip(heads, row, strict=True):
                if "number" in head.attributes.get("class", ""):
                    float(cell.attributes["data-value"])


def test_a_single_run_makes_a_page(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    root = parse(report(write_run("erm")))
    assert "No other method is in this report to compare it with." in root.text
    assert "1 run " in root.text
    assert "differ in more than their method" not in root.text


@pytest.mark.parametrize("change", [{"bias": None}, {"labeled": False}], ids=str)
def test_runs_without_bias_labels_show_overall_accuracy_only(
    write_run: WriteRun, report: Callable[..., str], parse: Parse, change: dict[str, Any]
) -> None:
    root = parse(report(write_run("erm", **change), write_run("end", **END, **change)))
    heads = [button.text for button in root.find("table")[0].find("button")]
    assert heads == ["Method", "Supervision", "Selection", "Seed", "Overall"]
    assert "Without bias labels there are no groups." in root.text
    assert len(root.find("svg")) == 1 + 2
    assert len(root.find("img")) == 6


def test_a_split_without_conflicting_samples_shows_a_dash(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    root = parse(report(write_run("erm", only_conflicting=True, conflicting=0.5)))
    (row,) = cells(root.find("table")[0])
    assert [cell.attributes["data-value"] == "" for cell in row[4:]] == [0, 1, 0, 0, 0]
    assert row[5].text == "\N{EN DASH}"
    assert "The runs stored no pictures." in root.text


def test_a_table_of_very_many_groups_keeps_the_worst(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    names = tuple(f"n{number}" for number in range(30))
    run = write_run("erm", classes=names, biases=names, each=2, conflicting=0.5, side=0)
    root = parse(report(run))
    assert len(cells(root.find("table")[2])) == 400
    assert "The 400 groups with the lowest accuracy of 900" in root.text


def test_twenty_runs_stay_below_ten_megabytes(
    write_run: WriteRun, report: Callable[..., str]
) -> None:
    names = tuple("0123456789")
    like = {"classes": names, "biases": names, "each": 10, "side": 224, "epochs": 100}
    folder = write_run("0", **like)
    folders = [folder]
    for number in range(1, 20):
        copy = folder.with_name(str(number))
        copy.mkdir()
        for file in folder.iterdir():
            (copy / file.name).write_bytes(file.read_bytes())
        folders.append(copy)
    assert len(report(*folders).encode()) < 10 * 2**20


def test_the_same_runs_give_the_same_page(write_run: WriteRun, report: Callable[..., str]) -> None:
    folders = [write_run("erm"), write_run("end", **END)]
    assert report(*folders) == report(*folders)


def test_a_page_that_cannot_be_written_or_made_leaves_the_old_one(
    write_run: WriteRun, tmp_path: Path
) -> None:
    output = tmp_path / "page.html"
    write_report([write_run("erm")], output)
    before = output.read_bytes()
    with pytest.raises(CrossbiasError, match="not finished"):
        write_report([write_run("half", done=False)], output)
    assert output.read_bytes() == before
    with pytest.raises(CrossbiasError, match="cannot write"):
        write_report([tmp_path / "runs" / "erm"], tmp_path / "nowhere" / "page.html")


def test_reports_read_folders_and_import_nothing_that_trains(
    write_run: WriteRun, tmp_path: Path
) -> None:
    program = """
import sys
from pathlib import Path
from crossbias.report import write_report

write_report([Path(sys.argv[1])], Path(sys.argv[2]))
print(*sys.modules, sep="\\n")
"""
    command = [sys.executable, "-c", program, str(write_run("erm")), str(tmp_path / "page.html")]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    forbidden = ("crossbias.methods", "crossbias.networks", "crossbias.train", "crossbias.data")
    assert not [name for name in loaded if name.startswith((*forbidden, "lightning", "timm"))]
    assert "matplotlib.pyplot" not in loaded
    assert "crossbias.report.page" in loaded


def contrast(first: str, second: str) -> float:
    """WCAG 2.2 contrast ratio of two #rrggbb colors."""

    def luminance(color: str) -> float:
        channels = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", [0, 1, 2], ids=["light", "dark", "print"])
def test_text_is_readable_in_every_color_scheme(scheme: int) -> None:
    blocks = re.findall(r":root \{([^}]*)\}", (PACKAGE / "page.css").read_text())
    colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})", blocks[scheme]))
    colors = {
        n: "#" + "".join(2 * d for d in c[1:]) if len(c) == 4 else c for n, c in colors.items()
    }
    for text in ("ink", "muted", "aligned", "conflicting", "right", "wrong"):
        for ground in ("page", "card"):
            assert contrast(colors[text], colors[ground]) >= 4.5
    for line in (f"series-{number}" for number in range(1, 5)):
        assert contrast(colors[line], colors["card"]) >= 3
