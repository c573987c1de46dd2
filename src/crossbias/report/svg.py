"""Matplotlib figures as inline SVG that takes its colors and fonts from the page around it."""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

INK: Final = "#000001"
FAINT: Final = "#000002"
ALIGNED: Final = "#000003"
CONFLICTING: Final = "#000004"
SERIES: Final = ("#000005", "#000006", "#000007", "#000008", "#000009")

_VARIABLES = {
    INK: "--ink",
    FAINT: "--line",
    ALIGNED: "--aligned",
    CONFLICTING: "--conflicting",
    **{color: f"--series-{number}" for number, color in enumerate(SERIES, start=1)},
}
"""Colors that stand for the page's own, which differ between light and dark."""

_STYLE: dict[Any, Any] = {
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "svg.fonttype": "none",  # text stays text: readable, searchable, in the page's font
    "font.size": 9,
    "axes.labelsize": 9,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
}


@contextmanager
def page_style(salt: str) -> Iterator[None]:
    """Draw in the page's style inside this context; the user's own style is restored after it.

    The salt makes the figure's internal names its own among all figures of a page.
    """
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({**_STYLE, "svg.hashsalt": salt})
        # Text is measured in matplotlib's font but shown in the reader's, who may have the glyph.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def inline(figure: Figure, description: str) -> Markup:
    """The figure as an ``<svg>`` element; use inside ``page_style``."""
    figure.set_dpi(72)  # SVG's own
    # A figure with a layout engine is drawn twice by savefig: once only to measure it.
    ConstrainedLayoutEngine().execute(figure)
    buffer = io.StringIO()
    empty = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=empty)
    text = buffer.getvalue()
    body = text[text.index(">", text.index("<svg")) + 1 :]
    body = re.sub(r'(<\w+) id="[\w.]+_\d+"', r"\1", body)  # not unique in a page
    body = re.sub(r" font-family: 'DejaVu Sans'[^;\"]*;", "", body)
    for color, variable in _VARIABLES.items():
        body = re.sub(rf"(fill|stroke): {color}(?=[;\"])", rf"\1: var({variable})", body)
    width, height = (72 * inches for inches in figure.get_size_inches())
    opening = (
        '<svg viewBox="0 0 {0:g} {1:g}" width="{0:g}" height="{1:g}" role="img" aria-label="{2}">'
    )
    return Markup(opening).format(width, height, description) + Markup(body)
