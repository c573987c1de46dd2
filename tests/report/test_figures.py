import re
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
import pytest
import torch

from crossbias.formatting import short
from crossbias.report.curves import learning_curves
from crossbias.report.gap_chart import gap_chart
from crossbias.report.heatmap import accuracy_matrix
from crossbias.runs.read import Epoch
from crossbias.runs.rows import METRICS, Row, over_runs
from crossbias.types import UNKNOWN
from crossbias.verify import Metrics

Parse = Callable[[str], Any]
HOSTILE = ("<script>x</script>", "\"&'--><b>", "$\\frac{$", "漢字", "a\nb\x00\udcff", "_hidden")


def metrics_of(
    correct: Sequence[Sequence[int]], total: Sequence[Sequence[int]], names: Sequence[str] = ()
) -> Metrics:
    """Metrics of a square table of groups; the diagonal is aligned, wrong answers are the next."""
    size = len(total)
    counts = torch.zeros(size, size + 1, size, dtype=torch.int64)
    for row in range(size):
        counts[row, :-1, row] += torch.tensor(correct[row])
        counts[row, :-1, (row + 1) % size] += torch.tensor(total[row]) - torch.tensor(correct[row])
    table = torch.eye(size, dtype=torch.bool)
    names = names or [f"name {number}" for number in range(size)]
    return Metrics.from_counts(counts, alignment=table, classes=names, biases=names)


def rows_of(names: Sequence[str], test: Metrics) -> list[Row]:
    """Rows of one run each, all with the same metrics."""
    numbers = {name: over_runs([metric(test)]) for name, metric in METRICS.items()}
    return [Row(name, (), (test,), numbers) for name in names]


def test_the_matrix_writes_percent_and_samples_into_small_tables(parse: Parse) -> None:
    test = metrics_of([[9, 1], [0, 30]], [[10, 4], [0, 40]])
    figure = parse(accuracy_matrix("run", [test], "background", 0))
    texts = [text.text for text in figure.find("text")]
    for written in ("90", "n = 10", "25", "n = 4", "75", "n = 40", "none", "background", "class"):
        assert texts.count(written) == 1
    assert texts.count("name 0") == 2  # as a class and as a bias value


def test_the_matrix_of_a_large_table_has_no_numbers_and_thinned_names(parse: Parse) -> None:
    total = [[10] * 50 for _ in range(50)]
    figure = parse(accuracy_matrix("run", [metrics_of(total, total)], "background", 0))
    texts = [text.text for text in figure.find("text")]
    assert "100" not in texts
    assert texts.count("name 0") == texts.count("name 48") == 2
    assert "name 1" not in texts


def test_aligned_groups_are_framed(parse: Parse) -> None:
    test = metrics_of([[9, 1], [5, 30]], [[10, 4], [9, 40]])
    figure = accuracy_matrix("run", [test], "background", 0)
    assert len(re.findall(r"fill: none; stroke: var\(--ink\)", figure)) == 2


def test_figures_are_described_for_those_who_cannot_see_them(parse: Parse) -> None:
    test = metrics_of([[9, 1], [0, 30]], [[10, 4], [0, 40]])
    (matrix,) = parse(accuracy_matrix("EnD", [test], "background", 0)).find("svg")
    assert matrix.attributes["role"] == "img"
    assert matrix.attributes["aria-label"] == (
        "EnD: accuracy of 3 groups of class and background, from 25.0% to 90.0%"
    )
    (gap,) = parse(gap_chart(rows_of(["EnD"], test), "test")).find("svg")
    assert "EnD: aligned 78.0%, conflicting 25.0%" in gap.attributes["aria-label"]


def unlabeled() -> Metrics:
    counts = torch.tensor([[[3, 1]], [[0, 4]]])
    table = torch.zeros(2, 0, dtype=torch.bool)
    assert counts.shape[1] == -UNKNOWN  # the column of unknown biases alone
    return Metrics.from_counts(counts, alignment=table, classes=("a", "b"), biases=())


def test_the_gap_chart_marks_both_kinds_by_shape_and_color(parse: Parse) -> None:
    test = metrics_of([[9, 1], [2, 30]], [[10, 4], [9, 40]])
    figure = gap_chart(rows_of(["one", "two"], test), "test")
    for color in ("--aligned", "--conflicting"):
        assert len(re.findall(rf"<use [^>]*fill: var\({color}\)", figure)) == 2
    markers = set(re.findall(r'<use xlink:href="#(\w+)"[^>]*fill: var\(--(\w+)\)', figure))
    assert len({shape for shape, _ in markers}) == len({color for _, color in markers}) == 2
    (chart,) = parse(gap_chart(rows_of(["plain"], unlabeled()), "test")).find("svg")
    assert "plain: 87.5% of all samples" in chart.attributes["aria-label"]


def epochs(values: Sequence[float], stage: str = "final") -> list[Epoch]:
    return [
        Epoch(stage, number, 1.0, {"loss": value, "task": value / 2}, {"accuracy": value})
        for number, value in enumerate(values, start=1)
    ]


