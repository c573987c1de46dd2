"""What keeps a method with a biased network from working: the network, or the draws it leads to."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.formatting import percent
from crossbias.networks.network import Network
from crossbias.runs.health import Symptom
from crossbias.train.data_symptoms import conflicting_samples
from crossbias.types import UNKNOWN

if TYPE_CHECKING:
    from crossbias.train.run import Run

# Without bias labels, a network that is wrong on fewer samples than this knows the conflicting ones
# too: of the data sets that the papers use, the one with the fewest conflicting samples has 0.5%.
FEWEST_WRONG = 0.001

# A network must be this much of the way from chance to perfect to have learned anything.
_LEARNED = 0.1

# A biased network that is this good on conflicting training samples knows them by heart.
_BY_HEART = 0.9

# A gap between aligned and conflicting samples below this is no preference for the shortcut.
LEAST_GAP = 0.1

# Draws that move this part of all samples from some classes to others change what a network answers
# where it is unsure: 64 and 36% of two classes drawn evenly move 14%, which cost 4 points overall.
_LEAST_MOVED = 0.1

# As many samples of each class must have a say in the draws, or the network learns them by heart.
_LEAST_OF_CLASS = 10


class TrainingAccuracy(NamedTuple):
    """How often a network is right on its training samples."""

    overall: float
    aligned: float | None  # None where no sample is known to be aligned
    conflicting: float | None


def training_accuracy(run: "Run", network: Network) -> TrainingAccuracy:
    """From one pass over the training data; its bias labels are read for this alone."""
    right = run.score(network, lambda batch, output: output.logits.argmax(1) == batch.target)
    data, right = run.data, right.cpu()[run.data.index]
    conflicting = conflicting_samples(data, data.alignment())
    aligned = (data.biases != UNKNOWN) & ~conflicting
    kinds = (_mean(right[rows]) for rows in (aligned, conflicting))
    return TrainingAccuracy(float(right.mean()), *kinds)


def has_learned(accuracy: float, data: BiasedDataset) -> bool:
    """Whether a network is better than one that always answers the largest class."""
    chance = largest_class(data)
    return accuracy >= chance + _LEARNED * (1 - chance)


def largest_class(data: BiasedDataset) -> float:
    """The share of the largest class."""
    return int(data.targets.bincount().max()) / len(data)


def biased_network_symptoms(
    accuracy: TrainingAccuracy, data: BiasedDataset, *, length: str = "biased_epochs"
) -> Iterator[Symptom]:
    """Whether a network that should follow the shortcut does something else.

    Args:
        accuracy: Of the biased network.
        data: What it was trained on.
        length: The setting that makes its training longer or shorter.
    """
    overall, aligned, conflicting = accuracy
    if not has_learned(overall, data):
        yield Symptom(
            "biased network learned nothing",
            f"The biased network is right on {percent(overall)} of its training samples, hardly "
            f"more often than the largest class occurs ({percent(largest_class(data))}): it has "
            f"learned no shortcut, and its scores say nothing.",
            f"Train it longer with {length}, or raise train.lr.",
        )
    elif aligned is not None and conflicting is not None:
        yield from _preference_symptoms(aligned, conflicting, data.bias or "", length)
    elif overall > 1 - FEWEST_WRONG:
        yield _memorized(f"{percent(overall, decimals=2)} of its training samples", length)


def _preference_symptoms(
    aligned: float, conflicting: float, bias: str, length: str
) -> Iterator[Symptom]:
    if conflicting > _BY_HEART:
        what = f"{percent(conflicting)} of the training samples that conflict with {bias}"
        yield _memorized(what, length)
    elif aligned - conflicting < LEAST_GAP:
        yield Symptom(
            "biased network is not biased",
            f"The biased network is right on {percent(conflicting)} of the training samples that "
            f"conflict with {bias} and on {percent(aligned)} of the others: it does not follow "
            f"{bias}, so its scores do not find the samples that conflict.",
            f"Look at plain training: if it does not follow {bias} either, there is nothing to "
            f"repair. Otherwise train the biased network longer with {length}.",
        )


def _memorized(what: str, length: str) -> Symptom:
    return Symptom(
        "biased network memorized",
        f"The biased network is right on {what}: it has learned the hard samples by heart, and "
        f"their scores no longer stand out.",
        f"Train it for fewer epochs with {length}, or with a lower rate.",
    )


def draw_symptoms(weights: Tensor, data: BiasedDataset) -> Iterator[Symptom]:
    """Whether draws with these weights see only a few samples, or a class too often.

    Args:
        weights: ``(full_size,)`` sampling weights.
        data: What is drawn from.
    """
    own = weights.cpu().double()[data.index]
    own = own / own.sum()
    effective = float(1 / own.square().sum())  # Kish: equal weights of so many give the same
    classes = int((data.targets.bincount() > 0).sum())
    if effective < min(_LEAST_OF_CLASS * classes, len(data) / 2):
        yield Symptom(
            "draws dominated by few samples",
            f"A few samples take most draws, as if there were only {effective:.0f} samples for "
            f"{classes} classes; the network will learn these by heart.",
            "Train the biased network for fewer epochs with biased_epochs, check the labels of the "
            "samples with the highest scores, or put denoised around the method.",
        )
    shares = torch.zeros(data.num_classes, dtype=own.dtype).index_add_(0, data.targets, own)
    largest = int(shares.argmax())
    # Halfway from equal shares to nothing but one class.
    if classes > 1 and float(shares[largest]) > (1 + 1 / classes) / 2:
        yield Symptom(
            "draws dominated by a class",
            f"Class {data.classes[largest]} takes {percent(float(shares[largest]))} of the draws, "
            f"so the network sees little else.",
            "Give every class the same share with class_balanced=true.",
        )


def class_share_symptoms(weights: Tensor, data: BiasedDataset) -> Iterator[Symptom]:
    """Whether draws with these weights show classes much more or less often than they occur.

    Args:
        weights: ``(full_size,)`` sampling weights.
        data: What is drawn from.
    """
    own = weights.cpu().double()[data.index]
    drawn = torch.zeros(data.num_classes, dtype=own.dtype).index_add_(0, data.targets, own)
    shares = data.targets.bincount(minlength=data.num_classes) / len(data)
    lost = shares - drawn / drawn.sum()
    if float(lost.clamp(min=0).sum()) < _LEAST_MOVED:
        return
    rarer = int(lost.argmax())
    yield Symptom(
        "draws change the class shares",
        f"Class {data.classes[rarer]} is {percent(float(shares[rarer]))} of the training samples "
        f"but {percent(float(shares[rarer] - lost[rarer]))} of the draws, so the network answers "
        f"it less often: accuracy over all samples may fall although the class average rises.",
        "Judge this run by the class average. If the test samples have the classes of the training "
        "data and overall accuracy is what counts, compare with plain training.",
    )


def _mean(values: Tensor) -> float | None:
    return float(values.mean()) if len(values) else None
