"""The kernels of a GPU compute what the plain layers compute."""

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from crossbias.networks.fused import FusedSequential, has_triton


def test_kernels_without_a_gpu():
    """In Triton's interpreter, in float32: the kernels' logic, not their speed or their bf16."""
    pytest.importorskip("triton")
    file = Path(__file__).with_name("interpreted_kernels.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)],
        env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert "15 passed" in done.stdout


def test_on_the_cpu_it_is_a_plain_sequence():
    layers = [nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU()]
    plain, inputs = nn.Sequential(*copy.deepcopy(layers)), torch.rand(5, 2, 6, 6)
    assert torch.equal(FusedSequential(*layers)(inputs), plain(inputs))
    assert torch.equal(layers[1].running_var, plain[1].running_var)


def test_kernels_need_a_c_compiler_and_the_headers_of_python(monkeypatch, tmp_path):
    found = has_triton.__wrapped__
    monkeypatch.setenv("CC", "cc")
    monkeypatch.setattr("sysconfig.get_config_var", lambda name: str(tmp_path))
    assert not found()
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert found()
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not found()


def fused_and_plain() -> tuple[FusedSequential, nn.Sequential]:
    """With a bias: without, the second normalization undoes the scale of the first."""
    layers = [nn.BatchNorm2d(16), nn.ReLU(), nn.BatchNorm2d(16), nn.Tanh()]
    nn.init.uniform_(layers[0].bias, 0.5, 1.0)
    return FusedSequential(*copy.deepcopy(layers)).cuda(), nn.Sequential(*layers).cuda()


@pytest.mark.gpu
def test_on_a_gpu_normalization_and_relu_are_those_of_the_plain_layers():
    answers = []
    for network in fused_and_plain():
        maps = torch.randn(8, 16, 28, 28, generator=torch.Generator().manual_seed(0)).cuda()
        maps = maps.bfloat16().to(memory_format=torch.channels_last).requires_grad_()
        found = network(maps)
        found.float().square().mean().backward()
        answers.append([found, maps.grad, network[0].weight.grad, network[0].running_var])
    for fused, plain in zip(*answers, strict=True):
        assert (fused - plain).norm() < 0.01 * plain.norm()


@pytest.mark.gpu
@pytest.mark.parametrize("hook", ["register_forward_hook", "register_forward_pre_hook"])
@pytest.mark.parametrize("layer", [0, 1])
def test_on_a_gpu_hooks_are_called(hook, layer):
    network, called = fused_and_plain()[0], []
    getattr(network[layer], hook)(lambda *_: called.append(True))
    network(torch.rand(2, 16, 4, 4, device="cuda", dtype=torch.bfloat16))
    assert called
