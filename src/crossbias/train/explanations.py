"""What is kept of a look into a trained model, at the end of its run."""

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.networks.grad_cam import grad_cam
from crossbias.networks.network import Network, evaluation
from crossbias.runs.stored import Boundary, Views
from crossbias.train.evaluation import batches_for, evaluation_pass
from crossbias.verify.predictions import Predictions

_ROWS = 300  # number of samples whose features are kept
_GRID = 120  # points along each side of the plane
_MARGIN = 0.1  # of the plane beyond the outermost sample


def views_of(network: Network, data: BiasedDataset, predictions: Predictions) -> Views:
    """Features of some samples, maps of the stored pictures, boundaries where inputs are 2-D.

    Args:
        network: The classifier; its device is where the passes run, its mode is restored.
        data: The split.
        predictions: The network's answers to it, whose pictures get maps.
    """
    rows = torch.linspace(0, max(len(data) - 1, 0), min(_ROWS, len(data))).round().long()
    return Views(
        rows=rows,
        features=_features(network, data, rows),
        maps=_maps(network, data, predictions.picture_rows),
        boundary=_boundary(network, data, rows) if data.inputs.shape[1:] == (2,) else None,
    )


def _features(network: Network, data: BiasedDataset, rows: Tensor) -> Tensor:
    """What the head sees of some rows, (m, D) float16; too large numbers are cut off."""
    limit = torch.finfo(torch.float16).max
    found = [
        output.features.float().clamp(-limit, limit).half().cpu()
        for _, output in evaluation_pass(network, batches_for(network, data, rows))
    ]
    return torch.cat(found) if found else torch.zeros(0, network.num_features).half()


def _maps(network: Network, data: BiasedDataset, rows: Tensor | None) -> Tensor | None:
    """Grad-CAM for the true class of some rows, all in one batch."""
    if rows is None or not len(rows):
        return None
    (batch,) = batches_for(network, data, rows)
    maps = grad_cam(network, batch.inputs, batch.target)
    return None if maps is None else maps.half().cpu()


def _boundary(network: Network, data: BiasedDataset, rows: Tensor) -> Boundary:
    low, high = data.inputs.amin(0), data.inputs.amax(0)
    room = _MARGIN * (high - low).clamp(min=1e-6)
    (left, bottom), (right, top) = (low - room).tolist(), (high + room).tolist()
    across, upward = torch.linspace(left, right, _GRID), torch.linspace(bottom, top, _GRID)
    y, x = torch.meshgrid(upward, across, indexing="ij")
    places = torch.stack([x.flatten(), y.flatten()], 1).to(next(network.parameters()).device)
    with evaluation(network), torch.inference_mode():
        answers = network(places).logits.argmax(1).view(_GRID, _GRID).cpu()
    limits = torch.tensor([left, right, bottom, top])
    return Boundary(points=data.inputs[rows].float(), answers=answers, limits=limits)
