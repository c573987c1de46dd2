"""What in the data, or in the validation, keeps any method from working."""

import math
from collections.abc import Iterator, Sequence

from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.formatting import percent
from crossbias.runs.health import Symptom
from crossbias.types import UNKNOWN
from crossbias.verify.cells import Alignment

# Glyphs have 10 conflicting samples in each class by default, and methods work there. With fewer,
# a network that sees them in every batch soon knows them by heart.
_LEAST_TO_LEARN = 10

# From 25 samples on, the standard error of an accuracy is 10 points or less.
_LEAST_TO_JUDGE = 25

# Where fewer than 20% of the validation samples conflict, 10 points more on those are less than 2
# points more of accuracy, which the aligned samples outweigh.
_LEAST_SHARE = 0.2

_LEAST_EPOCHS = 3  # equal validations of fewer epochs may be a coincidence


def conflicting_samples(data: BiasedDataset, alignment: Tensor) -> Tensor:
    """Which samples are known to conflict, (n,) bool; none where no bias is known.

    Args:
        data: The samples.
        alignment: ``(classes, biases)`` which groups were aligned in the training data.
    """
    known = data.biases != UNKNOWN
    if not known.any():
        return known
    return known & ~alignment[data.targets, data.biases]


def conflicting_validation(train: BiasedDataset, validation: BiasedDataset) -> Tensor:
    """Which validation samples conflict by the alignment of the training data, (n,) bool."""
    assert train.bias is not None
    assert validation.bias is not None
    alignment = Alignment(train.values[train.bias], train.alignment())
    return conflicting_samples(validation, alignment.of(validation.values[validation.bias]))


def data_symptoms(
    train: BiasedDataset, validation: BiasedDataset | None, selection: str
) -> list[Symptom]:
    """What is wrong with the data of a training.

    Nothing is found where bias labels are missing, or where the bias is not associated with the
    class.

    Args:
        train: The training data.
        validation: The validation data, if there is any.
        selection: The rule by which the model is chosen.
    """
    if not train.has_bias_labels or not train.alignment().any():
        return []
    found = list(_too_few_to_learn(train))
    if validation is not None and validation.has_bias_labels:
        found += _unfit_validation(train, validation, selection)
    return found


def validation_symptoms(values: Sequence[float]) -> list[Symptom]:
    """What is wrong with a validation by which the model is chosen.

    Args:
        values: The number by which the rule judges an epoch, of each epoch that was validated.
    """
    if len(values) < _LEAST_EPOCHS or len(set(values)) > 1:
        return []
    return [
        Symptom(
            "constant validation",
            f"Validation gave {abs(values[0]):.3g} in each of {len(values)} epochs, so it says "
            f"nothing about which of them is best, and the first one was kept.",
            "Use more or harder validation samples, or keep the last epoch with "
            "--set train.selection=last.",
        )
    ]


def _too_few_to_learn(train: BiasedDataset) -> Iterator[Symptom]:
    conflicting = ~train.alignment()
    numbers = (train.counts() * conflicting).sum(1).tolist()
    few = [
        f"{name} ({number})"
        for name, number, possible in zip(
            train.classes, numbers, conflicting.any(1).tolist(), strict=True
        )
        if possible and number < _LEAST_TO_LEARN
    ]
    if few:
        yield Symptom(
            "too few conflicting training samples",
            f"Some classes have fewer than {_LEAST_TO_LEARN} training samples that conflict with "
            f"{train.bias}: {', '.join(few)}. No method can learn much from so few.",
            "Collect more of them, and do not rely on the accuracy on these classes.",
        )


def _unfit_validation(
    train: BiasedDataset, validation: BiasedDataset, selection: str
) -> Iterator[Symptom]:
    conflicting = conflicting_validation(train, validation)
    number, share = int(conflicting.sum()), float(conflicting.float().mean())
    if number < _LEAST_TO_JUDGE:
        error = number and percent(0.5 / math.sqrt(number))
        known = f"the standard error of its accuracy on them is up to {error}" if error else ""
        yield Symptom(
            "too few conflicting validation samples",
            f"The validation data has {number or 'no'} samples that conflict with {train.bias}, "
            f"so {known or 'it says nothing about them'}.",
            f"Put at least {_LEAST_TO_JUDGE} of them into the validation data.",
        )
    in_training = float(conflicting_samples(train, train.alignment()).float().mean())
    unlabeled = selection in ("validation-accuracy", "validation-loss")
    if unlabeled and share < min(_LEAST_SHARE, 2 * in_training):
        yield Symptom(
            "validation as biased as training",
            f"The model is chosen by all of the validation data, of which only {percent(share)} "
            f"conflict with {train.bias}, so an epoch that takes the shortcut "
            f"looks best.",
            "Choose by --set train.selection=validation-worst-group, or keep the last epoch.",
        )
