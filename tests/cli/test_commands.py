"""The command line: what a person types, sees, and gets told."""

import json
import signal
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from crossbias.cli import main
from crossbias.methods import METHODS
from crossbias.train import environment

TINY = ["--data", "glyphs", "--set", "data.size=60", "--set", "data.test_size=50"]
FAST = [*TINY, "--set", "data.image_size=16", "--device", "cpu", "--batch-size", "20"]


COMMAND = "from crossbias.cli import main; main()"


def test_train_leaves_a_finished_run_and_says_where(crossbias):
    code, out, err = crossbias(
        "train", *FAST, "--method", "end", "--set", "alpha=1", "--set", "beta=1", "--seed", "3",
        "--epochs", "2", "--out", "runs/x",
    )  # fmt: skip
    assert code == 0, err
    config = json.loads(Path("runs/x/config.json").read_text())
    defaults = {"variant": "released", "layer": ""}
    assert config["method"] == {"name": "end", "alpha": 1.0, "beta": 1.0} | defaults
    assert config["train"]["seed"] == 3
    assert config["data"]["size"] == 60
    assert config["network"]["name"] == "small-convnet"
    metrics = json.loads(Path("runs/x/metrics.json").read_text())
    assert set(metrics) == {"validation", "test", "test-biased"}
    assert metrics["test"]["overall"]["n"] == 50
    assert Path("runs/x/done").exists()
    assert "test-biased" in out
    assert "run: runs/x" in out
    assert "final 2/2" in err


def test_quiet_prints_results_only(crossbias):
    code, out, err = crossbias(
        "train", *FAST, "--method", "erm", "--epochs", "1", "--out", "r", "--quiet"
    )
    assert code == 0
    assert err == ""
    assert "conflicting" in out


def test_a_config_file_gives_the_same_run_as_options(crossbias):
    Path("file.toml").write_text(
        """
        [method]
        name = "end"
        alpha = 2
        [data]
        name = "glyphs"
        size = 60
        test_size = 50
        image_size = 16
        [network]
        name = "convnet"
        kernel = 3
        [train]
        epochs = 1
        batch_size = 20
        device = "cpu"
        """
    )
    assert crossbias("train", "--config", "file.toml", "--out", "a")[0] == 0
    code, _, err = crossbias(
        "train", *FAST, "--method", "end", "--set", "alpha=2", "--network", "convnet",
        "--set", "network.kernel=3", "--set", "train.epochs=1", "--out", "b",
    )  # fmt: skip
    assert code == 0, err
    a, b = (json.loads(Path(name, "config.json").read_text()) for name in ("a", "b"))
    for part in ("method", "data", "network", "train"):
        assert a[part] == b[part]
    one, other = (load_file(Path(name, "model.safetensors")) for name in ("a", "b"))
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_options_override_the_file_and_another_method_drops_its_settings(crossbias):
    Path("file.toml").write_text('[method]\nname = "end"\nalpha = 2\n[train]\nepochs = 7\n')
    arguments = ["train", "--config", "file.toml", *FAST, "--epochs", "1"]
    assert crossbias(*arguments, "--set", "beta=3", "--out", "a")[0] == 0
    config = json.loads(Path("a/config.json").read_text())
    assert (config["method"]["alpha"], config["method"]["beta"]) == (2.0, 3.0)
    assert config["train"]["epochs"] == 1
    assert crossbias(*arguments, "--method", "erm", "--out", "b")[0] == 0


def test_evaluate_repeats_the_numbers_and_takes_other_data(crossbias):
    crossbias("train", *FAST, "--method", "erm", "--epochs", "1", "--out", "r")
    before = Path("r/metrics.json").read_bytes()
    code, out, _ = crossbias("evaluate", "r")
    assert code == 0
    value = json.loads(before)["test"]["overall"]["value"]
    assert f"{100 * value:.1f} [" in out
    for word in ("class average", "calibration error", "equalized-odds gap", "fewer than 12"):
        assert word in out
    code, out, _ = crossbias("evaluate", "r", "--split", "test", "--set", "data.seed=5")
    assert code == 0
    assert "test-biased" not in out
    assert Path("r/metrics.json").read_bytes() == before