def test_curves_show_every_loss_and_score_by_name(parse: Parse) -> None:
    figure = parse(learning_curves("run", epochs([0.5, 0.4, 0.3]), {}, 0))
    texts = [text.text for text in figure.find("text")]
    for name in ("loss", "task", "accuracy", "epoch", "validation"):
        assert name in texts
    assert "final" not in texts  # a single stage needs no name


def test_the_loss_of_the_validation_is_among_the_losses(parse: Parse) -> None:
    scores = {"accuracy": 0.9, "cross_entropy": 7.0}
    log = [Epoch("final", 1, 1.0, {"loss": 6.0}, scores)]
    texts = [text.text for text in parse(learning_curves("run", log, {}, 0)).find("text")]
    losses, scored = texts[: texts.index("loss")], texts[texts.index("loss") :]
    assert "7.00" in losses
    assert "validation loss" in scored[: scored.index("accuracy")]
    assert "cross entropy" not in texts


def test_one_epoch_has_one_tick(parse: Parse) -> None:
    texts = [text.text for text in parse(learning_curves("run", epochs([0.5]), {}, 0)).find("text")]
    assert "1" in texts
    assert not {"0.5", "0.8", "1.0", "1.1"} & set(texts[-4:])


def test_curves_of_stages_are_named_and_not_joined(parse: Parse) -> None:
    log = epochs([0.5, 0.4], "biased") + epochs([0.9, 0.8], "final")
    figure = learning_curves("run", log, {}, 0)
    texts = [text.text for text in parse(figure).find("text")]
    assert {"biased", "final"} <= set(texts)
    # Lines inside the axes are clipped to them; those of the legend are not.
    lines = re.findall(r'd="([^"]*)" clip-path=[^>]*stroke: var\(--series-1\)', figure)
    assert len(lines) == 2  # loss and accuracy
    assert all(line.count("M") == 2 for line in lines)


def test_numbered_stages_have_one_name_and_narrow_ones_none(parse: Parse) -> None:
    ensemble = [epoch for k in (1, 2, 3) for epoch in epochs([0.5], f"ensemble-{k}")]
    short = learning_curves("run", ensemble + epochs([0.9, 0.8]), {}, 0)
    texts = [text.text for text in parse(short).find("text")]
    assert texts.count("ensemble") == texts.count("final") == 1
    assert not any("ensemble-" in text for text in texts)
    assert "over 5 epochs (ensemble 3, final 2)" in short
    long = learning_curves("run", ensemble + epochs([0.5] * 90), {}, 0)
    texts = [text.text for text in parse(long).find("text")]
    assert "ensemble" not in texts
    assert "final" in texts


def test_curves_without_validation_or_without_epochs_say_so(parse: Parse) -> None:
    log = [epoch._replace(validation={}) for epoch in epochs([0.5, 0.4])]
    assert "no validation" in parse(learning_curves("run", log, {}, 0)).text
    assert "no loss" in parse(learning_curves("run", [], {}, 0)).text


def test_curves_leave_out_what_is_no_number(parse: Parse) -> None:
    log = epochs([0.5, float("inf"), 0.3])
    log[0] = log[0]._replace(validation={"accuracy": None})
    assert "nan" not in learning_curves("run", log, {}, 0)


def test_names_in_figures_are_text_and_nothing_else(parse: Parse) -> None:
    total = [[10] * len(HOSTILE) for _ in HOSTILE]
    test = metrics_of(total, total, HOSTILE)
    log = [Epoch(name, 1, 1.0, dict.fromkeys(HOSTILE, 1.0), {}) for name in HOSTILE]
    drawn = (
        gap_chart(rows_of(HOSTILE, test), HOSTILE[1])
        + accuracy_matrix(HOSTILE[1], [test], HOSTILE[0], 0)
        + learning_curves(HOSTILE[1], log, {}, 0)
        + learning_curves(HOSTILE[1], log, dict.fromkeys(HOSTILE, HOSTILE[:2]), 1)
    )
    root = parse(drawn)
    allowed = {
        "",
        "svg",
        "g",
        "path",
        "text",
        "tspan",
        "use",
        "defs",
        "style",
        "clippath",
        "rect",
        "image",
    }
    assert {element.tag for element in root.every()} <= allowed
    assert not root.find("script")
    assert not root.find("b")
    texts = [text.text for text in root.find("text")]
    for name in HOSTILE:
        assert short(name, 32) in texts
    assert "http" not in drawn


def test_drawing_leaves_matplotlib_as_it_was_and_ignores_its_settings(parse: Parse) -> None:
    test = metrics_of([[9, 1], [2, 30]], [[10, 4], [9, 40]])
    expected = gap_chart(rows_of(["one"], test), "test")
    with matplotlib.rc_context({"text.usetex": True, "font.size": 40, "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        assert gap_chart(rows_of(["one"], test), "test") == expected
        assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("number", [1, 2])
def test_internal_names_of_two_figures_do_not_meet(number: int) -> None:
    log = epochs([0.5, 0.4])
    first, second = (
        set(re.findall(r'\bid="([^"]+)"', learning_curves("run", log, {}, each)))
        for each in (0, number)
    )
    assert first
    assert not first & second
