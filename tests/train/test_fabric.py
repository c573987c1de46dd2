"""Probes of Fabric in one process: what the engine relies on, and why it does what it does."""

import contextlib

import pytest
import torch
from torch import nn

from crossbias import Network, Output, TrainConfig
from crossbias.train.run import Run


def make_run(data, network, precision="float32") -> Run:
    return Run(data, network=network, config=TrainConfig(device="cpu", precision=precision))


def test_a_machine_that_has_slurm_gives_no_warning(data, network, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda command: f"/usr/bin/{command}")
    assert make_run(data, network).devices.world == 1


def test_bf16_computes_in_bf16_and_returns_float32(data):
    """So that losses and statistics outside the network are in float32."""
    seen = []

    class Watching(nn.Module):
        def forward(self, inputs):
            product = inputs @ torch.eye(4)
            seen.append(product.dtype)
            return product

    run = make_run(data, Network(Watching(), nn.Linear(4, 2)), "bf16")
    network, _ = run.build()
    output = network(torch.rand(3, 4))
    assert isinstance(output, Output)
    assert seen == [torch.bfloat16]
    assert output.logits.dtype == output.features.dtype == torch.float32


def test_gradients_by_autograd_of_a_wrapped_network_are_no_option_everywhere(data):
    """Why attention maps and gradient norms are closed forms: this raises under some precisions.

    Here it works or is refused; it must never give another gradient than the bare network's.
    """
    bare = Network(nn.Flatten(), nn.Linear(4, 2))
    run = make_run(data, bare, "bf16")
    network, _ = run.build()
    inputs = torch.rand(3, 4)
    expected = torch.autograd.grad(bare(inputs).logits.sum(), bare.head.bias)[0]
    with contextlib.suppress(RuntimeError):
        found = torch.autograd.grad(network(inputs).logits.sum(), network.head.bias)[0]
        torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)


def test_a_wrapped_network_saves_and_loads_under_the_bare_networks_names(data, network):
    """Why Method.state is a flat dictionary: nested in a module it cannot load what it saved."""
    wrapped, _ = make_run(data, network).build()
    assert wrapped.state_dict().keys() == network.state_dict().keys()
    holder = nn.ModuleDict({"inner": wrapped})
    with pytest.raises(RuntimeError, match="Missing key"):
        holder.load_state_dict(holder.state_dict())


def test_a_wrapped_optimizer_restores_its_state(data, network):
    run = make_run(data, network)
    wrapped, optimizer = run.build()
    run.minimize(wrapped(torch.rand(4, 3, 6, 6)).logits.sum(), optimizer)
    saved = optimizer.state_dict()
    _, other = make_run(data, network).build()
    other.load_state_dict(saved)
    for one, two in zip(saved["state"].values(), other.state_dict()["state"].values(), strict=True):
        assert torch.equal(one["exp_avg"], two["exp_avg"])
        assert one["step"] == two["step"] == 1
