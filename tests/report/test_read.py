import json
from collections.abc import Callable
from pathlib import Path

import pytest

from crossbias.errors import CrossbiasError
from crossbias.runs import compare
from crossbias.runs.compare import differences, read_runs
from crossbias.runs.files import read_json, write_json
from crossbias.runs.read import read_run
from crossbias.runs.stored import load_predictions, save_predictions

WriteRun = Callable[..., Path]


def test_a_run_folder_is_read_whole(write_run: WriteRun) -> None:
    folder = write_run("a", method="end", paper="EnD (CVPR 2021)", stages=("biased", "final"))
    run = read_run(folder)
    assert (run.method, run.title, run.bias, run.split) == (
        *("end", "EnD (CVPR 2021)"),
        *("background", "test"),
    )
    assert [(epoch.stage, epoch.epoch) for epoch in run.log] == [
        (stage, epoch) for stage in ("biased", "final") for epoch in (1, 2, 3, 4)
    ]
    assert run.log[0].validation == {}
    assert run.log[-1].validation["accuracy"] == pytest.approx(1 - 0.5 * 0.7**4)
    assert run.test.to_json() == read_json(folder / "metrics.json")["test"]
    assert set(run.predictions) == {"validation", "test"}
    assert run.hash_of("test") == "c0ffee"


def test_a_method_without_a_paper_goes_by_its_name_and_erm_by_what_it_is(
    write_run: WriteRun,
) -> None:
    assert read_run(write_run("a", method="mine")).title == "mine"
    assert read_run(write_run("b", method="erm", paper="x")).title == "Plain training (ERM)"
    reversal = read_run(write_run("c", method="grl", paper="gradient reversal (JMLR 2016)"))
    assert reversal.title == "Gradient reversal (JMLR 2016)"  # it may begin a sentence


def test_a_method_around_another_names_both(write_run: WriteRun) -> None:
    inner = (("inner", {"name": "pgd", "q": 0.7}),)
    run = read_run(write_run("a", method="denoised", paper="De-noising", parameters=inner))
    assert run.title == "De-noising, then pgd"


def test_a_run_is_judged_by_the_first_split_that_is_not_trained_on(write_run: WriteRun) -> None:
    folder = write_run("a")
    metrics = read_json(folder / "metrics.json")
    renamed = {"train": metrics["validation"], "unseen": metrics["test"]}
    write_json(folder / "metrics.json", renamed)
    splits = load_predictions(folder / "predictions.npz")
    save_predictions(folder / "predictions.npz", {"unseen": splits["test"]})
    assert read_run(folder).split == "unseen"
    write_json(folder / "metrics.json", {"validation": metrics["validation"]})
    with pytest.raises(CrossbiasError, match="no test split, only: validation"):
        read_run(folder)


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        CrossbiasError, match=rf"{name} is not a run folder: it has no config\.json"
    ):
        read_run(tmp_path / name)


def test_an_unfinished_run_is_refused_with_the_command_that_finishes_it(
    write_run: WriteRun,
) -> None:
    folder = write_run("a", done=False)
    with pytest.raises(CrossbiasError) as caught:
        read_run(folder)
    assert f"finish it with: crossbias train --resume --out {folder}" in str(caught.value)


FILES = ("config.json", "log.jsonl", "metrics.json", "predictions.npz")


@pytest.mark.parametrize("name", FILES[1:])
def test_a_missing_file_is_named(write_run: WriteRun, name: str) -> None:
    folder = write_run("a")
    (folder / name).unlink()
    with pytest.raises(
        CrossbiasError, match=f"{name} does not exist, though .* train the run again"
    ):
        read_run(folder)


@pytest.mark.parametrize("content", [" ", "{", "[]", "7", '{"a": 1}', '{"test": {}}', "\x00"])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named(write_run: WriteRun, name: str, content: str) -> None:
    folder = write_run("a")
    (folder / name).write_text(content)
    with pytest.raises(CrossbiasError, match=name):
        read_run(folder)


@pytest.mark.parametrize(
    "key", ["method.name", "supervision", "selection", "data.name", "train.seed", "page"]
)
def test_a_configuration_that_lacks_a_part_is_refused(write_run: WriteRun, key: str) -> None:
    folder = write_run("a")
    config = part = read_json(folder / "config.json")
    *parents, last = key.split(".")
    for parent in parents:
        part = part[parent]
    del part[last]
    write_json(folder / "config.json", config)
    with pytest.raises(CrossbiasError, match=f"config.json is damaged: it lacks {key}"):
        read_run(folder)


@pytest.mark.parametrize(
    "page",
    [7, [], {"figures": []}, {"figures": {"sampling": "scores"}}, {"figures": {"sampling": [1]}},
     {"curves": {"hsic": ["HSIC"]}}, {"curves": {"hsic": "HS"}}],
)  # fmt: skip
def test_a_configuration_that_declares_no_figures_is_refused(
    write_run: WriteRun, page: object
) -> None:
    folder = write_run("a")
    config = read_json(folder / "config.json")
    assert read_run(folder).curves == {"regularizer": ("penalty", "entropy")}
    write_json(folder / "config.json", config | {"page": {}})
    assert read_run(folder).curves == {}
    write_json(folder / "config.json", config | {"page": page})
    with pytest.raises(CrossbiasError, match=r"config\.json is damaged: page must hold figures"):
        read_run(folder)


