"""The page as a person gets it: loaded, sorted, on a phone, printed, read aloud."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from crossbias import BiasedDataset, audit, verify_table
from crossbias.answers.answers_page import render_page
from crossbias.answers.gates import judge_gates, read_gate
from crossbias.report import report as write_report
from crossbias.report.pdf import printed
from crossbias.runs.folder import RunFolder
from crossbias.runs.health import Symptom, save_health

HOSTILE = ("<script>document.title='x'</script>", '"><img src=x onerror="document.title=1">', "a&b")
AUDIT = {
    "version": 1,
    "data": {"name": "glyphs", "split": "train", "hash": "a1b2", "samples": 300},
    "attributes": [],
    "cues": [{"name": name, "what": "how neighboring pixels differ"} for name in "abcdef"],
    "model": None,
    "verdict": {"sentence": "The color gives it away.", "findings": [], "not_tested": ["Shapes."]},
    "pictures": [{"file": "a.png", "alt": "suspects", "caption": "Suspects."}],
}
# As long as those of a real audit and real trainings.
VERDICT = "\n\n".join(
    f"{lead}: " + "the attribute 'age' alone predicts the class of 95% of the samples. " * 6
    for lead in ("An attribute gives the class away", "A very simple model could solve the task")
)
SYMPTOMS = [
    Symptom(name, f"About {name}: " + "two samples of one age have similar features. " * 4, "Wait.")
    for name in ("features", "draws", "validation")
]
END = {"method": "end", "paper": "EnD (CVPR 2021)", "supervision": "bias labels"}


@pytest.fixture(scope="module")
def page(fake_run: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs with everything a page can show, and names that want to be more than text."""
    root = tmp_path_factory.mktemp("page")
    everything = {"views": True, "single": True, "attribute": "size"}
    names = {"classes": HOSTILE, "biases": HOSTILE, "data": HOSTILE[1]}
    runs = [
        fake_run(**everything, **names),
        fake_run(**everything, **names, **END, conflicting=0.8, seed=1),
        fake_run(**names, method="lff", conflicting=0.5, stages=("biased", "final")),
    ]
    folders = [run.write(root / f"run {number}") for number, run in enumerate(runs)]
    write_report(folders, root / "page.html")
    return root / "page.html"


def test_it_loads_without_complaint_and_every_picture_is_there(browser: Any, page: Path) -> None:
    browser.open(page)
    assert browser.complaints() == []
    sizes = browser.run("[...document.images].map((image) => image.naturalWidth)")
    assert len(sizes) == 12 + 24  # samples, and the maps of the two runs that kept them
    assert min(sizes) > 0
    # Pictures inside figures have no naturalWidth: load what they hold again.
    held = "[...document.querySelectorAll('svg image')].map((each) => each.href.baseVal)"
    assert browser.run(f"{held}.length") >= 3
    assert browser.run(f"{held}.every((each) => each.startsWith('data:image/png;base64,'))")


def test_names_are_text(browser: Any, page: Path) -> None:
    browser.open(page)
    assert browser.run("document.title") == f"Bias report: {HOSTILE[1]}"
    assert HOSTILE[0] in browser.run("document.body.textContent")
    assert browser.run("document.querySelectorAll('script').length") == 1


def order(browser: Any) -> list[str]:
    rows = "[...document.querySelector('table.sortable').tBodies[0].rows]"
    return browser.run(f"{rows}.map((row) => row.cells[0].dataset.value)")


def sorted_by(browser: Any) -> list[str | None]:
    heads = "[...document.querySelector('table.sortable').tHead.rows[0].cells]"
    return browser.run(f"{heads}.map((head) => head.getAttribute('aria-sort'))")


PLAIN, ENTANGLED, FAILURE = "Plain training (ERM)", "EnD (CVPR 2021)", "lff"
CONFLICTING = "[...document.querySelectorAll('table.sortable button')][1]"


def test_a_press_sorts_and_a_second_one_turns_it_round(browser: Any, page: Path) -> None:
    browser.open(page)
    assert browser.run(f"{CONFLICTING}.textContent") == "Conflicting"
    assert order(browser) == [PLAIN, ENTANGLED, FAILURE]
    browser.run(f"{CONFLICTING}.click()")
    assert order(browser) == [ENTANGLED, FAILURE, PLAIN]
    assert sorted_by(browser)[1] == "descending"
    browser.run(f"{CONFLICTING}.click()")
    assert order(browser) == [PLAIN, FAILURE, ENTANGLED]
    assert sorted_by(browser)[1] == "ascending"


def test_the_keyboard_sorts_too(browser: Any, page: Path) -> None:
    browser.open(page)
    browser.run(f"{CONFLICTING}.focus()")
    browser.press("Enter")
    assert order(browser) == [ENTANGLED, FAILURE, PLAIN]
    assert sum(sort is not None for sort in sorted_by(browser)) == 1


