"""Grad-CAM of any network that has maps: in closed form where there is one, else by autograd."""

import torch
from torch import Tensor

from crossbias.functional import cam
from crossbias.networks.network import Network, evaluation


def grad_cam(network: Network, inputs: Tensor, target: Tensor) -> Tensor | None:
    r"""Where a network finds evidence for a class (Selvaraju et al., ICCV 2017).

    With :math:`A^k` the maps and :math:`z_y` the logit of the class, in evaluation mode,

    .. math:: E = \mathrm{ReLU}\Big(\sum_k \alpha_k A^k\Big), \qquad
        \alpha_k = \frac{1}{hw} \sum_{ij} \frac{\partial z_y}{\partial A^k_{ij}}

    divided by its maximum, (B, h, w) in [0, 1] without gradient; None for a network that has no
    maps, or maps of clips. Where the head sees the mean of the maps, the gradient is the head's
    weight, and no backward pass is made (``crossbias.functional.cam``). The network's mode and its
    gradients stay as they were.
    """
    # The maps need a graph from the input on, even where all parameters are frozen.
    with evaluation(network), torch.enable_grad():
        output = network(inputs.detach().clone().requires_grad_())
        if output.maps is None or output.maps.ndim != 4:
            return None
        mean, features = output.maps.detach().mean((2, 3)), output.features.detach()
        if mean.shape == features.shape and torch.allclose(mean, features, rtol=1e-4):
            return cam(output.maps, network.head.weight, target).detach()
        evidence = output.logits.gather(1, target[:, None]).sum()
        (gradient,) = torch.autograd.grad(evidence, output.maps)
    # Each sample has weights of its own: those of the i-th are row i.
    own = torch.arange(len(target), device=target.device)
    return cam(output.maps.detach(), gradient.mean((2, 3)), own)
