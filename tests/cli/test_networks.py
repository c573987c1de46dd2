"""Networks by name on the command line: what fits, what is refused, and how it is said."""

from pathlib import Path

SMALL = ["--data", "glyphs", "--set", "data.size=24", "--set", "data.test_size=12", "--method",
         "erm", "--set", "train.steps=1", "--batch-size", "12", "--device", "cpu",
         "--out", "run"]  # fmt: skip


def test_a_network_that_does_not_fit_is_one_line_and_leaves_no_folder(crossbias):
    code, out, err = crossbias("train", *SMALL, "--network", "vit_tiny_patch16_224")
    assert (code, out) == (2, "")
    assert err.startswith("crossbias: network 'vit_tiny_patch16_224' does not fit the data")
    assert err.count("\n") == 1
    assert not Path("run").exists()


def test_of_several_processes_the_first_says_the_error(crossbias, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert crossbias("train", "--method", "erm", "--data", "nothing") == (2, "", "")
