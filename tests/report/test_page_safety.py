import base64
import hashlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import crossbias

WriteRun = Callable[..., Path]
Parse = Callable[[str], Any]
PACKAGE = Path(crossbias.__file__).parent / "report"
END = {"method": "end", "paper": "EnD (CVPR 2021)", "supervision": "bias labels"}


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "$\\frac{</svg></style>",
    "naïve 漢字 \N{RIGHT-TO-LEFT OVERRIDE}abc",
    "{{ 7 * 7 }} &lt;b&gt; \udcff",
)
TAGS = (
    *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section"),
    *("h1", "h2", "h3", "p", "div", "span", "ul", "li", "dl", "dt", "dd", "pre", "code", "small"),
    *("nav", "a", "strong", "bdi", "figure", "details", "summary", "button", "script", "img"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("svg", "g", "path", "text", "tspan", "use", "defs", "clippath", "rect", "image"),
)


def test_names_from_data_are_text_wherever_they_appear(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    names = {"classes": HOSTILE, "biases": HOSTILE, "bias": HOSTILE[1], "data": HOSTILE[0]}
    codes = {"method": HOSTILE[2], "paper": HOSTILE[1], "selection": HOSTILE[0]}
    settings = {"parameters": ((HOSTILE[0], HOSTILE[1]),), "stages": HOSTILE, "each": 4}
    page = report(
        write_run(HOSTILE[2], **names, **settings),
        write_run("b", **names, **codes, supervision=HOSTILE[3], each=4, conflicting=0.9),
    )
    root = parse(page)
    elements = root.every()[1:]
    assert {element.tag for element in elements} <= set(TAGS)
    attributes = {name for element in elements for name in element.attributes}
    assert not [name for name in attributes if name.startswith("on")]
    (script,) = root.find("script")
    assert script.text == (PACKAGE / "page.js").read_text()
    for name in HOSTILE:
        shown = name.replace("\udcff", "?")
        assert shown in root.text
        assert any(shown in image.attributes["alt"] for image in root.find("img"))
    assert "49" not in root.find("h1")[0].text
    assert [image.attributes["src"][:5] for image in root.find("img")] == ["data:"] * 12


def test_the_page_needs_no_network_and_its_policy_allows_its_own_script_only(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    page = report(write_run("erm"), write_run("end", **END))
    root = parse(page)
    assert "http://" not in page
    assert "https://" not in page
    assert "@import" not in page
    assert not set(re.findall(r"url\((.)", page)) - {"#"}  # clip paths of the figures
    for element in root.every():
        for name in ("src", "href", "xlink:href"):
            assert element.attributes.get(name, "#").startswith(("#", "data:image/png;base64,"))
    (policy,) = (
        meta.attributes["content"] for meta in root.find("meta") if "http-equiv" in meta.attributes
    )
    (script,) = root.find("script")
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'; img-src data:;")


def test_reports_read_folders_and_import_nothing_that_trains(
    write_run: WriteRun, tmp_path: Path
) -> None:
    program = """
import sys
from crossbias.report import report

assert not {"matplotlib", "jinja2", "markupsafe"} & set(sys.modules)
report(sys.argv[1], sys.argv[2])
print(*sys.modules, sep="\\n")
"""
    command = [sys.executable, "-c", program, str(write_run("erm")), str(tmp_path / "page.html")]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert not [name for name in loaded if name.startswith(("lightning", "timm"))]
    assert "matplotlib.pyplot" not in loaded
    assert "crossbias.report.page" in loaded


def contrast(first: str, second: str) -> float:
    """WCAG 2.2 contrast ratio of two #rrggbb colors."""

    def luminance(color: str) -> float:
        channels = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", [0, 1, 2], ids=["light", "dark", "print"])
def test_text_is_readable_in_every_color_scheme(scheme: int) -> None:
    blocks = re.findall(r":root \{([^}]*)\}", (PACKAGE / "page.css").read_text())
    colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})", blocks[scheme]))
    colors = {
        n: "#" + "".join(2 * d for d in c[1:]) if len(c) == 4 else c for n, c in colors.items()
    }
    for text in ("ink", "muted", "aligned", "conflicting", "right", "wrong"):
        for ground in ("page", "card"):
            assert contrast(colors[text], colors[ground]) >= 4.5
    for line in (f"series-{number}" for number in range(1, 6)):
        assert contrast(colors[line], colors["card"]) >= 3
