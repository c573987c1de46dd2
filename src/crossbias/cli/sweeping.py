"""``crossbias sweep``: many runs from one plan."""

import shlex
import sys
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from crossbias.cli import options
from crossbias.cli.printing import make_table, print_table, say
from crossbias.errors import CrossbiasError
from crossbias.formatting import duration, first_few
from crossbias.progress import shown_progress
from crossbias.runs.sweeps import SweepFolder, SweepRun
from crossbias.runs.writer import is_written
from crossbias.sweep import Plan, run_sweep, runs_to_train

Place = StrEnum("Place", ["local", "slurm", "ray"])  # where a sweep runs

_MANY = 1000  # runs that nobody starts by mistake
_SHOWN = 40  # runs that a list shows


def sweep(
    plan: Annotated[
        Path | None,
        typer.Argument(metavar="PLAN", help="TOML file with the runs.", show_default=False),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the sweep.")] = None,
    on: Annotated[
        Place, typer.Option(help="Train on this machine, or on a cluster.")
    ] = Place.local,
    jobs: Annotated[int, typer.Option(help="Runs at a time.")] = 1,
    address: Annotated[
        str | None,
        typer.Option(
            help="Ray cluster, HOST:PORT.", show_default="one that is started on this machine"
        ),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Try failed runs again.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="List the runs and estimate the time from a few steps of each kind."
        ),
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Print how far the sweep in --out is.")
    ] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="Ask the sweep in --out to save its runs and end.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help=f"Do not ask before more than {_MANY:,} runs.")
    ] = False,
    trust: options.Trust = False,
    quiet: options.Quiet = False,
) -> None:
    """Train many runs from one plan: methods, data options, networks, settings and seeds.

    Each run is a run folder in --out. The same command skips finished runs and resumes stopped
    ones. A plan with [search] draws settings first. `crossbias compare` and `crossbias report` take
    the folder of a sweep. docs/sweep.md describes the plan.
    """
    if out is None:
        raise CrossbiasError("a sweep needs a folder: --out sweeps/NAME")
    if status or stop:
        _look(SweepFolder(out), stop=stop)
        return
    if plan is None:
        raise CrossbiasError("no plan is named: crossbias sweep PLAN.toml --out sweeps/NAME")
    found = Plan.read(plan, trust=trust)
    if dry_run:
        _print_estimate(found, out, jobs, retry=retry)
        return
    _ask(found, yes)
    chosen: Any = on.value
    runs = run_sweep(
        found, out, on=chosen, jobs=jobs, address=address, retry=retry,
        progress=shown_progress(quiet=quiet),
    )  # fmt: skip
    _print_runs(runs, failures_only=True)
    folder = shlex.quote(str(out))
    if any(run.state == "finished" for run in runs):
        say(f"next: crossbias compare {folder}")
    if any(run.state == "failed" for run in runs):
        again = shlex.join(["crossbias", *sys.argv[1:], "--retry"])
        raise CrossbiasError(f"some runs failed; to try them again: {again}")


def _look(folder: SweepFolder, *, stop: bool) -> None:
    folder.check_exists()
    runs = folder.status()
    if stop:
        if not is_written(folder.path):
            if training := sum(run.state == "running" for run in runs):
                raise CrossbiasError(
                    f"no process drives the sweep in {folder.path}, but {training} of its runs are "
                    f"being trained; start the sweep again with its plan, and stop it then"
                )
            raise CrossbiasError(f"no sweep is running in {folder.path}: there is nothing to stop")
        folder.stop_request.touch()
        say(f"{folder.path} will stop; its runs save first")
        return
    _print_runs(runs, failures_only=False)


def _print_runs(runs: list[SweepRun], *, failures_only: bool) -> None:
    """Print the number of runs in each state, and those that are worth a line."""
    counts = Counter(run.state for run in runs)
    say(", ".join(f"{number} {state}" for state, number in counts.items()) or "no runs")
    wanted = ("failed",) if failures_only else ("running", "stopped", "failed")
    shown = [run for run in runs if run.state in wanted]
    if shown:
        table = make_table("run", "state", "last line")
        for run in shown[:_SHOWN]:
            table.add_row(escape(run.name), run.state, escape(run.line))
        print_table(table)
        if len(shown) > _SHOWN:
            say(f"and {len(shown) - _SHOWN:,} more")


def _print_estimate(plan: Plan, out: Path, jobs: int, *, retry: bool) -> None:
    from crossbias.sweep.estimate import estimate

    if plan.size > 100 * _MANY:
        raise CrossbiasError(
            f"the plan has {plan.size:,} runs, too many to list; give fewer values in [grid]"
        )
    runs = runs_to_train(plan, out, retry=retry)
    if not runs:
        say(f"nothing to train: {out} has all runs of the plan")
        return
    for name in first_few([job.name for job in runs], most=_SHOWN):
        say(name)
    seconds = estimate(runs, shown_progress())
    trials = ""
    total = sum(seconds)
    if plan.space is not None:
        arms, seeds = len(plan.arms()), len(plan.seeds)
        total = total / seeds * (plan.space.trials + seeds - 1)
        trials = f", and {plan.space.trials} trials for each of {arms} configurations before"
    say(
        f"{len(runs)} runs{trials}: about {duration(total / max(jobs, 1))} with {jobs} at a time, "
        f"if the machine has room for them"
    )


def _ask(plan: Plan, yes: bool) -> None:
    """Ask before a sweep of very many runs."""
    if plan.size <= _MANY or yes:
        return
    many = f"the plan has {plan.size:,} runs"
    if not sys.stdin.isatty():
        raise CrossbiasError(f"{many}; add --yes if you mean it, or give fewer values in [grid]")
    if not typer.confirm(f"{many}. Train them all?"):
        raise CrossbiasError("nothing was started")
