"""Numbers and short codes of a run in words."""

import math
from typing import Any, Final

from crossbias.verify import Estimate

DASH: Final = "\N{EN DASH}"
"""Between the limits of a range, and where there is no number."""

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


def percent(value: float) -> str:
    """A proportion in percent, or a dash where there is none.

    >>> percent(0.98765), percent(math.nan) == DASH
    ('98.8%', True)
    """
    return DASH if math.isnan(value) else f"{100 * value:.1f}%"


def count(number: int) -> str:
    """A number of samples.

    >>> count(60000)
    '60,000'
    """
    return f"{number:,}"


def interval(estimate: Estimate) -> str:
    """The limits of an estimate, in percent.

    >>> interval(Estimate(0.5, 0.40444, 0.6, 100)) == f"40.4{DASH}60.0"
    True
    """
    return f"{100 * estimate.low:.1f}{DASH}{100 * estimate.high:.1f}" if estimate.n else ""


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


def duration(seconds: float) -> str:
    """A time span, as exact as one needs it.

    >>> duration(4.21), duration(75), duration(7400)
    ('4.2 s', '1 min 15 s', '2 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds) // 60
    if minutes < 60:
        return f"{minutes} min {round(seconds) % 60} s"
    return f"{minutes // 60} h {minutes % 60} min"