@pytest.mark.parametrize("width", [320, 390, 768, 1280, 2560])
def test_nothing_sticks_out_at_any_width(browser: Any, page: Path, width: int) -> None:
    browser.open(page, width=width)
    browser.run("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert browser.run("document.documentElement.scrollWidth") == width


@pytest.fixture(scope="module")
def eighteen(fake_run: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of six methods with three seeds each."""
    root = tmp_path_factory.mktemp("eighteen")
    like = {"side": 16, "epochs": 2, "classes": ("f", "m"), "biases": ("young", "old")}
    folders = [
        fake_run(
            **like, method=method, paper=f"{method} (CVPR 2021)", seed=seed, views=seed == 0
        ).write(root / f"{method} {seed}")
        for method in ("erm", "end", "rebias", "lnl", "pgd", "ie")
        for seed in range(3)
    ]
    write_report(folders, root / "page.html")
    (root / "audit").mkdir()
    (root / "audit/audit.json").write_text(json.dumps(AUDIT))
    Image.new("RGB", (560, 480)).save(root / "audit/a.png")
    write_report(folders, root / "audited.html", audit=root / "audit")
    warned = AUDIT | {"verdict": {**AUDIT["verdict"], "sentence": VERDICT}}
    (root / "audit/audit.json").write_text(json.dumps(warned))
    for folder in folders:
        named = [
            each._replace(sentence=f"{folder.name[:-2]}: {each.sentence}") for each in SYMPTOMS
        ]
        save_health(folder / "health.json", named[: 1 + len(folder.name) % 3])
        RunFolder(folder).finish()
    write_report(folders, root / "warned.html", audit=root / "audit")
    return root / "page.html"


@pytest.mark.parametrize("name", ["page.html", "warned.html"])
@pytest.mark.parametrize("width", [390, 1280])
def test_eighteen_runs_make_a_page_that_can_be_looked_through(
    browser: Any, eighteen: Path, width: int, name: str
) -> None:
    browser.open(eighteen.with_name(name), width=width)
    assert browser.run("document.querySelector('table').tBodies[0].rows.length") == 6
    assert browser.run("document.documentElement.scrollHeight") <= 8000


def test_an_audit_adds_its_verdict_and_folds_the_rest(browser: Any, eighteen: Path) -> None:
    browser.open(eighteen)
    alone = browser.run("document.documentElement.scrollHeight")
    browser.open(eighteen.with_name("audited.html"))
    assert alone < browser.run("document.documentElement.scrollHeight") <= alone + 400
    assert browser.run("document.querySelector('.verdict').checkVisibility()")
    shown = "document.querySelector('details img[alt=suspects]').checkVisibility()"
    assert not browser.run(shown)
    browser.run("document.querySelector('.verdict ~ details').open = true")
    assert browser.run(shown)


@pytest.mark.parametrize(("width", "shown"), [(390, 3), (1280, 17)])
def test_many_warnings_are_folded_on_a_phone_only(
    browser: Any, eighteen: Path, width: int, shown: int
) -> None:
    browser.open(eighteen.with_name("warned.html"), width=width)
    lines = "[...document.querySelectorAll('.health li')]"
    assert browser.run(f"{lines}.filter((each) => each.checkVisibility()).length") == shown
    assert browser.run("document.querySelector('.roomy summary').textContent") == "14 more"
    browser.run("document.querySelector('.roomy').open = true")
    assert browser.run(f"{lines}.every((each) => each.checkVisibility())")


def test_on_a_phone_maps_of_groups_stand_side_by_side(browser: Any, eighteen: Path) -> None:
    browser.open(eighteen, width=390)
    maps = (
        "[...document.querySelectorAll('.grid.small figure')].map((e) => e.getBoundingClientRect())"
    )
    assert len(set(browser.run(f"{maps}.map((each) => each.top)"))) == 1
    assert min(browser.run(f"{maps}.map((each) => each.width)")) > 250
    browser.run("document.querySelector('.grid.small').scrollLeft = 9999")
    assert max(browser.run(f"{maps}.map((each) => each.right)")) <= 390


def test_captions_are_whole_on_a_phone(browser: Any, eighteen: Path) -> None:
    browser.open(eighteen.with_name("audited.html"), width=390)
    browser.run("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    right = "[...document.querySelectorAll('caption')].map((e) => e.getBoundingClientRect().right)"
    assert browser.run(f"Math.max(...{right})") <= 390
    assert browser.run("document.querySelectorAll('caption').length") > 3


def test_on_a_phone_numbers_come_first_and_the_method_stays(browser: Any, eighteen: Path) -> None:
    browser.open(eighteen, width=390)
    cell = "document.querySelector('table.sortable tbody tr').cells[{}].getBoundingClientRect()"
    shown = [browser.run(f"{cell.format(place)}.right") for place in (1, 2)]
    assert max(shown) <= 390  # accuracy on conflicting samples, and the gain
    left = browser.run(f"{cell.format(0)}.left")
    browser.run("document.querySelector('.scroll').scrollLeft = 300")
    assert browser.run(f"{cell.format(1)}.left") < shown[0] - 300
    assert browser.run(f"{cell.format(0)}.left") == left


def test_a_link_of_the_contents_unfolds_its_section(browser: Any, page: Path) -> None:
    browser.open(page)
    opened = "document.getElementById('curves').closest('details').open"
    assert browser.run(opened) is False
    browser.run("document.querySelector('nav a[href=\"#curves\"]').click()")
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert browser.run(opened) is True


def test_a_pdf_holds_what_the_page_folds(fake_run: Any, tmp_path: Path) -> None:
    """Without the script, the page is printed as it is folded, on fewer sheets of paper."""
    folder = fake_run(views=True).write(tmp_path / "run")
    written = write_report(folder, tmp_path / "x.pdf", title="Shapes & <colors>")
    content = written.path.read_bytes()
    assert written.format == "pdf"
    assert content.startswith(b"%PDF")
    assert content.rstrip().endswith(b"%%EOF")
    write_report(folder, tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text()
    folded = printed(re.sub("<script>.*</script>", "", page, flags=re.DOTALL))
    sheets = [len(re.findall(rb"/Type\s*/Page\b", each)) for each in (folded, content)]
    assert sheets[1] > sheets[0] > 0


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of an audit of small vectors, with names that want to be more than text."""
    halves = torch.arange(40) % 2
    data = BiasedDataset(
        inputs=torch.zeros(40, 2), targets=halves, classes=HOSTILE[:2], name=HOSTILE[1],
        attributes={HOSTILE[0]: halves}, values={HOSTILE[0]: HOSTILE[:2]},
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("audit") / "a"
    audit(data, permutations=99).write(folder)
    return folder / "audit.html"


@pytest.mark.parametrize("width", [320, 1280])
def test_the_page_of_an_audit_loads_and_fits(browser: Any, audited: Path, width: int) -> None:
    browser.open(audited, width=width)
    assert browser.complaints() == []
    assert browser.run("document.title") == f"Audit: {HOSTILE[1]}"
    browser.run("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert browser.run("document.documentElement.scrollWidth") == width
    assert "gives the class away:" in browser.run("document.querySelector('strong').textContent")


def test_it_is_printed_unfolded(browser: Any, page: Path) -> None:
    browser.open(page)
    folded = "[...document.querySelectorAll('details')].filter((each) => !each.open).length"
    assert browser.run(folded) > 3
    assert browser.pdf().startswith(b"%PDF")
    assert browser.run(folded) == 0


def test_a_screen_reader_finds_names_for_everything(browser: Any, page: Path) -> None:
    browser.open(page)
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    told: dict[str, list[str]] = {}
    for node in nodes:
        if not node["ignored"]:
            name = node.get("name", {}).get("value", "")
            told.setdefault(node["role"]["value"], []).append(name)
    for role in ("image", "button", "heading", "table", "region"):
        assert told[role], role
        assert all(name.strip() for name in told[role]), role
    assert told["columnheader"]
    assert told["rowheader"]
    levels = browser.run(
        "[...document.querySelectorAll('h1,h2,h3')].map((each) => +each.tagName[1])"
    )
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a verification of two models, with names that want to be more than text."""
    rows = range(400)
    columns = {
        "y": [HOSTILE[n % 2] for n in rows],
        "a model with a rather long name": [HOSTILE[n % 7 % 2] for n in rows],
        "b": [HOSTILE[n % 3 % 2] for n in rows],
        "site": [f"{HOSTILE[n % 3]} {'x' * 40} {n % 5}" for n in rows],
        "sex": ["f" if n % 4 < 2 else "m" for n in rows],
    }
    found = verify_table(
        columns, target="y", prediction=["a model with a rather long name", "b"],
        bias=["site", "sex"], intersections=2, positive=HOSTILE[0],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("answers") / "page.html"
    path.write_text(render_page(found, judge_gates(found, [read_gate("worst_group >= .8")])))
    return path


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_of_a_verification_sticks_out(browser: Any, answers: Path, width: int) -> None:
    browser.open(answers, width=width)
    browser.run("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.complaints() == []
    assert browser.run("document.querySelectorAll('script').length") == 1


def test_tables_of_a_verification_are_sorted_by_a_press(browser: Any, answers: Path) -> None:
    browser.open(answers)
    table = "document.querySelector('table.sortable')"
    browser.run(f"[...{table}.querySelectorAll('button')][1].click()")
    values = browser.run(
        f"[...{table}.tBodies[0].rows].map((row) => Number(row.cells[1].dataset.value))"
    )
    assert values == sorted(values, reverse=True)
    assert len(values) == 2
