import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

from crossbias.errors import CrossbiasError
from crossbias.report import report as write_report
from crossbias.runs import compare, grids_of, legend
from crossbias.runs.files import read_json
from crossbias.verify import Estimate

WriteRun = Callable[..., Path]
Parse = Callable[[str], Any]
END = {"method": "end", "paper": "EnD (CVPR 2021)", "supervision": "bias labels"}


def cells(table: Any) -> list[list[Any]]:
    (body,) = table.find("tbody")
    return [[cell for cell in row.children if cell.tag in ("td", "th")] for row in body.find("tr")]


@pytest.fixture(scope="module")
def two(fake_run: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The folders of two runs; beside them is their page."""
    home = tmp_path_factory.mktemp("two")
    runs = {"erm": fake_run(), "end": fake_run(**END, conflicting=0.75, seed=7)}
    folders = [run.write(home / name) for name, run in runs.items()]
    write_report(folders, home / "page.html")
    return folders


@pytest.fixture
def page_of_two(two: list[Path], parse: Parse) -> Any:
    """The page of two runs, parsed."""
    return parse((two[0].parent / "page.html").read_text(encoding="utf-8"))


def test_every_section_is_there_once_and_in_order(page_of_two: Any) -> None:
    root = page_of_two
    (html,) = root.find("html")
    assert html.attributes["lang"] == "en"
    assert [title.text for title in root.find("title")] == ["Bias report: glyphs"]
    assert [heading.text for heading in root.find("h1")] == ["Bias report: glyphs"]
    assert [heading.text for heading in root.find("h2")] == [
        *("Results", "Accuracy by group", "Pictures", "Learning curves"),
        *("How the models were trained", "Repeat it", "Words on this page"),
    ]
    (contents,) = root.find("nav")
    assert [link.text for link in contents.find("a")] == [each.text for each in root.find("h2")]
    linked = [link.attributes["href"] for link in contents.find("a")]
    assert linked == [f"#{heading.attributes['id']}" for heading in root.find("h2")]
    assert root.find("h3")
    assert not root.find("h4")


def titled(root: Any, start: str) -> Any:
    """The table whose caption starts so."""
    tables = root.find("table")
    return next(each for each in tables if each.find("caption")[0].text.startswith(start))


def test_every_table_and_picture_says_what_it_is(page_of_two: Any) -> None:
    root = page_of_two
    assert len(root.find("table")) == 8
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
    elements = root.every()
    identifiers = [each.attributes["id"] for each in elements if "id" in each.attributes]
    assert len(identifiers) == len(set(identifiers))


def test_the_table_shows_the_numbers_of_metrics_json(two: list[Path], page_of_two: Any) -> None:
    folders, root = two, page_of_two
    comparison, validation = (
        titled(root, f"Accuracy on the {split} split") for split in ("test", "validation")
    )
    for table, split in ((comparison, "test"), (validation, "validation")):
        heads = [head.text for head in table.find("thead")[0].find("button")]
        gain = ["Gain"] if table is comparison else []
        assert heads == [
            *(
                "Method",
                "Conflicting",
                *gain,
                "Worst of 9 groups",
                "Aligned",
                "Overall",
                "Unbiased",
            ),
            *("Seeds", "Supervision", "Selection"),
        ]
        for folder, row in zip(folders, cells(table), strict=True):
            metrics = read_json(folder / "metrics.json")[split]
            parts = ("worst_group", "aligned", "overall", "unbiased")
            for name, cell in zip(parts, row[-7:-3], strict=True):
                check_number(cell, Estimate.from_json(metrics[name]))
            check_number(row[1], Estimate.from_json(metrics["conflicting"]))
            worst = metrics["worst_group"]
            assert f"{worst['target']}, {worst['bias']}" in row[-7].text
    erm, end = cells(comparison)
    assert [cell.text for cell in erm[-3:]] == ["1", "none", "last"]
    assert end[0].text.startswith("EnD (CVPR 2021)")
    assert [cell.text for cell in end[-3:]] == ["1", "bias labels", "last"]
    gain = compare(folders).gains[end[0].text]["conflicting"]
    assert erm[2].text == "\N{EN DASH}"
    assert end[2].text == (
        f"{100 * gain.value:+.1f} {100 * gain.low:+.1f} to {100 * gain.high:+.1f}"
    )
    assert end[2].attributes["class"] == "number better"


def test_seeds_share_a_row_and_the_page_shows_what_compare_does(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    rates = (0.2, 0.3, 0.4)
    folders = [write_run(f"erm{s}", conflicting=rate, seed=s) for s, rate in enumerate(rates)]
    folders += [write_run("end", **END, conflicting=0.8)]
    root, found = parse(report(*folders)), compare(folders)
    plain, _ = cells(titled(root, "Accuracy on the test split"))
    number = found.rows[0].numbers["conflicting"]
    half = t.ppf(0.975, 2) * 0.1 / np.sqrt(3)
    assert number[:3] == pytest.approx((0.3, 0.3 - half, 0.3 + half))
    assert plain[-3].text == "3"
    assert plain[1].text.startswith("30.0% ± 10.0")
    assert f"{100 * number.low:.1f}\N{EN DASH}{100 * number.high:.1f}%" in plain[1].text
    gains = titled(root, "Gain over Plain training (ERM)")
    assert [[cell.text for cell in row] for row in cells(gains)] == [
        list(line) for line in grids_of(found)[1].rows
    ]
    for line in legend(found):
        assert line in root.text
    groups = cells(titled(root, "Accuracy of every group"))
    assert groups[1][4].text.startswith("30.0% ± 10.0")
    headings = [heading.text for heading in root.find("h3")]
    assert headings.count("Plain training (ERM)") == 1  # the matrix over its seeds
    assert headings.count("Plain training (ERM), seed 1") == 1  # its curves


def check_number(cell: Any, estimate: Estimate) -> None:
    assert float(cell.attributes["data-value"]) == estimate.value
    assert cell.text.startswith(f"{100 * estimate.value:.1f}%")
    limits = f"{100 * estimate.low:.1f}\N{EN DASH}{100 * estimate.high:.1f}%"
    assert limits in cell.text
    assert cell.attributes["title"] == f"95% interval {limits}, n = {estimate.n}"


def test_the_table_of_groups_shows_the_numbers_of_metrics_json(
    two: list[Path], page_of_two: Any
) -> None:
    table = titled(page_of_two, "Accuracy of every group")
    metrics = [read_json(folder / "metrics.json")["test"] for folder in two]
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
    assert ["best" in cell.attributes["class"] for cell in erm[1:7]] == [0, 0, 0, 1, 0, 0]
    assert ["best" in cell.attributes["class"] for cell in end[1:7]] == [1, 0, 1, 0, 1, 1]


def test_supervision_selection_and_what_repeats_a_run_are_told(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    folder = write_run(
        "end", **END, selection="validation-worst-group", parameters=(("alpha", 0.25),)
    )
    root = parse(report(write_run("erm"), folder))
    training = titled(root, "How each model was trained").text
    assert "It used bias labels." in training
    assert "It knew nothing about the bias." in training
    assert "highest worst-group accuracy on the validation split, which used its bias" in training
    assert "alpha 0.25" in training
    assert "5.0 s" in training
    repeat = root.find("section")[-2].text
    config = read_json(folder / "config.json")
    for told in (config["command"], "0.1.0", "2.15.0", "c0ffee", "a1b2", '"alpha": 0.25'):
        assert told in repeat
    assert "The rows differ in more than method and seed: the rule by which" in root.text


def test_sortable_headings_are_buttons_and_their_cells_carry_values(page_of_two: Any) -> None:
    tables = [e for e in page_of_two.find("table") if "sortable" in e.attributes.get("class", "")]
    assert len(tables) == 4
    for table in tables:
        heads = table.find("thead")[0].find("th")
        assert all(len(head.find("button")) == 1 for head in heads)
        for row in cells(table):
            assert len(row) == len(heads)
            for head, cell in zip(heads, row, strict=True):
                if "number" in head.attributes.get("class", "") and cell.text != "\N{EN DASH}":
                    float(cell.attributes["data-value"])


def test_a_single_run_makes_a_page(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    root = parse(report(write_run("erm")))
    assert "No other method is in this report to compare it with." in root.text
    assert "1 run " in root.text
    assert "differ in more than method" not in root.text


@pytest.mark.parametrize("change", [{"bias": None}, {"labeled": False}], ids=str)
def test_runs_without_bias_labels_show_overall_accuracy_only(
    write_run: WriteRun, report: Callable[..., str], parse: Parse, change: dict[str, Any]
) -> None:
    root = parse(report(write_run("erm", **change), write_run("end", **END, **change)))
    heads = [button.text for button in root.find("table")[0].find("button")]
    assert heads == ["Method", "Overall", "Gain", "Seeds", "Supervision", "Selection"]
    assert "Without bias labels there are no groups." in root.text
    assert len(root.find("svg")) == 1 + 2
    assert len(root.find("img")) == 6


def test_a_split_without_conflicting_samples_shows_a_dash(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    root = parse(report(write_run("erm", only_conflicting=True, conflicting=0.5)))
    (row,) = cells(root.find("table")[0])
    assert [cell.attributes["data-value"] == "" for cell in row[1:6]] == [0, 0, 1, 0, 0]
    assert row[3].text == "\N{EN DASH}"
    assert "The runs stored no pictures." in root.text


def test_a_table_of_very_many_groups_keeps_the_worst(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    names = tuple(f"n{number}" for number in range(30))
    run = write_run("erm", classes=names, biases=names, each=2, conflicting=0.5, side=0)
    root = parse(report(run))
    rows = cells(titled(root, "Accuracy of every group"))
    assert len(rows) == 400
    assert {row[2].text for row in rows} == {"conflicting"}  # the thirty aligned ones are right
    assert "These are the 400 groups with the lowest accuracy, out of 900." in root.text


def page_size(write_run: WriteRun, report: Callable[..., str], number: int) -> int:
    """Bytes of the page of this many runs of ten classes, large pictures and many epochs."""
    names = tuple("0123456789")
    like = {"classes": names, "biases": names, "each": 10, "side": 224, "epochs": 100}
    folders = [write_run(f"of {number}, {each}", **like, seed=each) for each in range(number)]
    return len(report(*folders).encode())


def test_each_run_adds_little_to_the_page(write_run: WriteRun, report: Callable[..., str]) -> None:
    one, three = (page_size(write_run, report, number) for number in (1, 3))
    assert one + 19 * (three - one) / 2 < 10 * 2**20


@pytest.mark.slow
def test_twenty_runs_stay_below_ten_megabytes(
    write_run: WriteRun, report: Callable[..., str]
) -> None:
    assert page_size(write_run, report, 20) < 10 * 2**20


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
