"""The probability from which a sample is called positive: given, or chosen by a rule."""

import math
import re
from typing import NamedTuple

import torch
from torch import Tensor

from crossbias.errors import CrossbiasError


class Threshold(NamedTuple):
    """A probability of the positive class; samples at or above it are called positive."""

    value: float
    origin: str  # "given", or the rule and the split on which it was chosen


class Labeled(NamedTuple):
    """Samples on which a rule chooses a threshold."""

    split: str
    probabilities: Tensor  # (n, classes)
    target: Tensor  # (n,) class numbers


def chosen_threshold(wanted: float | str, place: int, validation: Labeled | None) -> Threshold:
    """The threshold that a number or a rule such as ``sensitivity>=.9`` stands for.

    Args:
        wanted: A probability between 0 and 1, or the rule.
        place: Number of the positive class.
        validation: Where a rule chooses; None where there is no such data.

    Raises:
        CrossbiasError: It is neither, or there is no validation data to choose on. A test split is
            refused: a threshold that was chosen on it looks better there than it is.
    """
    sensitivity = _read_rule(wanted)
    if sensitivity is None:
        return Threshold(float(wanted), "given")
    if validation is None:
        raise CrossbiasError(
            f"the threshold {wanted} is chosen on a validation split, and there is none; train "
            f"with one (--set data.validation=.2), name the rows of one in a table "
            f"(--split-column), or give a number that was chosen elsewhere"
        )
    if validation.split.startswith("test"):
        raise CrossbiasError(
            f"the threshold {wanted} cannot be chosen on {validation.split!r}, where it would look "
            f"better than it is; choose it on a validation split"
        )
    probabilities, positive = validation.probabilities[:, place], validation.target == place
    value = threshold_for(probabilities, positive, sensitivity=sensitivity)
    origin = (
        f"sensitivity>={sensitivity:g} on the {validation.split} split, "
        f"{int(positive.sum()):,} positive samples"
    )
    return Threshold(value, origin)


def threshold_for(probabilities: Tensor, positive: Tensor, *, sensitivity: float) -> float:
    """The highest threshold that finds at least this share of the positive samples.

    Choose it on validation data and judge it on test data: on the data it was chosen on, it looks
    better than it is.

    Args:
        probabilities: ``(n,)`` of the positive class.
        positive: ``(n,)`` bool.
        sensitivity: Share of the positive samples to be found, in (0, 1].

    >>> threshold_for(torch.tensor([0.75, 0.2, 0.5]), torch.tensor([1, 0, 1]) > 0, sensitivity=0.5)
    0.75
    """
    if not 0 < sensitivity <= 1:
        raise CrossbiasError(f"sensitivity must be in (0, 1], got {sensitivity}")
    if not positive.any():
        raise CrossbiasError("a threshold needs positive samples, and there are none")
    ranked = probabilities[positive].double().sort(descending=True).values
    needed = math.ceil(sensitivity * len(ranked) - 1e-9)
    return float(ranked[needed - 1])


def answers_at(probabilities: Tensor, place: int, threshold: float) -> Tensor:
    """The answers at a threshold: the positive class, or else the most probable of the others.

    Args:
        probabilities: ``(n, classes)``.
        place: Number of the positive class.
        threshold: Probability from which a sample is called positive.

    >>> answers_at(torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]]), 2, 0.2).tolist()
    [2, 1]
    """
    found = probabilities[:, place].double() >= threshold
    others = probabilities.clone()
    others[:, place] = -1  # below every probability
    return torch.where(found, place, others.argmax(1))


def _read_rule(wanted: float | str) -> float | None:
    """The sensitivity that a rule asks for; None for a number."""
    rule = re.fullmatch(r"\s*sensitivity\s*>=\s*(.+?)\s*", str(wanted))
    try:
        number = float(rule[1] if rule else wanted)
    except ValueError:
        number = math.nan
    if not (0 < number < 1 or (rule and number == 1)):
        raise CrossbiasError(
            f"a threshold is a probability between 0 and 1, such as .3, or the rule "
            f"'sensitivity>=.9', got {wanted!r}"
        )
    return number if rule else None
