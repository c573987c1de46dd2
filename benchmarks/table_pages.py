"""Tables in the documentation, written from their results.

A page has ``<!-- table NAME -->`` where a table belongs, ``<!-- table NAME: ROW; ROW -->`` for some
rows of it, or ``<!-- table NAME, MEASURE: ROW; ROW -->`` for one measure of them, and
``<!-- end of table -->`` after it. What stands between them is replaced. Between
``<!-- failures NAME -->`` and ``<!-- end of failures -->`` stands which runs did not help.

python -m benchmarks.table_pages
"""

import json
import re
from dataclasses import replace
from pathlib import Path

from benchmarks import failures
from benchmarks.measure import RESULTS
from benchmarks.table import ROOT, Table, overview
from crossbias.errors import CrossbiasError

_BLOCK = re.compile(
    r"(<!-- table ([\w-]+)(?:, ([\w -]+))?(?:: (.*?))? -->\n).*?(<!-- end of table -->\n)",
    re.DOTALL,
)
_FAILURES = re.compile(r"(<!-- failures ([\w-]+) -->\n).*?(<!-- end of failures -->\n)", re.DOTALL)


def pages() -> list[Path]:
    """The pages that may have tables."""
    return [ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def filled(text: str, results: Path) -> str:
    """A page with its tables as the results are now.

    Args:
        text: The page.
        results: The folder of the results.
    """
    text = _BLOCK.sub(
        lambda found: found[1] + _shown(found[2], found[3], found[4], results) + found[5], text
    )
    return _FAILURES.sub(lambda found: found[1] + _failed(found[2], results) + found[3], text)


def _failed(name: str, results: Path) -> str:
    table = Table.read(ROOT / "tables" / f"{name}.toml", ROOT / "recipes")
    return failures.overview(table, json.loads((results / f"{name}.json").read_text())["runs"])


def _shown(name: str, measure: str | None, rows: str | None, results: Path) -> str:
    table = Table.read(ROOT / "tables" / f"{name}.toml", ROOT / "recipes")
    if measure and measure not in table.metrics:
        raise CrossbiasError(
            f"the table {name} has no measure {measure!r}: {', '.join(table.metrics)}"
        )
    if measure:
        table = replace(table, metrics={measure: table.metrics[measure]})
    chosen = rows.split("; ") if rows else list(table.rows)
    if unknown := [row for row in chosen if row not in table.rows]:
        raise CrossbiasError(f"the table {name} has no row {unknown[0]!r}: {', '.join(table.rows)}")
    path = results / f"{name}.json"
    cells = json.loads(path.read_text())["cells"] if path.exists() else []
    return overview(table, [cell for cell in cells if cell["row"] in chosen])


def main() -> None:
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = filled(before, RESULTS / "tables")
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