DAMAGED = ['{"stage": "fi', "[]", "7", '{"stage": "final"}', '{"stage": 1, "epoch": 2}', "\x00\x00"]


@pytest.mark.parametrize("line", [*DAMAGED, '{"stage": "a", "epoch": 1, "seconds": "x"}'])
def test_a_damaged_line_of_the_log_is_a_note(write_run: WriteRun, line: str) -> None:
    folder = write_run("a")
    lines = (folder / "log.jsonl").read_text().splitlines()
    (folder / "log.jsonl").write_text("\n".join([*lines[:2], line, *lines[2:]]) + "\n")
    run = read_run(folder)
    assert [epoch.epoch for epoch in run.log] == [1, 2, 3, 4]
    assert [symptom.name for symptom in run.health] == ["damaged log"]
    assert "1 of 5 lines" in run.health[0].sentence


def test_files_of_different_runs_in_one_folder_are_refused(write_run: WriteRun) -> None:
    folder, larger = write_run("a"), write_run("b", each=31)
    (folder / "predictions.npz").write_bytes((larger / "predictions.npz").read_bytes())
    with pytest.raises(CrossbiasError, match=r"predictions\.npz and metrics\.json do not belong"):
        read_run(folder)


def test_no_folder_and_the_same_folder_twice_are_refused(write_run: WriteRun) -> None:
    folder = write_run("a")
    with pytest.raises(CrossbiasError, match="at least one run folder"):
        read_runs([])
    with pytest.raises(CrossbiasError, match="named twice"):
        read_runs([folder, folder / ".." / "a"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": "mnist"}, "data set: glyphs and mnist"),
        ({"bias": "texture"}, "bias attribute: background and texture"),
        (
            {"classes": ("circle", "square", "moon")},
            "classes: circle, square, star and circle, squ",
        ),
        (
            {"biases": ("red", "green", "gray")},
            "bias values: red, green, blue and red, green, gray",
        ),
        ({"hash": "beef"}, "content hash of the test split: c0ffee and beef"),
    ],
)
def test_runs_of_different_data_are_refused_naming_both(
    write_run: WriteRun, change: dict[str, object], message: str
) -> None:
    first, other = write_run("a"), write_run("b", **change)
    with pytest.raises(CrossbiasError) as caught:
        read_runs([first, other])
    assert f"{first} and {other} cannot be compared, they differ in" in str(caught.value)
    assert message in str(caught.value)


def test_names_of_runs_are_as_short_as_they_can_be(write_run: WriteRun) -> None:
    lff = {"method": "lff", "paper": "LfF"}
    folders = [
        write_run("two", **lff, seed=2),
        write_run("erm"),
        write_run("one", **lff, seed=1),
        write_run("three", method="end", paper="EnD", parameters=(("alpha", 1.0),)),
        write_run("four", method="end", paper="EnD", parameters=(("alpha", None),)),
    ]
    assert compare(folders).run_labels == (
        *("LfF, seed 2", "Plain training (ERM)", "LfF, seed 1"),
        *("EnD (method alpha 1.0)", "EnD (method alpha none)"),
    )


def test_rows_whose_settings_read_the_same_are_told_apart_by_their_folders(
    write_run: WriteRun,
) -> None:
    folders = [write_run(f"a{v!r}", method="end", parameters=(("k", v),)) for v in (1, "1")]
    assert compare(folders).run_labels == tuple(f"end (method k 1), {folder}" for folder in folders)


def test_what_the_data_is_and_where_else_it_was_judged_makes_no_other_row(
    write_run: WriteRun,
) -> None:
    """Facts of ``config.json`` are no settings, nor is a split that only one run was judged on."""
    folders = [write_run("a"), write_run("b", seed=1)]
    config = read_json(folders[1] / "config.json")
    facts = {"shape": [3, 9, 9], "classes": ["a", "b"], "values": {"background": ["x"]}}
    config["data"] |= facts | {"aligned": {"background": [["x"], []]}}
    config["data"]["hashes"]["test-extra"] = "feed"
    write_json(folders[1] / "config.json", config)
    (row,) = compare(folders).rows
    assert (row.label, len(row.runs)) == ("Plain training (ERM)", 2)


def test_one_folder_may_be_named_alone_and_as_text(write_run: WriteRun) -> None:
    folder = write_run("a")
    for named in (folder, str(folder), [str(folder)]):
        assert [run.path for run in read_runs(named)] == [folder]


def test_differences_besides_method_and_seed_are_found(write_run: WriteRun) -> None:
    folders = [write_run("a"), write_run("b", method="end", seed=3)]
    assert differences(read_runs(folders)) == []
    folders.append(write_run("c", selection="validation-accuracy", epochs=5))
    config = json.loads((folders[2] / "config.json").read_text())
    config["network"], config["data"]["hashes"]["train"] = {"name": "resnet18"}, "other"
    write_json(folders[2] / "config.json", config)
    assert differences(read_runs(folders)) == [
        *("the rule by which the model was chosen", "the training data"),
        *("the network", "the training settings"),
    ]
