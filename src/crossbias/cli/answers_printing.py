"""How the command line prints a verification: tables, what to know about them, and gates."""

from collections.abc import Sequence

from rich.markup import escape

from crossbias.answers.gates import GateResult
from crossbias.answers.grids_of_answers import (
    FURTHER,
    USUAL,
    attribute_grid,
    flagged_grid,
    gain_grid,
    gap_grid,
    gate_grid,
    main_grid,
    scan_lines,
    value_grid,
)
from crossbias.answers.verification import Verification
from crossbias.answers.words import about_models, association_lines, class_mix_lines
from crossbias.cli.printing import make_table, print_table, say
from crossbias.formatting import count
from crossbias.runs.grids import Grid

MOST_VALUES = 20  # of an attribute that are printed; files have all of them
MOST_FLAGGED = 20
LOW_BY_CHANCE = (
    "The lowest of many values are low by chance, too: their intervals do not take that into "
    "account, but the groups that are flagged do."
)


def print_verification(found: Verification) -> None:
    """Print everything but the gates."""
    print_grid(main_grid(found, USUAL))
    print_grid(main_grid(found, FURTHER))
    print_grid(attribute_grid(found))
    for attribute in found.named:
        grid, more = value_grid(found, attribute, most=MOST_VALUES, among=USUAL)
        print_grid(grid)
        if more:
            say(f"{count(more)} more values with higher accuracies; -o FILE has them.")
            say(LOW_BY_CHANCE)
    print_grid(gap_grid(found))
    if flagged := flagged_grid(found, most=MOST_FLAGGED):
        grid, more = flagged
        print_grid(grid)
        if more:
            say(f"{count(more)} more; -o FILE has them.")
    print_grid(gain_grid(found))
    if any(gain.test for gain in found.gains):
        corrected = ", corrected by Holm's method" if len(found.models) > 2 else ""
        say(f"p is from McNemar's exact test{corrected}.")
    for line in (*scan_lines(found), *about_models(found)):
        say(line)
    for each in found.first.attributes.values():
        if each.metrics.warning:
            say(f"{each.name}: {each.metrics.warning}.")
    for line in [*association_lines(found), *class_mix_lines(found)]:
        say(line)


def print_grid(grid: Grid | None) -> None:
    """Print a table with an empty line after it."""
    if grid is None:
        return
    table = make_table(*grid.header, title=grid.title)
    for row in grid.rows:
        table.add_row(*map(escape, row))
    print_table(table)
    say("")


def print_gates(results: Sequence[GateResult], by: str) -> None:
    """Print which gates passed; nothing where there is none."""
    if not results:
        return
    say("")
    print_grid(gate_grid(results))
    failed = sum(not result.passed for result in results)
    how = "the cautious end of the interval" if by == "interval" else "the value alone"
    say(f"{failed} of {len(results)} gates failed, judged by {how}.")