def test_report_writes_one_page_of_several_runs(crossbias, monkeypatch):
    for method in ("erm", "end"):
        crossbias("train", *FAST, "--method", method, "--epochs", "1", "--out", f"runs/{method}")
    folders = ("runs/erm", "runs/end")
    code, out, err = crossbias("report", *folders, "-o", "page.html", "--title", "Our shapes")
    assert code == 0, err
    page = Path("page.html").read_text()
    assert "runs/erm" in page
    assert "<title>Our shapes</title>" in page
    assert "wrote page.html" in out
    monkeypatch.setenv("PATH", "nowhere")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", "nowhere")
    code, _, err = crossbias("report", *folders, "-o", "page.pdf")
    assert code == 2
    assert err.startswith("crossbias: a PDF needs Chromium or Chrome")
    assert err.count("\n") == 1


@pytest.mark.parametrize("what", ["methods", "data", "networks"])
def test_list_shows_names_and_defaults(crossbias, what):
    code, out, _ = crossbias("list", what)
    assert code == 0
    expected = {
        "methods": [*METHODS, "bias labels", "kind of bias", "alpha=0.1"],
        "data": ["glyphs", "rho=", "test-biased"],
        "networks": ["convnet-1x1", "kernel=7", "timm"],
    }
    for word in expected[what]:
        assert word in out


def test_methods_are_grouped_by_what_they_need_to_know(crossbias):
    out = crossbias("list", "methods")[1]
    order = ["none", "kind of bias", "bias labels"]
    rows = [line for line in out.splitlines() if line.startswith(tuple(order))]
    needs = [next(need for need in order if row.startswith(need)) for row in rows]
    assert needs == sorted(needs, key=order.index)
    named = {row.removeprefix(need).split()[0] for row, need in zip(rows, needs, strict=True)}
    assert named == set(METHODS)
    assert next(row for row in rows if " end " in row).startswith("bias labels")


def test_a_method_inside_another_is_listed_by_its_name(crossbias):
    out = crossbias("list", "methods")[1]
    assert "inner=pgd" in out
    assert "<factory>" not in out


@pytest.mark.parametrize(("found", "printed"), [("0.1.0", "0.1.0"), (None, "source")])
def test_version(crossbias, monkeypatch, found, printed):
    def version(name: str) -> str:
        if found is None:
            raise PackageNotFoundError(name)
        return found

    monkeypatch.setattr("crossbias.train.environment.version", version)
    asked_again = environment.package_version.__wrapped__
    monkeypatch.setattr("crossbias.cli.commands.package_version", asked_again)
    assert crossbias("--version") == (0, f"crossbias {printed}\n", "")
    assert "--version" in crossbias("--help")[1]


