"""One pass of a network over a split."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.data.geometry import center_crop
from crossbias.data.loader import Loader
from crossbias.data.order import batches
from crossbias.networks.network import Network
from crossbias.types import UNKNOWN
from crossbias.verify.alignment import Alignment, alignments_of
from crossbias.verify.metrics import Metrics
from crossbias.verify.predictions import Predictions

_BATCH = 256
_PICTURES = 8  # of aligned and as many of conflicting samples


def predict(network: Network, data: BiasedDataset, *, pictures: bool = False) -> Predictions:
    """What a network answers to every sample, in float32 and evaluation mode.

    Args:
        network: The classifier; its device is where the pass runs, its mode is restored.
        data: The samples.
        pictures: Keep a few aligned and conflicting images, for people to look at.
    """
    device = next(network.parameters()).device
    loader = Loader(data, device, resident_bytes=0, workers=0)
    training = network.training
    network.eval()
    with torch.inference_mode():
        answers = [
            network(batch.inputs).logits.float().softmax(1).cpu()
            for batch in loader.batches(batches(torch.arange(len(data)), _BATCH))
        ]
    network.train(training)
    rows = _rows_to_show(data) if pictures and data.inputs.ndim == 4 else None
    return Predictions(
        index=data.index,
        target=data.targets,
        probabilities=torch.cat(answers),
        attributes=data.attributes,
        pictures=None if rows is None else seen_images(data, rows),
        picture_rows=rows,
    )


def evaluate(
    network: Network,
    data: BiasedDataset,
    *,
    alignment: Tensor | None = None,
    training: BiasedDataset | None = None,
) -> Metrics:
    """Accuracies of a network on a split, overall and by group, with intervals.

    Args:
        network: The classifier.
        data: The split.
        alignment: Which groups are aligned, from the training data (``train.alignment()``).
        training: The training data itself, which tells it for every attribute. Left out with
            ``alignment``, the split's own counts decide, which for an unbiased split without a
            declared table says nothing.
    """
    tables = alignments_of(training) if training is not None else None
    return metrics_of(predict(network, data), data, alignment, tables)


def metrics_of(
    predictions: Predictions,
    data: BiasedDataset,
    alignment: Tensor | None = None,
    tables: Mapping[str, Alignment] | None = None,
) -> Metrics:
    """The metrics of stored predictions on the split they were made for, for every attribute."""
    tables = {**alignments_of(data), **(tables or {})}
    if alignment is not None and data.bias is not None:
        tables[data.bias] = Alignment(data.values[data.bias], alignment)

    def of(bias: str | None) -> Metrics:
        values = data.values[bias] if bias else ()
        table = tables[bias].of(values) if bias else torch.zeros(data.num_classes, 0) > 0
        return predictions.metrics(bias=bias, alignment=table, classes=data.classes, values=values)

    others = {name: of(name) for name in data.attributes if name != data.bias}
    return replace(of(data.bias), attributes=others)


def seen_images(data: BiasedDataset, rows: Tensor) -> Tensor:
    """The images at some positions, uint8, as the network sees them: cut to the data's crop."""
    images = data.inputs[rows]
    return center_crop(images, data.crop) if data.crop else images


def _rows_to_show(data: BiasedDataset) -> Tensor:
    """A few rows of different classes, aligned ones first; any rows where no bias is known."""
    if not data.has_bias_labels:
        return torch.arange(min(2 * _PICTURES, len(data)))
    known = data.biases != UNKNOWN
    aligned = data.alignment()[data.targets, data.biases] & known
    return torch.cat([_spread(data.targets, aligned), _spread(data.targets, known & ~aligned)])


def _spread(targets: Tensor, wanted: Tensor) -> Tensor:
    """Rows of the wanted samples, the classes taking turns."""
    rows = wanted.nonzero().squeeze(1)
    turn = torch.zeros(len(rows), dtype=torch.int64)
    for target in range(int(targets.max()) + 1):
        of_class = targets[rows] == target
        turn[of_class] = torch.arange(int(of_class.sum()))
    order = torch.argsort(turn * (int(targets.max()) + 1) + targets[rows], stable=True)
    return rows[order][:_PICTURES]
