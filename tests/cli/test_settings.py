"""``--set``: which table a setting goes to, what is refused, and what older options are told."""

import json
from pathlib import Path

import pytest

from crossbias.cli.options import settings
from crossbias.errors import CrossbiasError

TINY = ["--data", "glyphs", "--set", "data.size=60", "--set", "data.test_size=50"]
FAST = [*TINY, "--set", "data.image_size=16", "--device", "cpu", "--batch-size", "20"]


@pytest.mark.parametrize(
    ("written", "table", "values"),
    [
        (["train.lr=.01"], "train", {"lr": ".01"}),
        (["data.rho=.99"], "data", {"rho": ".99"}),
        (["network.pretrained=true"], "network", {"pretrained": "true"}),
        (["method.alpha=1"], "method", {"alpha": "1"}),
        (["alpha=1"], "method", {"alpha": "1"}),
        (["inner.q=.5"], "method", {"inner.q": ".5"}),
        (["method.inner.q=.5"], "method", {"inner.q": ".5"}),
        (["data=1"], "method", {"data": "1"}),
        (["alpha=1", "method.alpha=2"], "method", {"alpha": "2"}),
        (["method.alpha=2", "alpha=1"], "method", {"alpha": "1"}),
        ([" train.lr = .01 "], "train", {"lr": ".01"}),
        (["train.augment="], "train", {"augment": ""}),
        (["data.labels=a=b.csv"], "data", {"labels": "a=b.csv"}),
    ],
)
def test_a_setting_goes_to_its_table(written, table, values):
    found = settings(written)
    assert found.pop(table) == values
    assert not any(found.values())


@pytest.mark.parametrize("written", ["alpha", "train.lr", "=1", "train.=1", ""])
def test_a_setting_without_name_or_value_is_refused(written):
    with pytest.raises(CrossbiasError, match=f"is written NAME=VALUE, got '{written}'"):
        settings([written])


def test_a_mistyped_table_is_answered_with_the_closest():
    with pytest.raises(CrossbiasError, match=r"no table 'trian' \(did you mean 'train'\?\)") as it:
        settings(["trian.lr=1"])
    assert "the tables are: method, data, network, train" in str(it.value)
    assert "write --set method.trian.lr=1" in str(it.value)
    assert settings(["method.trian.lr=1"])["method"] == {"trian.lr": "1"}


def test_every_table_can_be_set_and_a_setting_counts_more_than_an_option(crossbias):
    code, _, err = crossbias(
        "train", *FAST, "--method", "denoised", "--network", "convnet", "--epochs", "7",
        "--set", "train.epochs=1", "--set", "train.lr=.01", "--set", "network.kernel=3",
        "--set", "method.inner=end", "--set", "inner.alpha=1", "--set", "inner.alpha=2",
        "--set", "method.inner.beta=3", "--out", "run",
    )  # fmt: skip
    assert code == 0, err
    config = json.loads(Path("run/config.json").read_text())
    inner = config["method"]["inner"]
    assert (inner["name"], inner["alpha"], inner["beta"]) == ("end", 2.0, 3.0)
    assert (config["train"]["epochs"], config["train"]["lr"]) == (1, 0.01)
    assert config["network"] == {"name": "convnet", "kernel": 3}


def test_a_mistyped_table_is_one_line_and_nothing_is_written(crossbias):
    code, out, err = crossbias("train", *FAST, "--method", "erm", "--set", "trian.lr=1")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "did you mean 'train'?" in err
    assert not Path("runs").exists()


@pytest.mark.parametrize("key", ["rho", "data.rho"])
@pytest.mark.parametrize(
    "command",
    [
        ["audit", "--data", "glyphs"],
        ["data", "show", "glyphs"],
        ["data", "check", "glyphs"],
        ["data", "plant", "glyphs", "--cue", "patch", "--out", "planted"],
    ],
)
def test_without_a_method_a_bare_name_is_the_datas(crossbias, command, key):
    code, _, err = crossbias(*command, "--set", f"{key}=2")
    assert code == 2
    assert "rho of data set 'glyphs' must be in [0, 1], got 2" in err


@pytest.mark.parametrize("table", ["method", "network", "train"])
@pytest.mark.parametrize(
    "command",
    [
        ["audit", "--data", "glyphs"],
        ["data", "show", "glyphs"],
        ["data", "check", "glyphs"],
        ["data", "plant", "glyphs", "--cue", "patch", "--out", "planted"],
    ],
)
def test_without_a_method_other_tables_are_refused(crossbias, command, table):
    code, out, err = crossbias(*command, "--set", f"{table}.lr=1")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"--set {table}.lr=1: this command has no table '{table}', only 'data'" in err
    assert "write --set data.NAME=VALUE" in err


def test_evaluate_takes_settings_of_the_data(crossbias):
    assert crossbias("train", *FAST, "--method", "erm", "--epochs", "1", "--out", "r")[0] == 0
    outputs = [
        crossbias("evaluate", "r", "--split", "test", "--set", setting)
        for setting in ("seed=5", "data.seed=5", "seed=6")
    ]
    assert [code for code, _, _ in outputs] == [0, 0, 0]
    assert outputs[0][1] == outputs[1][1] != outputs[2][1]
    code, _, err = crossbias("evaluate", "r", "--set", "train.seed=5")
    assert code == 2
    assert "this command has no table 'train', only 'data'" in err
