"""One thing that an audit found, and the words for how strong it is."""

from typing import NamedTuple

from crossbias.audit.permutation import ALARM


class Finding(NamedTuple):
    """One thing that was found."""

    kind: str  # attribute, cue or model
    name: str
    strength: str  # strong, moderate or weak
    sentence: str


def percent(share: float) -> str:
    """A share in words.

    >>> percent(0.934)
    '93 %'
    """
    return f"{100 * share:.0f} %"


def alarming(p: float | None) -> bool:
    """Whether a corrected p-value counts as found."""
    return p is not None and p <= ALARM


def strength(share: float) -> str:
    """How strong a share of what there is to find is: a half, a fifth, or less."""
    return "strong" if share >= 0.5 else "moderate" if share >= 0.2 else "weak"
