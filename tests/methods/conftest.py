"""What several tests of functions ask for."""

import pytest
import torch
from torch.func import functional_call, grad, vmap

from crossbias.methods.batchable_layers import BatchableLayers


@pytest.fixture
def check_single_samples():
    """Compares gradients of samples together, in ``BatchableLayers``, with torch's one by one."""

    def check(layer, inputs, *, precision=None, error=1e-5):
        parameters = {name: p.detach() for name, p in layer.named_parameters()}

        def loss(parameters, sample):
            return functional_call(layer, parameters, (sample[None],)).tanh().sum()

        with BatchableLayers(precision):
            found = vmap(grad(loss), in_dims=(None, 0))(parameters, inputs)
        for row, sample in enumerate(inputs):
            for key, expected in grad(loss)(parameters, sample).items():
                largest = expected.abs().max().item()
                torch.testing.assert_close(found[key][row], expected, rtol=0, atol=error * largest)

    return check
