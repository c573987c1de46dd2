"""Every method has a page of the same form and a test of the contract; links in pages lead on."""

import re
from pathlib import Path

import pytest

from crossbias.methods import METHODS

ROOT = Path(__file__).parents[2]
HEADINGS = [
    "What it does",
    "When to use it",
    "What to set",
    "How it compares",
    "How ours differs from the paper",
]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += [ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += [ROOT / folder / "README.md" for folder in ("benchmarks", "recipes")]


def without_code(text: str) -> str:
    """The text of a page without its blocks of code, in which # begins a comment."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What a link may name after #, made of each heading as GitHub makes it."""
    headings = re.findall(r"^#+ (.*)$", without_code(page.read_text()), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_a_page_with_five_sections(name):
    text = without_code((ROOT / "docs" / "methods" / f"{name}.md").read_text())
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("name", METHODS)
def test_a_page_names_every_hyper_parameter(name):
    text = (ROOT / "docs" / "methods" / f"{name}.md").read_text()
    missing = [
        each for each in METHODS[name]().hyperparameters() if not re.search(rf"`{each}\b", text)
    ]
    assert not missing


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_tested_against_the_contract(name):
    pattern = rf"contract\({METHODS[name].__name__}\b|^    {METHODS[name].__name__}: "
    tests = (ROOT / "tests" / "methods").glob("test_*.py")
    assert any(
        "contract(" in text and re.search(pattern, text, re.MULTILINE)
        for text in (path.read_text() for path in tests)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_to_files_and_headings_that_exist(page):
    text = without_code(page.read_text())
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if "://" in link:
            continue
        if not target.exists() or (heading and heading not in anchors(target)):
            broken.append(link)
    assert not broken
