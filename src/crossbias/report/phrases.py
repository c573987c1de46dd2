"""Codes in a run's configuration, in words."""

from typing import Final

SUPERVISION: Final = {
    "none": "knew nothing about the bias",
    "kind of bias": "knew only the kind of bias",
    "bias labels": "used bias labels",
}
"""What a method knew about the bias, as the rest of a sentence about it."""

SELECTION: Final = {
    "last": "The model after the last epoch; nothing was chosen.",
    "validation-accuracy": (
        "The epoch with the highest accuracy on the validation split, without its bias labels."
    ),
    "validation-worst-group": (
        "The epoch with the highest worst-group accuracy on the validation split, "
        "which used its bias labels."
    ),
}
"""How the model was chosen among the epochs. None of the rules sees the test split."""


def supervision(code: str) -> str:
    """What a method knew about the bias, after "which"; an unknown code is shown as it is."""
    return SUPERVISION.get(code, f"used: {code}")


def selection(rule: str) -> str:
    """How the model was chosen; an unknown rule is shown as it is."""
    return SELECTION.get(rule, rule)
