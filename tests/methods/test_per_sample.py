"""Per-sample gradients against one sample at a time."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from crossbias.methods import per_sample_gradients as per_sample
from crossbias.methods.batchable_layers import BatchableLayers
from crossbias.methods.per_sample_gradients import parts_of, per_sample_gradients
from crossbias.networks import Network


@pytest.mark.parametrize("budget", [1, 2**30])
def test_chunks_equal_the_loop(network, budget):
    network.eval()
    inputs, target = torch.rand(7, 3, 6, 6), torch.arange(7) % 3
    found = torch.empty(7, sum(p.numel() for p in network.parameters()))
    sizes = []
    for rows, gradients in per_sample_gradients(network, inputs, target, budget=budget):
        found[rows] = gradients
        sizes.append(len(gradients))
    assert sizes == ([1] * 7 if budget == 1 else [7])
    for row in range(7):
        loss = F.cross_entropy(network(inputs[row : row + 1]).logits, target[row : row + 1])
        gradients = torch.autograd.grad(loss, list(network.parameters()))
        expected = torch.cat([gradient.flatten() for gradient in gradients])
        torch.testing.assert_close(found[row], expected, rtol=1e-4, atol=1e-6)


def test_frozen_parameters_are_left_out(network):
    network.eval()
    network.body.requires_grad_(False)
    ((_, gradients),) = per_sample_gradients(network, torch.rand(2, 3, 6, 6), torch.tensor([0, 1]))
    assert gradients.shape == (2, 6 * 3 + 3)


def test_training_mode_is_refused(network):
    with pytest.raises(ValueError, match=r"evaluation mode: network.eval\(\)"):
        per_sample_gradients(network.train(), torch.rand(2, 3, 6, 6), torch.zeros(2).long())


def test_convolutions_as_on_a_gpu_give_the_same_gradients(network):
    network.eval()
    inputs, target = torch.rand(4, 3, 6, 6), torch.arange(4) % 3
    ((_, expected),) = per_sample_gradients(network, inputs, target)
    with BatchableLayers():
        ((_, found),) = per_sample_gradients(network, inputs, target)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_gradients_are_float32_also_where_the_network_runs_in_bf16(network):
    network.eval()
    inputs, target = torch.rand(4, 3, 6, 6), torch.arange(4) % 3
    ((_, expected),) = per_sample_gradients(network, inputs, target)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ((_, found),) = per_sample_gradients(network, inputs, target)
    assert torch.equal(found, expected)


def test_gradients_of_named_parameters_are_those_of_all(network):
    network.eval()
    inputs, target = torch.rand(4, 3, 6, 6), torch.arange(4) % 3
    ((_, whole),) = per_sample_gradients(network, inputs, target)
    ((_, head),) = per_sample_gradients(network, inputs, target, names=["head.weight", "head.bias"])
    torch.testing.assert_close(head, whole[:, -(6 * 3 + 3) :])
    assert not head.requires_grad  # it would keep what it was computed from


def test_a_name_that_no_trainable_parameter_has_is_refused(network):
    network.eval()
    network.head.bias.requires_grad_(False)
    for name in ("head.wieght", "head.bias"):
        with pytest.raises(ValueError, match=rf"no trainable parameter {name}; .*'head.weight'"):
            per_sample_gradients(network, torch.rand(1, 3, 6, 6), torch.tensor([0]), names=[name])


def test_chunks_are_of_about_the_same_size_and_fit_the_budget():
    network = Network(nn.Flatten(), nn.Linear(4, 3)).eval()
    # 15 parameters three times; inputs flattened, made float32 and mapped to 3 values, all twice
    one = 4 * (3 * 15 + 2 * (4 + 4 + 3))
    inputs, target = torch.rand(9, 4), torch.zeros(9, dtype=torch.int64)
    for budget, expected in ((8 * one, [5, 4]), (9 * one, [9]), (9 * one - 1, [5, 4])):
        chunks = per_sample_gradients(network, inputs, target, budget=budget)
        assert [len(gradients) for _, gradients in chunks] == expected


def test_an_empty_batch_has_no_chunks():
    network = Network(nn.Flatten(), nn.Linear(4, 3)).eval()
    assert not list(per_sample_gradients(network, torch.rand(0, 4), torch.zeros(0).long()))


def test_results_in_tuples_count():
    with per_sample._Recorder([]) as recorder:
        torch.zeros(6).max(0)
        torch.ones(2, 3).split(2)
    assert recorder.computed == 6 + 2 + 6 + 6  # zeros, largest and where; ones, their parts


def test_unfolded_inputs_count_where_their_weight_is_wanted():
    body = nn.Sequential(nn.Conv2d(2, 5, 3), nn.ReLU(), nn.Flatten())
    network = Network(body, nn.Linear(5 * 4 * 4, 3))
    convolution, head = network.body[0].weight, network.head.weight
    for wanted, expected in (([convolution, head], 2 * 9 * 4 * 4), ([head], 0)):
        with per_sample._Recorder(wanted) as recorder:
            network(torch.rand(1, 2, 6, 6))
        assert recorder.unfolded == expected
    with per_sample._Recorder([convolution]) as recorder:
        F.conv2d(torch.rand(1, 2, 6, 6), weight=convolution)
    assert recorder.unfolded == 2 * 9 * 4 * 4


def test_coordinates_in_parts_point_at_the_same_values():
    values, sizes = torch.rand(30), [4, 1, 10, 7, 8]
    coordinates = torch.tensor([[3, 4, 25], [29, 0, 22]])
    parts, moved = parts_of(coordinates, sizes)
    assert parts == [0, 1, 4]
    kept = torch.cat([part for n, part in enumerate(values.split(sizes)) if n in parts])
    assert torch.equal(kept[moved], values[coordinates])


@pytest.mark.gpu
def test_gradients_on_a_gpu_equal_those_on_the_cpu(network):
    network.eval()
    inputs, target = torch.rand(5, 3, 6, 6), torch.arange(5) % 3
    ((_, expected),) = per_sample_gradients(network, inputs, target)
    network.cuda()
    ((_, found),) = per_sample_gradients(network, inputs.cuda(), target.cuda())
    far = (found.cpu() - expected).norm(dim=1) / expected.norm(dim=1)
    assert far.max() < 1e-3


@pytest.mark.gpu
def test_convolutions_on_a_gpu_have_the_precision_of_autocast(network):
    network.eval().cuda()
    inputs, target = torch.rand(5, 3, 6, 6).cuda(), torch.arange(5).cuda() % 3
    ((_, expected),) = per_sample_gradients(network, inputs, target)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        chunks = per_sample_gradients(network, inputs, target)
    ((_, found),) = chunks
    far = (found - expected).norm(dim=1) / expected.norm(dim=1)
    assert far.max() < 0.05
    assert not torch.equal(found, expected)
