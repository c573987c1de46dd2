"""How long a sweep will take: as many steps as its runs would do."""

import pytest

from crossbias.sweep import Plan
from crossbias.sweep import estimate as estimating
from crossbias.sweep.estimate import Timing, estimate

OWN = """
[data]
name = "folder:{path}"
[network]
name = "small-convnet"
[grid]
train.epochs = [2, 3]
train.device = ["cpu"]
"""


@pytest.fixture
def second_for_each_sample(monkeypatch) -> list[str]:
    """Let every training sample take a second; the names of the runs that were timed."""
    timed, before = [], estimating._timed

    def found(job):
        timed.append(job.name)
        _, data = before(job)
        return Timing(0.0, 1.0), data

    monkeypatch.setattr(estimating, "_timed", found)
    return timed


def test_own_images_are_estimated_with_the_settings_that_are_chosen_for_them(
    plan_file, tmp_path, monkeypatch, second_for_each_sample, own_images
):
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))
    text = OWN.format(path=own_images(tmp_path / "images"))
    given = Plan.read(plan_file(text)).jobs()
    (free,) = Plan.read(plan_file(text.replace("train.epochs = [2, 3]\n", ""))).jobs()
    seconds = estimate([*given, free])
    assert second_for_each_sample == [given[0].name]  # the others are of its kind
    ran = []
    monkeypatch.setattr(
        "crossbias.experiment.train_run", lambda *_, config, **__: ran.append(config)
    )
    free.experiment().run(tmp_path / "run")
    assert (ran[0].epochs, ran[0].batch_size) == (100, 64)  # all training images are one batch
    assert seconds == [2 * 64, 3 * 64, 100 * 64]


def test_steps_and_the_size_of_an_epoch_count(plan_file, second_for_each_sample):
    grid = "[train]\nbatch_size = 5\n[grid]\ntrain.epoch_size = [7, 20]\ntrain.epochs = [3]\n"
    assert estimate(Plan.read(plan_file(grid)).jobs()) == [3 * 2 * 5, 3 * 4 * 5]
    steps = "[train]\nbatch_size = 5\n[grid]\ntrain.steps = [11]\n"
    assert estimate(Plan.read(plan_file(steps)).jobs()) == [11 * 5]
    assert len(second_for_each_sample) == 2
