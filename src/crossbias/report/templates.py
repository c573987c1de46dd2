"""Templates of self-contained HTML pages: their style, their script and their filters."""

import base64
import hashlib
import json
from functools import cache, partial
from pathlib import Path
from typing import Any

import jinja2
import matplotlib
from markupsafe import Markup
from matplotlib.colors import to_hex

from crossbias.formatting import count, duration, percent, percent_range, plus_minus, settings
from crossbias.report.heatmap import COLORS
from crossbias.report.summary import selection, supervision

HERE = Path(__file__).parent


def render_template(name: str, **content: Any) -> str:
    """A page as text; every value is shown as text unless it is ``Markup``."""
    return _environment().get_template(name).render(_frame() | content)


@cache
def _environment() -> jinja2.Environment:
    """Made once in a process, because it keeps the compiled templates."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (count, duration, percent, plus_minus, selection, settings, supervision)
    environment.filters |= {each.__name__: each for each in filters} | {
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
        "interval": lambda number: percent_range(number.low, number.high),
        "points": lambda value: f"{100 * value:+.1f}",
        "pretty": partial(json.dumps, indent=2, ensure_ascii=False),
    }
    return environment


def _frame() -> dict[str, Any]:
    """Style and script, and the script's hash, by which the page's policy allows it."""
    script = (HERE / "page.js").read_text(encoding="utf-8")
    # The heat maps' colors as a CSS gradient, for their key.
    colors = (to_hex(matplotlib.colormaps[COLORS](step / 8)) for step in range(9))
    return {
        "gradient": f"linear-gradient(to right, {', '.join(colors)})",
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "style": Markup((HERE / "page.css").read_text(encoding="utf-8")),
    }
