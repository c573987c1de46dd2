"""Numbers and names as text: one way to write each, on the terminal, in files and on the page."""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, Final

DASH: Final = "\N{EN DASH}"
"""Stands between the limits of a range, and in place of a missing number."""

_TURNS: Final = frozenset(["LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"])
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet runs a cell that begins with one of these."""

_MARKS: Final = "\u061c\u200e\u200f"  # turn the direction too, without such a class


def percent(value: float | None, *, decimals: int = 1) -> str:
    """A proportion in percent, or a dash where there is none.

    >>> percent(0.98765), percent(0.934, decimals=0), percent(None) == DASH
    ('98.8%', '93%', True)
    """
    return DASH if value is None or math.isnan(value) else f"{100 * value:.{decimals}f}%"


def percent_range(low: float, high: float) -> str:
    """The limits of an interval, in percent.

    >>> percent_range(0.40444, 0.6) == f"40.4{DASH}60.0%"
    True
    """
    return f"{100 * low:.1f}{DASH}{100 * high:.1f}%"


def plus_minus(deviation: float) -> str:
    """A standard deviation in percent points, written after a mean; empty for NaN.

    >>> plus_minus(0.0361), plus_minus(math.nan)
    (' ± 3.6', '')
    """
    return "" if math.isnan(deviation) else f" ± {100 * deviation:.1f}"


def count(number: int) -> str:
    """A number of samples.

    >>> count(60000)
    '60,000'
    """
    return f"{number:,}"


def numbers_in_words(numbers: Mapping[str, float]) -> str:
    """Named numbers in one line.

    >>> numbers_in_words({"loss": 0.53217, "task": math.inf})
    'loss 0.5322, task inf'
    """
    return ", ".join(
        f"{name} {value:.4g}" if math.isfinite(value) else f"{name} {value}"
        for name, value in numbers.items()
    )


def first_few(texts: Sequence[str], most: int = 10) -> list[str]:
    """The first texts, and how many more there are.

    >>> first_few(["a", "b", "c"], most=2)
    ['a', 'b', 'and 1 more']
    """
    more = len(texts) - most
    return [*texts[:most], f"and {more:,} more"] if more > 0 else list(texts)


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


def settings(values: Mapping[str, Any]) -> str:
    """Parameters in one line, without the name of what they belong to.

    >>> settings({"name": "end", "alpha": 1.0, "variant": "paper", "layer": ""})
    'alpha 1.0, variant paper, layer none'
    >>> settings({"name": "denoised", "inner": {"name": "pgd", "q": 0.7, "floor": None}})
    'inner pgd (q 0.7, floor none)'
    """
    return ", ".join(f"{key} {setting(value)}" for key, value in values.items() if key != "name")


def setting(value: Any) -> str:
    """One value; a method or network inside another is shown by name and settings.

    >>> setting(True), setting([0.5, 0.75]), setting({"name": "erm"})
    ('true', '0.5 0.75', 'erm')
    """
    if isinstance(value, dict):
        own = settings(value)
        return f"{value.get('name', '')} ({own})".strip() if own else str(value.get("name", ""))
    if isinstance(value, list):
        return " ".join(map(setting, value)) or "none"
    plain = str(value) or "none"
    return plain.lower() if value is None or isinstance(value, bool) else plain


def visible(text: str, *, keep: str = "") -> str:
    r"""Text that a terminal shows as it is: characters that would steer the terminal are escaped.

    These are control characters, which move the cursor or set colors, those that turn the
    direction of writing, line breaks, and halves of characters. ``keep`` are left as they are.

    >>> print(visible("\x1b[2Jcat\u202etxt"), visible("one\ntwo", keep="\n"), sep=", ")
    \x1b[2Jcat\u202etxt, one
    two
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter in keep or not _steers(letter) else ascii(letter)[1:-1] for letter in text
    )


def _steers(letter: str) -> bool:
    turns = unicodedata.bidirectional(letter) in _TURNS or letter in _MARKS
    return turns or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")


def short(name: str, length: int = 18) -> str:
    """A name as a picture can show it: one line, nothing unprintable, not too long.

    >>> short("a very long class name, really"), short("two   words")
    ('a very long class…', 'two words')
    """
    line = " ".join(name.split())
    shown = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line
    )
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def markdown(text: object) -> str:
    r"""Any text as Markdown that shows it as it is, in one line: a hostile name stays a name.

    >>> print(markdown("a|b <i> *c*"))
    a\|b &lt;i&gt; \*c\*
    """
    line = " ".join(str(text).split()).replace("&", "&amp;")
    line = line.replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~$])", r"\\\1", line)


def percent_with_range(
    value: float, low: float, high: float, *, sign: str = "", after_value: str = ""
) -> str:
    """A proportion and its interval in percent, for a table whose title names the unit.

    >>> percent_with_range(0.801, 0.77, 0.8317), percent_with_range(0.02, -0.01, 0.05, sign="+")
    ('80.1 [77.0, 83.2]', '+2.0 [-1.0, +5.0]')
    """
    shown, lower, upper = (f"{100 * number:{sign}.1f}" for number in (value, low, high))
    return f"{shown}{after_value} [{lower}, {upper}]"


def p_value(p: float) -> str:
    """A p-value without spaces, which a narrow column would break.

    >>> p_value(0.0421), p_value(0.00001)
    ('p=.042', 'p<.001')
    """
    return "p<.001" if p < 0.001 else f"p={p:.3f}".replace("0.", ".", 1)


def csv_cell(value: object) -> object:
    """A cell of a CSV file that no spreadsheet takes for a formula; NaN is left empty.

    >>> csv_cell("=1+1"), csv_cell(0.5), csv_cell(math.nan)
    ("'=1+1", 0.5, '')
    """
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return "" if isinstance(value, float) and math.isnan(value) else value


def as_json(value: Any) -> Any:
    """A value as a JSON file holds it: by its own ``to_json``, or its fields by their names.

    >>> as_json({"classes": ("cat", "dog"), "worst": None})
    {'classes': ['cat', 'dog'], 'worst': None}
    """
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        value = vars(value)
    elif hasattr(value, "_asdict"):  # a named tuple
        value = value._asdict()
    if isinstance(value, Mapping):
        return {name: as_json(part) for name, part in value.items()}
    return [as_json(part) for part in value] if isinstance(value, (list, tuple)) else value
