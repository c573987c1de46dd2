"""The page of a verification: one self-contained HTML file."""

from collections.abc import Sequence
from typing import Any, Final

from markupsafe import Markup

from crossbias.answers.chart import values_chart
from crossbias.answers.gates import GateResult
from crossbias.answers.grids_of_answers import (
    FURTHER,
    USUAL,
    attribute_grid,
    flagged_grid,
    gain_grid,
    gap_grid,
    main_grid,
    scan_lines,
    value_grid,
)
from crossbias.answers.intersections import Attribute
from crossbias.answers.samples import BETWEEN
from crossbias.answers.verification import Verification
from crossbias.answers.words import about_models, association_lines, class_mix_lines, summary_of
from crossbias.report.heatmap import accuracy_matrix
from crossbias.report.tables import MOST_GROUPS
from crossbias.report.templates import render_template

MOST_SECTIONS: Final = 30
"""The page has a section for at most this many attributes and intersections."""

_LARGEST_MAP: Final = 40  # classes and values of a heat map


def render_page(found: Verification, gates: Sequence[GateResult]) -> str:
    """The page as text."""
    attributes = list(found.first.attributes)
    return render_template(
        "answers.html",
        about=[*about_models(found), *association_lines(found), *class_mix_lines(found)],
        attributes=[_section(found, each, n) for n, each in enumerate(attributes[:MOST_SECTIONS])],
        flagged=flagged_grid(found, most=MOST_GROUPS),
        found=found,
        gaps=gap_grid(found),
        gains=gain_grid(found),
        gates=gates,
        groups=attribute_grid(found),
        left_out=[BETWEEN.join(each) for each in attributes[MOST_SECTIONS:]],
        main=[grid for part in (USUAL, FURTHER) if (grid := main_grid(found, part))],
        scanned=scan_lines(found),
        summary=summary_of(found, gates),
        tested=any(gain.test for gain in found.gains),
        title=f"Verification of {', '.join(found.models)}",
    )


def _section(found: Verification, attribute: Attribute, number: int) -> dict[str, Any]:
    """The figures and the table of one attribute."""
    grid, more = value_grid(found, attribute, most=MOST_GROUPS)
    return {
        "identifier": f"attribute-{number}",
        "name": BETWEEN.join(attribute),
        "chart": values_chart(found, attribute, number),
        "maps": _maps(found, attribute, number),
        "grid": grid,
        "more": more,
        "warning": found.first.attributes[attribute].metrics.warning,
    }


def _maps(found: Verification, attribute: Attribute, number: int) -> list[tuple[str, Markup]]:
    """A heat map of the groups for each model, where it can be read."""
    metrics = [(model.name, model.attributes[attribute].metrics) for model in found.models.values()]
    sides = (len(metrics[0][1].classes), len(metrics[0][1].biases))
    if max(sides) > _LARGEST_MAP or not metrics[0][1].worst_group:
        return []
    name = BETWEEN.join(attribute)
    return [
        (model, accuracy_matrix(model, [each], name, 1000 * (number + 1) + place))
        for place, (model, each) in enumerate(metrics)
    ]
