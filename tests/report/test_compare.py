"""crossbias compare: which runs share a row, what is refused, and the files it writes."""

import csv
import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, t
from sklearn.metrics import roc_auc_score
from torch.nn.functional import one_hot

from crossbias.cli import main
from crossbias.errors import CrossbiasError
from crossbias.report import report
from crossbias.runs import METRICS, compare, grids_of, legend, to_csv, to_latex, to_markdown
from crossbias.runs.files import read_json, write_json
from crossbias.runs.health import Symptom, save_health
from crossbias.runs.rows import over_runs
from crossbias.runs.stored import load_predictions, save_predictions
from crossbias.verify import Estimate, mcnemar

WriteRun = Callable[..., Path]
END: dict[str, Any] = {"method": "end", "paper": "EnD", "supervision": "bias labels"}


def changed(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The run with something else in its ``config.json``."""
    config = read_json(folder / "config.json")
    change(config)
    write_json(folder / "config.json", config)
    return folder


def test_seeds_of_one_method_share_a_row_and_methods_do_not(write_run: WriteRun) -> None:
    rates = [0.2, 0.3, 0.6]
    erm = [write_run(f"erm{s}", seed=s, conflicting=rate) for s, rate in enumerate(rates)]
    found = compare([*erm, write_run("end", **END, conflicting=0.8)])
    plain, end = found.rows
    assert (plain.label, plain.supervision, len(plain.runs)) == ("Plain training (ERM)", "none", 3)
    assert (end.label, end.supervision, len(end.runs)) == ("EnD", "bias labels", 1)
    cell = plain.numbers["conflicting"]
    assert cell is not None
    half = t.ppf(0.975, 2) * np.std(rates, ddof=1) / np.sqrt(3)
    assert cell[:4] == pytest.approx(
        (
            np.mean(rates),
            max(0, np.mean(rates) - half),
            np.mean(rates) + half,
            np.std(rates, ddof=1),
        )
    )
    own = end.numbers["conflicting"]
    assert own is not None
    assert own[:3] == end.metrics[0].conflicting[:3]
    assert np.isnan(own.deviation)
    gain = found.gains["EnD"]["conflicting"]
    assert gain.value == pytest.approx(0.8 - np.mean(rates))
    assert gain.low < gain.value < gain.high
    assert found.tests["EnD"] == {}  # McNemar's test is about two models
    assert "The rows are over different numbers of seeds." in found.notes


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda config: config.update(selection="validation-accuracy"), "selection"),
        (lambda config: config.update(supervision="kind of bias"), "supervision"),
        (lambda config: config["train"].update(lr=0.5), "train lr 0.5"),
        (lambda config: config["method"].update(alpha=2), "method alpha 2"),
        (lambda config: config["data"]["hashes"].update(train="feed" * 4), "train data feedfeed"),
        (lambda config: config["data"].update(seed=7), "data seed 7"),
    ],
)
def test_runs_that_differ_in_anything_but_the_seed_have_their_own_labelled_rows(
    write_run: WriteRun, change: Callable[[dict[str, Any]], object], word: str
) -> None:
    first, second = write_run("a"), changed(write_run("b", seed=1), change)
    rows = compare([first, second]).rows
    assert [len(row.runs) for row in rows] == [1, 1]
    assert rows[0].label != rows[1].label
    assert word in rows[1].label


def test_different_selection_rules_are_shown_and_noted(write_run: WriteRun) -> None:
    folders = [write_run("a"), write_run("b", **END, selection="validation-worst-group")]
    found = compare(folders)
    assert [row.selection for row in found.rows] == ["last", "validation-worst-group"]
    assert "the rule by which the model was chosen" in found.notes[0]
    assert grids_of(found)[0].header[1:4] == ("supervision", "selection", "seeds")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": "mnist"}, "they differ in data set: glyphs and mnist"),
        ({"classes": ("circle", "square", "moon")}, "they differ in classes"),
        (
            {"hash": "beef"},
            "hash of the test split: c0ffee and beef; compare runs of the same data",
        ),
        ({"bias": "texture"}, "bias attribute"),
        ({"done": False}, "is not finished; finish it with: crossbias train --resume"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(
    write_run: WriteRun, change: dict[str, Any], message: str
) -> None:
    folders = [write_run("a"), write_run("b", **change)]
    with pytest.raises(CrossbiasError) as caught:
        compare(folders)
    assert message in str(caught.value)


def test_other_samples_under_the_same_hash_are_refused(write_run: WriteRun) -> None:
    folders = [write_run("a"), write_run("b", **END)]
    splits = load_predictions(folders[1] / "predictions.npz")
    splits["test"].index.add_(1)
    save_predictions(folders[1] / "predictions.npz", splits)
    with pytest.raises(CrossbiasError, match="different samples"):
        compare(folders)


def judge_again(folder: Path, alignment: torch.Tensor) -> None:
    """Metrics of the test split that fit its predictions and an alignment."""
    metrics = read_json(folder / "metrics.json")
    names = {key: metrics["test"][key] for key in ("classes", "biases")}
    found = load_predictions(folder / "predictions.npz")["test"].metrics(
        bias="background", alignment=alignment, classes=names["classes"], values=names["biases"]
    )
    write_json(folder / "metrics.json", metrics | {"test": found.to_json()})


def test_another_association_in_training_gives_aligned_another_meaning(write_run: WriteRun) -> None:
    folders = [write_run("a"), write_run("b", **END)]
    judge_again(folders[1], torch.eye(3, dtype=torch.bool)[[1, 0, 2]])
    with pytest.raises(CrossbiasError) as caught:
        compare(folders)
    assert "aligned groups, those that go together in training: (circle, red), (square, gr" in str(
        caught.value
    )
    assert "and (circle, green), (square, red), (star, blue)" in str(caught.value)


def test_seeds_of_different_versions_are_noted(write_run: WriteRun) -> None:
    first = write_run("a")
    versions = changed(write_run("b", seed=1), lambda config: config.update(commit="abc"))
    notes = " ".join(compare([first, versions]).notes)
    assert "differ in more than method and seed: the version of crossbias." in notes
    other = write_run("c", seed=2)
    torch_ = changed(other, lambda config: config["environment"].update(torch="2.6.0"))
    assert "the version of torch" in " ".join(compare([first, torch_]).notes)
    assert not compare([first, write_run("d", seed=3)]).notes


def test_a_model_chosen_by_validation_is_not_judged_there_without_a_word(
    write_run: WriteRun,
) -> None:
    chosen = write_run("a", selection="validation-accuracy")
    assert "too high" in " ".join(compare([chosen], split="validation").notes)
    assert not compare([chosen]).notes
    assert not compare([write_run("b")], split="validation").notes


def test_trainings_that_agree_have_an_interval_over_samples(write_run: WriteRun) -> None:
    found = compare([write_run(f"s{seed}", seed=seed) for seed in range(3)])
    number = found.rows[0].numbers["conflicting"]
    assert number is not None
    assert number.deviation == pytest.approx(0, abs=1e-12)
    own = found.rows[0].metrics[0].conflicting
    assert (number.low, number.high) == pytest.approx((own.low, own.high))


def test_the_worst_group_over_seeds_is_also_over_samples(write_run: WriteRun) -> None:
    rates = (0.20, 0.21, 0.20)
    runs = [write_run(f"s{s}", seed=s, conflicting=r, each=100) for s, r in enumerate(rates)]
    (row,) = compare(runs).rows
    number = row.numbers["worst_group"]
    assert number is not None
    lows, highs = zip(*(each.worst_group.accuracy[1:3] for each in row.metrics), strict=True)
    assert (number.low, number.high) == pytest.approx((np.mean(lows), np.mean(highs)))


def test_the_interval_of_a_gain_and_mcnemars_test_agree(write_run: WriteRun) -> None:
    """The second model is better in one class and worse in another, which is no clear gain.

    Within cells nothing is left to chance; but other samples would not fall into cells as these.
    """
    folders = [write_run("a", aligned=0.5, conflicting=0.5), write_run("b", **END)]
    splits = load_predictions(folders[1] / "predictions.npz")
    plain = load_predictions(folders[0] / "predictions.npz")["test"]
    target = splits["test"].target
    right = torch.where(
        target == 0, target, torch.where(target == 1, plain.answers, 0 * target + 1)
    )
    splits["test"] = replace(splits["test"], probabilities=one_hot(right, 3).float())
    save_predictions(folders[1] / "predictions.npz", splits)
    judge_again(folders[1], torch.eye(3, dtype=torch.bool))
    found = compare(folders)
    gain, test = found.gains["EnD"]["overall"], found.tests["EnD"]["overall"]
    assert test.only_first + test.only_second > 60
    assert (gain.low <= 0 <= gain.high) == (test.p > 0.05)
    pairs = torch.tensor([test.only_first, test.only_second]).double()
    wald = 1.96 * float((pairs.sum() - (pairs[0] - pairs[1]) ** 2 / 270).sqrt()) / 270
    assert gain.high - gain.low == pytest.approx(2 * wald, rel=0.05)


def test_missing_predictions_are_named(write_run: WriteRun) -> None:
    folder = write_run("a")
    splits = load_predictions(folder / "predictions.npz")
    save_predictions(folder / "predictions.npz", {"validation": splits["validation"]})
    with pytest.raises(CrossbiasError, match="a has no predictions for its split 'test'"):
        compare([folder])
    (folder / "predictions.npz").unlink()
    with pytest.raises(CrossbiasError, match=r"predictions\.npz does not exist"):
        compare([folder])


def test_the_same_training_twice_is_not_two_seeds(write_run: WriteRun) -> None:
    with pytest.raises(CrossbiasError, match=r"a and .*b are the same training: .* seed 0 too"):
        compare([write_run("a"), write_run("b")])


def test_one_run_each_has_mcnemars_test_on_the_same_samples(write_run: WriteRun) -> None:
    folders = [write_run("end", **END, conflicting=0.5), write_run("erm", conflicting=0.4)]
    found = compare(folders)
    assert found.baseline.label == "Plain training (ERM)"  # not the first
    first, second = (
        (run.judged.answers == run.judged.target).numpy()
        for run in (found.baseline.runs[0], found.rows[0].runs[0])
    )
    part = found.rows[0].runs[0].judged
    where = (part.target != part.attributes["background"]).numpy()
    better, worse = (second & ~first & where).sum(), (first & ~second & where).sum()
    test = found.tests["EnD"]["conflicting"]
    assert test[:2] == (worse, better)
    assert test.p == pytest.approx(binomtest(int(better), int(better + worse)).pvalue)
    gain = found.gains["EnD"]["conflicting"]
    assert gain.value == pytest.approx((better - worse) / where.sum())
    assert "worst_group" not in found.gains["EnD"]


def test_every_column_equals_the_runs_own_number(write_run: WriteRun) -> None:
    found = compare([write_run("a")], metrics=list(METRICS))
    row = found.rows[0]
    metrics = row.metrics[0]
    for name, cell in row.numbers.items():
        own = getattr(metrics, name, None)
        own = own if own is None or isinstance(own, Estimate) else own.accuracy
        if own is not None:
            assert cell is not None
            assert cell[:3] == own[:3]
    diagonal = [metrics.by_group[place][place].value for place in range(3)]
    assert row.numbers["biased"] is not None
    assert row.numbers["biased"].value == pytest.approx(np.mean(diagonal))


def test_runs_without_bias_labels_have_only_what_needs_none(write_run: WriteRun) -> None:
    for change in ({"labeled": False}, {"bias": None}):
        name = f"a{len(change)}{next(iter(change))}"
        found = compare([write_run(name, **change), write_run(f"{name}2", **END, **change)])
        cells = found.rows[0].numbers
        assert cells["overall"] is not None
        assert cells["aligned"] is cells["worst_group"] is None
        assert set(found.gains["EnD"]) == {"overall"}


def test_a_mistyped_metric_or_attribute_is_named(write_run: WriteRun) -> None:
    folder = write_run("a")
    with pytest.raises(CrossbiasError, match=r"no metric 'overal' \(did you mean 'overall'\?\)"):
        compare([folder], metrics=["overal"])
    with pytest.raises(CrossbiasError, match="no metrics by attribute 'size'"):
        compare([folder], attribute="size")


def test_another_attribute_judges_all_runs(write_run: WriteRun) -> None:
    """Stored metrics of ``size`` under the made-up runs, where every sample is of size 0."""
    folders = [write_run("a"), write_run("b", **END)]
    for folder in folders:
        stored = read_json(folder / "metrics.json")
        by_size = load_predictions(folder / "predictions.npz")["test"].metrics(
            bias="size",
            alignment=torch.ones(3, 1, dtype=torch.bool),
            classes=stored["test"]["classes"],
            values=["one"],
        )
        stored["test"]["attributes"] = {"size": by_size.to_json()}
        write_json(folder / "metrics.json", stored)
    found = compare(folders, attribute="size")
    cells = found.rows[0].numbers
    assert found.attribute == "size"
    assert cells["aligned"] == cells["overall"]
    assert cells["conflicting"] is None


def test_another_split_judges_all_runs(write_run: WriteRun) -> None:
    folders = [write_run("a", single=True), write_run("b", **END, conflicting=0.9, single=True)]
    found = compare(folders, split="test-color-1")
    assert found.split == "test-color-1"
    cell = found.rows[1].numbers["overall"]
    assert cell is not None
    assert (cell.n, cell.value) == (90, pytest.approx((29 + 27 + 27) / 90))
    assert found.gains["EnD"]["overall"].n == 90
    with pytest.raises(
        CrossbiasError, match=r"no split 'test-colour-1' \(did you mean 'test-color-1"
    ):
        compare(folders, split="test-colour-1")


def test_runs_whose_chosen_split_differs_are_refused(write_run: WriteRun) -> None:
    first, second = write_run("a", single=True), write_run("b", **END, single=True)
    changed(second, lambda config: config["data"]["hashes"].update({"test-color-1": "beef"}))
    compare([first, second])
    with pytest.raises(CrossbiasError, match=r"content hash of the test split: None and beef"):
        compare([first, second], split="test-color-1")


HOSTILE = r"<script>|&_%$#{}~^\ *x* [a](b)"


def test_csv_is_read_back_in_full_precision(write_run: WriteRun) -> None:
    found = compare([write_run("a"), write_run("b", method="end", paper=HOSTILE)])
    lines = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert len(lines) == 2 * 5
    other = next(line for line in lines if line["row"] != "Plain training (ERM)")
    assert other["row"] == HOSTILE
    assert float(other["value"]) == found.rows[1].numbers["overall"].value
    assert float(other["gain"]) == found.gains[HOSTILE]["overall"].value
    assert (other["interval_over"], other["deviation"]) == ("test samples", "")
    worst = next(line for line in lines if line["metric"] == "worst_group")
    assert worst["gain"] == worst["p"] == ""


def test_hostile_names_stay_names_in_markdown_and_latex(write_run: WriteRun) -> None:
    found = compare([write_run("a"), write_run("b", method="end", paper=HOSTILE)])
    markdown = to_markdown(found)
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    unescaped = [line.replace("\\|", "").count("|") for line in rows]
    assert unescaped == [10] * 4 + [6] * 3
    assert "<script>" not in markdown.replace("\\<script>", "")
    latex = to_latex(found)
    body = [line for line in latex.splitlines() if not line.startswith("%")]
    assert [line.replace("\\&", "").count("&") for line in body if line.endswith(r"\\")] == [
        *(8, 8, 8),
        *(4, 4),
    ]
    assert (
        r"$<$script$>$|\&\_\%\$\#\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}" in latex
    )


def test_a_notebook_shows_the_tables_and_hostile_names_stay_names(
    write_run: WriteRun, parse: Callable[[str], Any]
) -> None:
    names = {"data": HOSTILE, "bias": HOSTILE, "classes": (HOSTILE, "b", "c"), "each": 4}
    codes = {"method": HOSTILE, "supervision": HOSTILE, "selection": HOSTILE}
    found = compare([write_run("a", **names), write_run("b", **names, **codes)])
    root = parse(found._repr_html_())
    tags = {"table", "caption", "thead", "tbody", "tr", "th", "td", "ul", "li"}
    assert {element.tag for element in root.every()[1:]} == tags
    assert not any(element.attributes for element in root.every())
    for table, grid in zip(root.find("table"), grids_of(found), strict=True):
        assert table.find("caption")[0].text == grid.title
        rows = [[cell.text for cell in row.children] for row in table.find("tr")]
        assert rows == [list(line) for line in (grid.header, *grid.rows)]
    assert [line.text for line in root.find("li")] == legend(found)
    assert any(HOSTILE in note for note in found.notes)


def test_the_legend_says_what_the_numbers_are(write_run: WriteRun) -> None:
    one = compare([write_run("a", each=5), write_run("b", **END, each=5)])
    words = " ".join(legend(one))
    assert "over test samples" in words
    assert "McNemar" in words
    assert "9 of 9 groups have fewer than 12 samples" in words
    assert "about these two trained models, not about the methods" in words
    methods = [write_run(f"{name}{seed}", seed=seed, **kind)
               for name, kind in (("e", {}), ("f", END)) for seed in (0, 1)]  # fmt: skip
    words = " ".join(legend(compare(methods)))
    assert "other trainings and other test samples" in words
    assert "two trained models" not in words
    several = compare([write_run("c"), write_run("d", seed=1)])
    assert "Student's" in " ".join(legend(several))
    assert len(grids_of(several)) == 1


def test_metrics_without_a_gain_have_no_place_among_the_gains(write_run: WriteRun) -> None:
    folders = [write_run("a"), write_run("b", **END)]
    _, gains = grids_of(compare(folders, metrics=["worst_group", "class_averaged"]))
    assert gains.header == ("method", "class averaged")
    worst = compare(folders, metrics=["worst_group"])
    assert len(grids_of(worst)) == 1
    assert "gain" not in " ".join(legend(worst))


@pytest.fixture
def crossbias(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Type a command; get exit code, output and errors."""

    def typed(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["crossbias", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return typed


Typed = Callable[..., tuple[int, str, str]]


def test_the_command_prints_rows_and_gains(crossbias: Typed, write_run: WriteRun) -> None:
    folders = [write_run("a"), write_run("b", **END, conflicting=0.9)]
    beside = folders[0].parent / "report.html"
    beside.touch()  # the shell's runs/* names it too
    code, out, err = crossbias("compare", *folders, beside)
    assert code == 0, err
    words = " ".join(out.split())
    assert "supervision selection seeds" in words
    assert "Gain over Plain training (ERM)" in words
    assert "+70.0" in words
    assert "p<.001" in words


@pytest.mark.parametrize("suffix", ["csv", "md", "tex"])
def test_the_files_name_says_the_format(
    crossbias: Typed, write_run: WriteRun, tmp_path: Path, suffix: str
) -> None:
    folder, output = write_run("a"), tmp_path / f"table.{suffix}"
    code, out, err = crossbias("compare", folder, "-o", output)
    assert code == 0, err
    assert "wrote" in out
    name = {"csv": "csv", "md": "markdown", "tex": "latex"}[suffix]
    printed = crossbias("compare", folder, "--format", name)[1]
    assert output.read_text() == printed
    assert json.dumps("Plain training (ERM)")[1:-1] in printed


def test_mistakes_are_one_line_and_exit_code_2(
    crossbias: Typed, write_run: WriteRun, tmp_path: Path
) -> None:
    folder, unfinished = write_run("a"), write_run("b", done=False)
    for arguments, message in (
        ([folder, unfinished], "not finished"),
        ([folder, "-o", tmp_path / "table.pdf"], "is not known; name a file that ends in"),
        ([folder, "--metric", "wurst"], "there is no metric 'wurst'"),
        ([tmp_path / "nowhere"], "is not a run folder"),
    ):
        code, _, err = crossbias("compare", *arguments)
        assert code == 2
        assert message in err
        assert err.count("\n") == 1


def test_what_went_wrong_in_a_run_is_shown_with_its_row(
    write_run: WriteRun, tmp_path: Path
) -> None:
    """In the legend, and so in every format, in the report and in its JSON."""
    folders = [write_run("erm"), write_run("end", **END, conflicting=0.8)]
    symptom = Symptom("few <pairs>", "Batches have few <pairs>.", "Draw by group.")
    save_health(folders[1] / "health.json", [symptom])
    found = compare(folders)
    assert [row.health for row in found.rows] == [[], [str(symptom)]]
    line = "EnD: Batches have few <pairs>. Draw by group."
    assert found.health == [line]
    assert legend(found)[-1] == line
    save_health(folders[0] / "health.json", [symptom])
    assert compare(folders).health == ["All rows: Batches have few <pairs>. Draw by group."]
    (folders[0] / "health.json").unlink()
    written = {}
    for ending in ("html", "json"):
        report(folders, tmp_path / f"report.{ending}")
        written[ending] = (tmp_path / f"report.{ending}").read_text()
    assert "EnD: Batches have few &lt;pairs&gt;. Draw by group." in written["html"]
    assert [row["health"] for row in json.loads(written["json"])["rows"]] == [[], [str(symptom)]]


@pytest.mark.parametrize(
    ("method", "conflicting", "advised"),
    [("end", 0.2, True), ("end", 0.1, True), ("end", 0.8, False), ("erm", 0.2, False)],
)
def test_the_legend_says_where_to_read_on_if_nothing_helps(
    method: str, conflicting: float, advised: bool, write_run: WriteRun
) -> None:
    """Where no interval of a gain is above zero, and there is something to compare."""
    runs = [write_run("erm", conflicting=0.2)]
    if method != "erm":
        runs.append(write_run("end", **END, conflicting=conflicting))
    lines = [line for line in legend(compare(runs)) if "docs/it-did-not-help.md" in line]
    assert len(lines) == advised
    assert all("than plain training on conflicting samples. What" in line for line in lines)


def test_without_association_nothing_is_said_about_conflicting_samples(write_run: WriteRun) -> None:
    runs = [write_run("erm", associated=False), write_run("end", **END, associated=False)]
    assert "than plain training over all samples. What to" in " ".join(compare(runs).notes)


def test_a_positive_class_is_compared_by_its_name(write_run: WriteRun, tmp_path: Path) -> None:
    """Two classes of 60 samples: the aligned half right to 90%, the other to 50%."""
    two = {"classes": ("Healthy", "COVID-19"), "biases": ("north", "south"), "each": 30}
    folders = [write_run("a", **two, aligned=0.9, conflicting=0.5), write_run("b", **END, **two)]
    found = compare(folders, positive="COVID-19")
    plain = found.rows[0].numbers
    assert plain["sensitivity"] is not None
    assert plain["sensitivity"].value == pytest.approx((0.9 + 0.5) / 2)
    assert plain["sensitivity"].n == 60
    judged = found.runs[0].judged
    truth, scores = judged.target.numpy() == 1, judged.probabilities[:, 1].numpy()
    assert plain["auc"].value == pytest.approx(roc_auc_score(truth, scores))
    main, finding, gains = grids_of(found)
    assert main.header[4:] == grids_of(compare(folders))[0].header[4:]
    assert gains.title.startswith("Gain over")
    assert gains.header[-3:] == finding.header[4:]
    scores = [run.judged.probabilities[:, 1].numpy() for run in found.runs]
    (label,) = found.gains
    assert found.gains[label]["auc"].value == pytest.approx(
        roc_auc_score(truth, scores[1]) - roc_auc_score(truth, scores[0])
    )
    calls = [run.judged.answers[judged.target == 1] == 1 for run in found.runs]
    assert found.tests[label]["sensitivity"] == mcnemar(*calls)
    assert legend(found)[0] == "A sample is called COVID-19 if that is its most probable class."
    assert finding.header[4:] == (
        "sensitivity for COVID-19",
        "specificity for COVID-19",
        "AUC for COVID-19",
    )
    other = compare(folders, positive="Healthy").rows[0].numbers
    assert other["specificity"] == plain["sensitivity"]
    report(folders, tmp_path / "page.md", positive="COVID-19")
    page = (tmp_path / "page.md").read_text()
    assert "Sensitivity for COVID-19" in page
    report(folders, tmp_path / "page.md")
    assert "ensitivity" not in (tmp_path / "page.md").read_text()
    assert found.commands[-1].endswith(" --positive COVID-19 -o report.html")


def test_a_positive_class_must_be_one_and_must_be_named(write_run: WriteRun) -> None:
    folder = write_run("a")
    with pytest.raises(CrossbiasError, match="no class 'moon'; the classes are: circle, square, s"):
        compare([folder], positive="moon")
    with pytest.raises(CrossbiasError, match="auc is about one class; name it: --positive CLASS"):
        compare([folder], metrics=["auc"])


def test_gains_of_several_methods_are_corrected_for_their_number(write_run: WriteRun) -> None:
    """EnD's gain is clear where it is the only comparison, and not among five."""
    plain = write_run("erm", conflicting=0.4)
    end = write_run("end", **END, conflicting=0.43)
    others = [write_run(f"m{n}", method=f"m{n}", conflicting=0.4, seed=n) for n in range(1, 5)]
    alone, among = compare([plain, end]), compare([plain, end, *others])
    first, second = (found.gains["EnD"]["conflicting"] for found in (alone, among))
    assert first.low > 0 > second.low
    quantiles = [t.ppf(1 - 0.025 / k, first.n - 1 + 2) for k in (1, 5)]
    ratio = (second.high - second.low) / (first.high - first.low)
    assert ratio == pytest.approx(quantiles[1] / quantiles[0], rel=0.01)
    p, corrected = (found.tests["EnD"]["conflicting"].p for found in (alone, among))
    assert p < 0.05
    assert corrected == pytest.approx(5 * p)  # it is the smallest of the five
    assert "corrected" not in " ".join([alone.correction, *legend(alone), grids_of(alone)[1].title])
    assert "No method is clearly better" not in " ".join(alone.notes)
    assert "No method is clearly better than plain training on conflicting samples. What" in (
        " ".join(among.notes)
    )
    assert grids_of(among)[1].title.endswith("[95% interval, corrected for 5 comparisons]")
    said = " ".join(legend(among))
    assert "the intervals of all gains hold together with 95% confidence" in said
    assert "each by itself with 99.0% (Bonferroni)" in said
    assert "McNemar's exact test, corrected by Holm's method" in said


def test_clusters_widen_gains_replace_mcnemar_and_are_named(
    write_run: WriteRun, report: Callable[..., str]
) -> None:
    changes = {"erm": {"conflicting": 0.2}, "end": {"conflicting": 0.6, "method": "end"}}
    plain, clustered = (
        [write_run(f"{name}{size}", **each, in_cluster=size) for name, each in changes.items()]
        for size in (0, 10)
    )
    one, other = compare(plain), compare(clustered)
    (label,) = other.gains
    for name in ("overall", "conflicting", "unbiased"):
        before, after = one.gains[label][name], other.gains[label][name]
        assert after.value == pytest.approx(before.value)
    assert one.tests[label]
    assert not other.tests[label]
    (note,) = [line for line in legend(other) if "clusters" in line]
    assert note.startswith("The 270 samples are in 27 clusters and say as much about the overall")
    assert not [line for line in legend(one) if "clusters" in line]
    assert note in report(*clustered)
    wide, narrow = (compare(runs, positive="circle").rows[0].numbers for runs in (clustered, plain))
    for name in ("sensitivity", "auc"):
        assert wide[name].value == pytest.approx(narrow[name].value)
        assert wide[name].high - wide[name].low > 1.2 * (narrow[name].high - narrow[name].low)
    with pytest.raises(CrossbiasError, match="they differ in number of clusters: none and 27;"):
        compare([plain[0], clustered[1]])


def test_seeds_that_agree_on_a_gap_that_noise_made_do_not_make_it_certain() -> None:
    """The intervals of two of three runs are cut at 0; the upper ends are 12 points away."""
    gaps = [Estimate(0.10, 0.0, 0.22, 200), Estimate(0.12, 0.0, 0.24, 200)]
    gaps.append(Estimate(0.14, 0.02, 0.26, 200))
    found = over_runs(gaps, noisy=True)
    assert (found.value, found.low) == pytest.approx((0.12, 0.0), abs=1e-9)
    assert found.high == pytest.approx(0.24)
    assert over_runs(gaps).low > 0.05  # Student's t over three seeds that agree
