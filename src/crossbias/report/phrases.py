"""Codes and settings of a run, in words."""

from typing import Any, Final

SUPERVISION: Final = {
    "none": "knew nothing about the bias",
    "kind of bias": "knew only the kind of bias",
    "bias labels": "used bias labels",
}
"""What a method consumed, as the rest of a sentence that starts with the method."""

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
    """What a method consumed, after "which"; an unknown code is shown as it is."""
    return SUPERVISION.get(code, f"used: {code}")


def selection(rule: str) -> str:
    """How the model was chosen; an unknown rule is shown as it is."""
    return SELECTION.get(rule, rule)


def settings(values: dict[str, Any]) -> str:
    """Parameters in one line, without the name of what they belong to.

    >>> settings({"name": "end", "alpha": 1.0, "variant": "paper", "layer": ""})
    'alpha 1.0, variant paper, layer none'
    >>> settings({"name": "denoised", "inner": {"name": "pgd", "q": 0.7, "floor": None}})
    'inner pgd (q 0.7, floor none)'
    """
    return ", ".join(f"{key} {_setting(value)}" for key, value in values.items() if key != "name")


def _setting(value: Any) -> str:
    """One value; of a method or network within another, its name and its own settings."""
    if isinstance(value, dict):
        own = settings(value)
        return f"{value.get('name', '')} ({own})".strip() if own else str(value.get("name", ""))
    if isinstance(value, list):
        return " ".join(map(_setting, value)) or "none"
    plain = str(value) or "none"
    return plain.lower() if value is None or isinstance(value, bool) else plain
