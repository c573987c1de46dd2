"""The page of a verification: names are text, nothing is loaded, and it says what was found."""

import base64
import hashlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from crossbias import verify_table
from crossbias.answers.answers_page import render_page
from crossbias.answers.gates import judge_gates, read_gate
from crossbias.answers.verification import Verification

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "$\\frac{</svg></style>",
    "naïve 漢字 \N{RIGHT-TO-LEFT OVERRIDE}abc",
    "{{ 7 * 7 }} &lt;b&gt;",
)
TAGS = (
    *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section"),
    *("h1", "h2", "h3", "p", "div", "span", "ul", "li", "dl", "dt", "dd", "small", "nav", "a"),
    *("bdi", "figure", "figcaption", "details", "summary", "button", "script"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("svg", "g", "path", "text", "tspan", "use", "defs", "clippath", "rect", "image"),
)


def judged(names: tuple[str, ...], models: tuple[str, ...]) -> Verification:
    """Two classes, two attributes, and models that are often wrong for one value."""
    draw = np.random.default_rng(0)
    truth, value = draw.integers(0, 2, 600), draw.integers(0, 3, 600)
    columns: dict[str, Any] = {
        names[0]: np.array(names[1:3])[truth],
        names[3]: np.array(names[:3])[value],
        names[4]: np.array(names[4:6])[draw.integers(0, 2, 600)],
    }
    for place, model in enumerate(models):
        wrong = draw.random(600) < np.where(value == 0, 0.5, 0.05 + 0.1 * place)
        columns[model] = np.where(wrong, 1 - truth, truth) * 0.8 + 0.1
    return verify_table(
        columns, target=names[0], prediction=models, bias=[names[3], names[4]], intersections=2,
        positive=names[2],
    )  # fmt: skip


@pytest.fixture(scope="module")
def found() -> Verification:
    return judged(HOSTILE, (HOSTILE[1] + " a", HOSTILE[0] + " b"))


def test_names_are_text_wherever_they_appear(
    found: Verification, parse: Callable[[str], Any]
) -> None:
    gates = judge_gates(
        found, [read_gate("worst_group >= .9"), read_gate(f'gap("{HOSTILE[0]}") < 1')]
    )
    root = parse(render_page(found, gates))
    elements = root.every()[1:]
    assert {element.tag for element in elements} <= set(TAGS)
    attributes = {name for element in elements for name in element.attributes}
    assert not [name for name in attributes if name.startswith("on")]
    assert len(root.find("script")) == 1
    for name in HOSTILE:
        assert name in root.text
    assert "49" not in root.find("h1")[0].text


def test_the_page_needs_no_network_and_allows_its_own_script_only(
    found: Verification, parse: Callable[[str], Any]
) -> None:
    page = render_page(found, ())
    root = parse(page)
    assert "http://" not in page
    assert "https://" not in page
    assert not set(re.findall(r"url\((.)", page)) - {"#"}
    (policy,) = (
        meta.attributes["content"] for meta in root.find("meta") if "http-equiv" in meta.attributes
    )
    (script,) = root.find("script")
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    for element in root.every():
        for name in ("src", "href", "xlink:href"):
            assert element.attributes.get(name, "#").startswith(("#", "data:image/png;base64,"))


def test_the_page_says_what_was_found(parse: Callable[[str], Any]) -> None:
    plain = judged(("y", "ill", "well", "site", "sex", "other"), ("a", "b"))
    gates = judge_gates(plain, [read_gate("worst_group(site) >= .9")])
    text = " ".join(parse(render_page(plain, gates)).text.split())
    assert "a is right on" in text
    assert "It is right less often than on the rest of the class in" in text
    assert "2 of 2 gates failed." in text
    assert "Gain over a on the same samples" in text
    assert "nan" not in text
    group = plain.first.scan.flagged[0]
    assert f"{100 * group.accuracy.value:.1f}" in text
    for value in plain.first.attributes[("site",)].values:
        number = value.numbers["auc"]
        assert f"{number.value:.3f} [{number.low:.3f}, {number.high:.3f}]" in text


def test_one_model_without_attributes_has_a_page(parse: Callable[[str], Any]) -> None:
    found = verify_table({"y": ["a", "b", "a"], "p": ["a", "b", "b"]}, target="y", prediction="p")
    root = parse(render_page(found, ()))
    assert "p is right on 66.7% of 3 samples" in root.text
    assert [head.text for head in root.find("h2")] == ["All samples", "Words on this page"]
