"""Training configurations and learning rates."""

import math

import pytest
import torch

from crossbias import TrainConfig
from crossbias.errors import CrossbiasError
from crossbias.train.devices import find_device
from crossbias.train.optimizers import learning_rate


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lr": -0.1}, "lr of training must be greater than 0, got -0.1"),
        ({"lr": 0}, "lr of training must be greater than 0"),
        ({"lr": "fast"}, "lr of training must be a number"),
        ({"epochs": 0}, "epochs of training must be at least 1"),
        ({"batch_size": 2.5}, "batch_size of training must be a whole number"),
        ({"weight_decay": -1}, "weight_decay of training must be at least 0"),
        ({"momentum": 1.5}, r"momentum of training must be in \[0, 1\]"),
        ({"optimizer": "lion"}, "one of 'adam', 'adamw', 'sgd'"),
        ({"precision": "fp16"}, "one of 'float32', 'bf16'"),
        (
            {"selection": "test"},
            "one of 'last', 'validation-accuracy', 'validation-loss', 'validation-worst-group'",
        ),
        ({"schedule": "milestones"}, "needs milestones"),
        ({"milestones": [1.5]}, r"each entry of milestones of training must be in \(0, 1\]"),
        ({"seed": -1}, "seed of training must be at least 0"),
        ({"learning_rate": 1}, "no parameter 'learning_rate'"),
        ({"batchsize": 1}, "did you mean 'batch_size'"),
    ],
)
def test_impossible_settings_are_refused(values, message):
    with pytest.raises(CrossbiasError, match=message):
        TrainConfig.from_dict(values)


def test_python_and_text_values_give_the_same_configuration():
    text = TrainConfig.from_dict({"lr": "0.01", "epochs": "3", "milestones": "0.5,0.75"})
    assert text == TrainConfig(lr=0.01, epochs=3, milestones=(0.5, 0.75))
    assert TrainConfig(lr=1) == TrainConfig(lr=1.0)


SCHEDULES = {
    "none": (TrainConfig(lr=0.1), None),
    "step": (
        TrainConfig(lr=0.1, schedule="step", decay=0.3, decay_epochs=4),
        lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.3),
    ),
    "milestones": (
        TrainConfig(lr=0.1, schedule="milestones", decay=0.5, milestones=(0.2, 0.55, 0.8)),
        lambda optimizer: torch.optim.lr_scheduler.MultiStepLR(optimizer, [4, 11, 16], 0.5),
    ),
    "cosine": (
        TrainConfig(lr=0.1, schedule="cosine"),
        lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_learning_rates_equal_torchs_schedulers(name):
    config, make = SCHEDULES[name]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=config.lr)
    scheduler = make(optimizer) if make else None
    for epoch in range(20):
        expected = optimizer.param_groups[0]["lr"]
        assert math.isclose(learning_rate(config, epoch, 20), expected, abs_tol=1e-12), epoch
        optimizer.step()
        if scheduler:
            scheduler.step()


def test_a_device_that_is_not_there_is_answered_with_those_that_are():
    with pytest.raises(CrossbiasError, match=r"device 'cuda:97' is not there; .*cpu"):
        find_device("cuda:97")
    with pytest.raises(CrossbiasError, match="device 'tpu' is not there"):
        find_device("tpu")
