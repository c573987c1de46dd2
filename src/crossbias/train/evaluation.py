"""One pass of a network over data in evaluation mode, and what it says about the network."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from crossbias.data.dataset import BiasedDataset, check_finite
from crossbias.data.loader import Loader
from crossbias.data.matching import matched, rows_for, with_classes
from crossbias.data.order import batches
from crossbias.errors import CrossbiasError
from crossbias.networks.network import Network, evaluation
from crossbias.networks.outside import OutsideModel, are_probabilities, as_module
from crossbias.train.normalization import Normalize, normalization_for
from crossbias.types import UNKNOWN, Batch, Output
from crossbias.verify.cells import Alignment
from crossbias.verify.detection import Positive
from crossbias.verify.metrics import Metrics
from crossbias.verify.predictions import Predictions
from crossbias.verify.thresholds import Labeled

_BATCH = 256
_PICTURES = 8  # of aligned and as many of conflicting samples


def evaluation_pass(
    network: nn.Module,
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
    network: nn.Module, data: BiasedDataset, rows: Tensor | None = None
) -> Iterator[Batch]:
    """The data in order, or some of its rows, as batches on the network's device."""
    device = next(network.parameters(), torch.empty(0)).device
    loader = Loader(data, device, resident_bytes=0, workers=0)
    rows = torch.arange(len(data)) if rows is None else rows
    return loader.batches(batches(rows, _BATCH))


def predict(
    network: nn.Module,
    data: BiasedDataset,
    *,
    pictures: bool = False,
    alignment: Alignment | None = None,
) -> Predictions:
    """What a network answers to every sample, in float32.

    Args:
        network: The classifier, a ``Network`` or a model that gives logits; the pass runs on its
            device.
        data: The samples.
        pictures: Keep a few aligned and conflicting images, for people to look at.
        alignment: Which values of the bias go along with which class in the training data. If left
            out, the split's own counts decide.
    """
    check_finite(data)
    foreign = not isinstance(network, Network | OutsideModel)
    passed = evaluation_pass(network, batches_for(network, data))
    scores = (logits_of(output, data).float() for _, output in passed)
    answers = [(part if foreign else part.softmax(1)).cpu() for part in scores]
    probabilities = torch.cat(answers)
    # A torch model of another training may end in a soft-max, which must not be taken twice.
    if foreign and not are_probabilities(probabilities):
        probabilities = probabilities.softmax(1)
    _check_answers(probabilities, data)
    rows = _rows_to_show(data, alignment) if pictures and data.inputs.ndim == 4 else None
    return Predictions(
        index=data.index,
        target=data.targets,
        probabilities=probabilities,
        attributes=data.attributes,
        cluster=data.cluster,
        pictures=None if rows is None else data.pictures(rows),
        picture_rows=rows,
    )


def _check_answers(probabilities: Tensor, data: BiasedDataset) -> None:
    """Refuse probabilities that are not finite, which no metric could use."""
    bad = (~probabilities.isfinite()).any(1)
    if bool(bad.any()):
        raise CrossbiasError(
            f"the network's answer to sample {int(data.index[bad.nonzero()[0]])} of {data.name} "
            f"{data.split} is not finite, and {int(bad.sum()):,} of {len(bad):,} are not; its "
            f"weights are too large or not finite: train it again with a lower lr"
        )


def logits_of(output: Any, data: BiasedDataset) -> Tensor:
    """The logits that a model gives: its output, or the part of it that has this name."""
    logits = getattr(output, "logits", output)
    shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(output).__name__
    if not isinstance(logits, Tensor) or shape[1:] != (data.num_classes,):
        raise CrossbiasError(
            f"the model gives {shape} for a batch of {data.name}; it must give a logit for each of "
            f"the {data.num_classes} classes; if it knows more of them, name all in the order of "
            f"its outputs: crossbias.load_model(model, classes=), or --classes"
        )
    return logits


