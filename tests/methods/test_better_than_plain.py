"""On a shortcut that plain training takes, every other method does better."""

import pytest

import crossbias
from crossbias.demo import DATA, METHODS, NETWORK, TRAIN, run_demo
from crossbias.experiment import Experiment
from crossbias.runs.files import read_json

MARGIN = 0.2  # of the conflicting test images, at least, for each of three seeds


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_each_method_is_right_on_more_conflicting_images_than_plain_training(seed, tmp_path):
    metrics = run_demo(tmp_path / "demo", seed=seed)
    assert metrics["erm"].aligned.value > 0.98
    assert metrics["erm"].conflicting.value < 0.4
    for name in METHODS:
        if name != "erm":
            assert metrics[name].conflicting.value > metrics["erm"].conflicting.value + MARGIN
    assert (tmp_path / "demo" / "report.html").exists()


def test_one_method_without_any_supervision_beats_plain_training(tmp_path):
    """The demo in small: the shortest training in which the story shows."""
    found = {}
    for name in ("erm", "pgd"):
        experiment = Experiment(
            method={"name": name} | METHODS[name],
            data=DATA | {"size": 1000, "rho": 0.9, "image_size": 16, "test_size": 300},
            network=NETWORK,
            train=TRAIN | {"epochs": 6, "batch_size": 50, "lr": 0.005, "device": "cpu"},
        )
        result = experiment.run(tmp_path / name)
        found[name] = result.metrics["test"]
        assert read_json(tmp_path / name / "config.json")["supervision"] == "none"
        assert isinstance(result, crossbias.Result)
    assert found["erm"].aligned.value > 0.95
    assert found["pgd"].conflicting.value > found["erm"].conflicting.value + 0.2
