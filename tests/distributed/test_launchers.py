"""Trainings that torchrun starts; those of srun are with the tests of Slurm."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from crossbias.errors import CrossbiasError
from crossbias.launch import launched
from crossbias.train.config import TrainConfig
from crossbias.train.devices import Devices

TRAIN = [
    *["-m", "crossbias", "train", "--data", "toy-2d", "--set", "data.size=64"],
    *["--set", "data.test_size=9", "--set", "train.batch_size=16", "--set", "train.epochs=2"],
    *["--set", "train.optimizer=sgd", "--device", "cpu", "--quiet", "--out"],
]


@pytest.mark.cluster
def test_torchrun_trains_what_one_process_does(tmp_path):
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    for start, name in (([sys.executable], "one"), ([torchrun, "--nproc-per-node=2"], "two")):
        printed = subprocess.check_output([*start, *TRAIN, str(tmp_path / name)], text=True)
        assert printed.count("run: ") == 1  # one of the processes prints
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for key, value in one.items():
        torch.testing.assert_close(two[key], value, rtol=0, atol=1e-6)


TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "6", "LOCAL_WORLD_SIZE": "3", "RANK": "4"
}  # fmt: skip
SRUN = {"SLURM_NTASKS": "8", "SLURM_NNODES": "2", "SLURM_PROCID": "5", "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (TORCHRUN, ("torchrun", 6, 2, 4)),
        (SRUN, ("srun", 8, 2, 5)),
        ({**SRUN, "SLURM_NTASKS": "1"}, None),  # a job of one task, such as that of a sweep
        ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, None),  # a batch script without srun
        ({}, None),
    ],
)
def test_launchers_are_recognized(environment, expected):
    assert launched(environment) == expected


def test_another_number_of_processes_than_was_started_is_refused(monkeypatch):
    for name, value in TORCHRUN.items():
        monkeypatch.setitem(os.environ, name, value)
    with pytest.raises(CrossbiasError, match="processes is 4, but torchrun started 6; leave"):
        Devices(TrainConfig(device="cpu", processes=4))