def evaluate(
    network: nn.Module | Callable[[Tensor], Any],
    data: BiasedDataset,
    *,
    normalize: Normalize | None = None,
    alignment: Tensor | None = None,
    training: BiasedDataset | None = None,
    positive: str | None = None,
    prevalence: float | None = None,
    threshold: float | str | None = None,
    validation: BiasedDataset | None = None,
) -> Metrics:
    """Accuracies of a network on a split, overall and by group, with intervals.

    Args:
        network: The classifier: one that ``fit`` trained, or any torch model or callable on a batch
            of images that gives logits or probabilities in the order of the classes of
            ``training``, or else of ``data``. A model of ``load_model`` has an order of its own if
            it names its classes.
        data: The split.
        normalize: How images in [0, 1] are normalized for the network: ``"none"``, ``"bytes"`` for
            0 to 255, ``"data"`` for mean and std of the data set, ``"imagenet"``, or
            ``(mean, std)`` by channel. If left out, as in the training by ``fit``. A model from
            another training needs this argument, unless it says so itself or you gave the data set
            its own ``mean`` and ``std``.
        alignment: Which groups are aligned, from the training data (``train.alignment()``).
        training: The training data itself, which tells it for every attribute; classes and values
            of ``data`` are matched with it by name. If both are left out and the data set declares
            no alignment, ``aligned`` and ``conflicting`` are None.
        positive: The class to be found, such as a disease. ``metrics.detection`` then has its
            sensitivity, specificity, PPV, NPV, AUC, Brier score and calibration slope.
        prevalence: Share of the positive class where the network will be used, for PPV and NPV;
            that of the samples if left out.
        threshold: Probability from which a sample is called positive, or a rule such as
            ``"sensitivity>=.9"``, which chooses one on ``validation``; if left out, a sample is
            called what is most probable. All accuracies follow it.
        validation: Data on which a rule chooses the threshold; not a test split.
    """
    if validation is data:
        raise CrossbiasError(
            f"validation is the {data.split} split that is judged; choose a threshold on other data"
        )
    network, known = as_module(network), (training or data).classes
    data = prepared(network, data, normalize, training)
    chosen_on = None
    if validation is not None:
        held = predict(network, prepared(network, validation, normalize, training))
        chosen_on = Labeled(validation.split, held.probabilities, held.target)
    wanted = Positive.wanted(
        positive, data.classes, prevalence=prevalence, threshold=threshold, validation=chosen_on
    )
    tables = None if training is None else alignments_of(with_classes(training, data.classes))
    alignment = None if alignment is None else rows_for(alignment, known, data.classes)
    return metrics_of(predict(network, data), data, alignment, tables, wanted)


def prepared(
    network: nn.Module,
    data: BiasedDataset,
    normalize: Normalize | None,
    training: BiasedDataset | None = None,
) -> BiasedDataset:
    """The data with the classes of the model or the training, normalized as the model expects it.

    Args:
        network: The model.
        data: What it is judged on.
        normalize: As for ``evaluate``.
        training: The training data, if it is known.
    """
    if training is not None:
        data = matched(data, training.classes, training.values)
    if isinstance(network, OutsideModel) and network.classes is not None:
        data = with_classes(data, network.classes)
    if data.inputs.dtype != torch.uint8:
        return data
    mean, std = chosen = normalization_for(network, data, normalize)
    own = network.normalization if isinstance(network, OutsideModel) else None
    if own not in (None, chosen):
        raise CrossbiasError(
            f"{network.name} normalizes images itself, so {normalize!r} would do it twice; leave "
            f"normalize out (on the command line, --normalize)"
        )
    return replace(data, mean=mean, std=std)


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
    positive: Positive | None = None,
) -> Metrics:
    """The metrics of stored predictions on the split they were made for, for every attribute.

    An attribute without a table, given or declared by the data set, is judged by group only.
    """
    declared = {
        name: Alignment(data.values[name], data.alignments[name])
        for name in data.attributes
        if name in data.alignments
    }
    tables = {**declared, **(tables or {})}
    if alignment is not None and data.bias is not None:
        tables[data.bias] = Alignment(data.values[data.bias], alignment)

    def of(bias: str | None) -> Metrics:
        values = data.values[bias] if bias else ()
        none = torch.zeros(data.num_classes, 0) > 0 if bias is None else None
        table = tables[bias].of(values) if bias in tables else none
        return predictions.metrics(
            bias=bias, alignment=table, classes=data.classes, values=values, positive=positive
        )

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