def test_a_module_is_called_by_the_name_of_the_command():
    command = [sys.executable, "-m", "crossbias", "train", "--help"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert out.lstrip().startswith("Usage: crossbias train ")


MISTAKES = {
    "unknown method": (["--method", "rebais"], "there is no method 'rebais' (did you mean"),
    "unknown data": (["--data", "glyph", "--method", "erm"], "did you mean 'glyphs'?"),
    "unknown network": (["--method", "erm", "--network", "convne"], "did you mean 'convnet'"),
    "unknown hyper-parameter": (["--method", "end", "--set", "aplha=1"], "did you mean 'alpha'?"),
    "wrong type": (["--method", "end", "--set", "alpha=big"], "must be a number, got 'big'"),
    "not a setting": (["--method", "end", "--set", "alpha"], "written NAME=VALUE, got 'alpha'"),
    "negative lr": (["--method", "erm", "--lr", "-1"], "lr of training must be greater than 0"),
    "batch of one": (["--method", "erm", "--batch-size", "1"], "batch normalization needs"),
    "rho": (["--method", "erm", "--set", "data.rho=1.2"], "must be in [0, 1], got 1.2"),
    "device": (["--method", "erm", "--device", "cuda:9"], "device 'cuda:9' is not there"),
    "no method": (["--set", "alpha=1"], "no method is named; pass --method"),
    "no bias labels": (["--method", "end", "--bias", "none"], "bias of data set 'glyphs' must be"),
    "augmentation": (["--method", "erm", "--set", "train.augment=filp"], "did you mean 'flip'"),
    "resume of nothing": (["--resume"], "run is not a run folder: it has no config.json"),
    "no such file": (["--config", "none.toml"], "cannot read none.toml"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_line_exit_code_2_and_nothing_written(crossbias, mistake):
    arguments, message = MISTAKES[mistake]
    code, out, err = crossbias("train", *FAST, "--epochs", "1", *arguments, "--out", "run")
    assert code == 2
    assert message in err
    assert err.startswith("crossbias: ")
    assert err.count("\n") == 1
    assert out == ""
    assert not Path("run").exists()


def test_debug_shows_the_traceback(monkeypatch, tmp_path):
    from crossbias.errors import CrossbiasError

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["crossbias", "train", "--method", "x", *TINY, "--debug"])
    with pytest.raises(CrossbiasError):
        main()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[method", "is not TOML"),
        ("[metod]\nname = 'erm'\n", "has 'metod' (did you mean 'method'?)"),
        ("name = 'erm'\n", "has 'name'"),
    ],
)
def test_a_config_file_that_is_wrong_is_refused(crossbias, content, message):
    Path("file.toml").write_text(content)
    code, _, err = crossbias("train", "--config", "file.toml", *TINY)
    assert code == 2
    assert message in err


def test_a_finished_run_is_never_written_over(crossbias):
    arguments = ["train", *FAST, "--epochs", "1", "--out", "run"]
    assert crossbias(*arguments, "--method", "erm")[0] == 0
    before = {path: path.read_bytes() for path in Path("run").iterdir()}
    code, _, err = crossbias(*arguments, "--method", "end")
    assert code == 2
    assert "already holds a run (erm on glyphs, finished)" in err
    assert crossbias("train", "--resume", "--out", "run")[0] == 2
    assert before == {path: path.read_bytes() for path in Path("run").iterdir()}


def test_evaluating_a_folder_that_is_no_run_says_so(crossbias):
    code, _, err = crossbias("evaluate", "nothing")
    assert code == 2
    assert "nothing is not a run folder: it has no config.json" in err


def test_the_demo_can_be_interrupted_continued_and_repeated(crossbias, monkeypatch):
    """In small; what it shows at full size is a slow test and a benchmark."""
    from crossbias import demo
    from crossbias.train.run import Run

    small = {"size": 60, "test_size": 100, "image_size": 16}
    monkeypatch.setattr(demo, "DATA", demo.DATA | small)
    monkeypatch.setattr(demo, "TRAIN", {"epochs": 1, "batch_size": 20, "device": "cpu"})
    steps = iter(range(100))
    with monkeypatch.context() as patched:
        patched.setattr(Run, "asked_to_stop", lambda self, step: next(steps) == 4)
        assert crossbias("demo", "--out", "d")[0] == 130
    assert Path("d/erm/done").exists()
    assert not Path("d/end/done").exists()
    code, out, err = crossbias("demo", "--out", "d")
    assert code == 0, err
    assert "already finished" in err
    assert "resuming final after epoch 0, step 2" in err
    assert "report: d/report.html" in out
    assert Path("d/report.html").exists()
    assert crossbias("demo", "--out", "d")[1] == out
    code, _, err = crossbias("demo", "--out", "d", "--seed", "1")
    assert code == 2
    assert "d/erm holds a demo with seed 0, not 1; choose another folder" in err


def test_of_two_processes_one_prints_the_header_and_the_results(program, tmp_path):
    file = tmp_path / "program.py"  # which the first process starts again for the second
    file.write_text(COMMAND)
    arguments = [*FAST, "--method", "erm", "--epochs", "1", "--set", "train.processes=2"]
    process = program(COMMAND, [str(file), "train", *arguments, "--out", "run"], tmp_path)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert out.count("run: run\n") == out.count("accuracy in %") == 1
    assert err.count("float32, 2 processes\n") == err.count("final 1/1  ") == 1


PGD = ["--method", "pgd", "--set", "biased_epochs=8"]
LONG = ["crossbias", "train", *FAST, *PGD, "--epochs", "30", "--out", "run"]


@pytest.fixture(scope="module")
def uninterrupted(program, tmp_path_factory):
    """The weights of a pipeline that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    process = program(COMMAND, LONG, folder)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return load_file(folder / "run" / "model.safetensors")


@pytest.mark.parametrize(
    ("number", "code", "stage"),
    [
        (signal.SIGINT, 130, "biased"),
        (signal.SIGTERM, 130, "final"),
        (signal.SIGKILL, -9, "final"),
    ],
)
def test_a_run_that_was_stopped_or_killed_resumes_to_the_same_bits(
    number, code, stage, uninterrupted, program, tmp_path
):
    process = program(COMMAND, LONG, tmp_path)
    log = tmp_path / "run" / "log.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (
        log.exists() and f'"stage": "{stage}", "epoch": 3,' in log.read_text()
    ):
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    if number != signal.SIGKILL:
        assert "continue with: crossbias train --resume --out run" in err
    assert not (tmp_path / "run" / "done").exists()

    process = program(COMMAND, ["crossbias", "train", "--resume", "--out", "run"], tmp_path)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    weights = load_file(tmp_path / "run" / "model.safetensors")
    assert all(torch.equal(uninterrupted[key], weights[key]) for key in weights)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [*range(1, 9), *range(1, 31)]
