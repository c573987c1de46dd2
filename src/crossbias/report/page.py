"""The page: everything a report shows, put into one self-contained HTML file."""

from typing import Any

from crossbias.report import tables
from crossbias.report.audit_section import AuditFindings
from crossbias.report.curves import learning_curves
from crossbias.report.galleries import galleries
from crossbias.report.gap_chart import gap_chart
from crossbias.report.heatmap import accuracy_matrix, fits_a_map
from crossbias.report.sample_pictures import guidance_rows, sample_pictures, without_maps
from crossbias.report.search_chart import search_chart
from crossbias.report.summary import summary
from crossbias.report.templates import render_template
from crossbias.runs.compare import Comparison
from crossbias.runs.grids import about_gains, about_rows, gain_grids
from crossbias.runs.sweeps import searches_of


def render(comparison: Comparison, audit: AuditFindings | None, title: str) -> str:
    """The page as text."""
    content = _facts(comparison) | _tables(comparison) | _figures(comparison)
    return render_template("page.html", compared=comparison, audit=audit, title=title, **content)


def _facts(comparison: Comparison) -> dict[str, Any]:
    first = comparison.runs[0]
    return {
        "about_gains": about_gains(comparison),
        "about_rows": about_rows(comparison),
        "associated": first.test.associated,
        "bias": first.bias or "bias",
        "chosen": [row.label for row in comparison.rows if row.selection != "last"],
        "data": first.config["data"],
        "labeled": _labeled(comparison),
        "names": comparison.run_labels,
        "split": comparison.split,
        "summary": summary(comparison),
        "test": first.test,
    }


def _tables(comparison: Comparison) -> dict[str, Any]:
    groups = comparison.runs[0].test.groups
    return {
        "attributes": tables.attribute_tables(comparison),
        "all_gains": gain_grids(comparison),
        "gains": tables.main_gains(comparison),
        "groups": tables.group_rows(comparison.rows),
        "measures": tables.measure_table(comparison),
        "others": tables.split_tables(comparison),
        "sizes": [group.accuracy.n for group in groups],
        "table": tables.accuracy_table(comparison.rows),
    }


def _figures(comparison: Comparison) -> dict[str, Any]:
    names, runs = comparison.run_labels, comparison.runs
    rows = [(row.label, row.runs) for row in comparison.rows]
    drawn = comparison.rows if _labeled(comparison) and fits_a_map(runs[0].test) else ()
    bias = runs[0].bias or "bias"
    guided = [(name, guidance_rows(run)) for name, run in zip(names, runs, strict=True)]
    return {
        "curves": [
            learning_curves(name, run.log, run.curves, number)
            for number, (name, run) in enumerate(zip(names, runs, strict=True))
        ],
        "galleries": galleries(names, runs),
        "gap": gap_chart(comparison.rows, comparison.split),
        "guidance": [(name, found) for name, found in guided if found],
        "matrices": [
            accuracy_matrix(row.label, row.metrics, bias, number)
            for number, row in enumerate(drawn)
        ],
        "searches": [
            (search, search_chart(search, number))
            for number, search in enumerate(searches_of([run.path for run in runs]))
        ],
        "pictures": sample_pictures([runs for _, runs in rows]),
        "without_maps": [name for name, runs in rows if without_maps(runs)],
    }


def _labeled(comparison: Comparison) -> bool:
    """Whether the bias of at least one judged sample is known."""
    return comparison.runs[0].test.worst_group is not None
