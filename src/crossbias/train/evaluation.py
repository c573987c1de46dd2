"""One pass of a network over data in evaluation mode, and what it says about the network."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.data.loader import Loader
from crossbias.data.order import batches
from crossbias.networks.network import Network, evaluation
from crossbias.types import UNKNOWN, Batch, Output
from crossbias.verify.cells import Alignment
from crossbias.verify.metrics import Metrics
from crossbias.verify.predictions import Predictions

_BATCH = 256
_PICTURES = 8  # of aligned and as many of conflicting samples


def evaluation_pass(
    network: Network,
    found: Iterable[Batch],
    precision: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Iterator[tuple[Batch, Output]]:
    """Each batch with what the network gives for it, in evaluation mode and without gradient.

    Args:
        network: The classifier; the modes of its layers are restored afterwards.
        found: Batches on the network's device.
        precision: A context for the forward pass; that of the weights if left out.
    """
    with evaluation(network):
        for batch in found:
            with torch.no_grad(), precision():
                output = network(batch.inputs)
            yield batch, output


def batches_for(
    network: Network, data: BiasedDataset, rows: Tensor | None = None
) -> Iterator[Batch]:
    """The data in order, or some of its rows, as batches on the network's device."""
    device = next(network.parameters()).device
    loader = Loader(data, device, resident_bytes=0, workers=0)
    rows = torch.arange(len(data)) if rows is None else rows
    return loader.batches(batches(rows, _BATCH))


def predict(
    network: Network,
    data: BiasedDataset,
    *,
    pictures: bool = False,
    alignment: Alignment | None = None,
) -> Predictions:
    """What a network answers to every sample, in float32.

    Args:
        network: The classifier; the pass runs on its device.
        data: The samples.
        pictures: Keep a few aligned and conflicting images, for people to look at.
        alignment: Which values of the bias go along with which class in the training data. If left
            out, the split's own counts decide.
    """
    answers = [
        output.logits.float().softmax(1).cpu()
        for _, output in evaluation_pass(network, batches_for(network, data))
    ]
    rows = _rows_to_show(data, alignment) if pictures and data.inputs.ndim == 4 else None
    return Predictions(
        index=data.index,
        target=data.targets,
        probabilities=torch.cat(answers),
        attributes=data.attributes,
        pictures=None if rows is None else data.pictures(rows),
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
        training: The training data itself, which tells it for every attribute. If both are left
            out, the split's own counts decide; an unbiased split without a declared table says
            nothing.
    """
    tables = alignments_of(training) if training is not None else None
    return metrics_of(predict(network, data), data, alignment, tables)


def alignments_of(data: BiasedDataset) -> dict[str, Alignment]:
    """The alignment of every attribute, declared or read from the counts."""
    return {
        name: Alignment(data.values[name], data.with_bias(name).alignment())
        for name in data.attributes
    }


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


def _rows_to_show(data: BiasedDataset, alignment: Alignment | None) -> Tensor:
    """A few rows of different classes, aligned ones first; any rows where no bias is known."""
    if not data.has_bias_labels or data.bias is None:
        return torch.arange(min(2 * _PICTURES, len(data)))
    known = data.biases != UNKNOWN
    table = data.alignment() if alignment is None else alignment.of(data.values[data.bias])
    aligned = table[data.targets, data.biases] & known
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
