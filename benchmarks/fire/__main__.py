"""Runs the campaign and writes its counts to results/fire-cpu.json."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch

from benchmarks.fire import disks, flips, fuzz, kills, power, races
from benchmarks.fire.subjects import Arena, Skipped
from benchmarks.measure import keep
from crossbias.data.memory_maps import CACHE_VARIABLE

Kind = Callable[[Arena], Iterator[str | None]]

KINDS: dict[str, tuple[Kind, float]] = {
    "kills at random moments": (kills.at_random_moments, 3.0),
    "kills at every file event": (kills.at_every_event, 5.0),
    "power cuts": (power.cuts, 1.0),
    "full disks": (disks.full, 1.0),
    "bit flips of finished runs": (flips.of_finished_runs, 2.0),
    "bit flips of unfinished runs": (flips.of_unfinished_runs, 2.0),
    **{f"damaged {name}": (kind, 0.5) for name, kind in fuzz.KINDS.items()},
    "races": (races.between_processes, 3.0),
}
"""Every kind of try, and its share of the time."""

Counts = dict[str, dict[str, Any]]


def campaign(
    kinds: list[str],
    home: Path,
    *,
    seed: int = 0,
    lane: int = 0,
    lanes: int = 1,
    seconds: float = float("inf"),
    tries: float = float("inf"),
) -> Counts:
    """Try all kinds in turn until the time is over or each was tried so often."""
    arena = Arena(home, Random(f"{seed}-{lane}"), lane, lanes, batch=int(min(tries, 10)))
    found: Counts = {kind: {"tried": 0, "held": 0, "failed": 0, "failures": []} for kind in kinds}
    running = {kind: KINDS[kind][0](arena) for kind in kinds}
    spent, end = dict.fromkeys(kinds, 0.0), time.monotonic() + seconds
    while running and time.monotonic() < end:
        kind = min(running, key=lambda kind: spent[kind] / KINDS[kind][1])
        begin = time.monotonic()
        try:
            _count(found[kind], next(running[kind]), home)
        except StopIteration:
            running[kind] = KINDS[kind][0](arena)
        except Skipped as reason:
            found[kind]["skipped"] = str(reason)
            del running[kind]
        spent[kind] += time.monotonic() - begin
        if found[kind]["tried"] >= tries:
            running.pop(kind, None)
    return found


def _count(counts: dict[str, Any], problem: str | None, home: Path) -> None:
    counts["tried"] += 1
    counts["failed" if problem else "held"] += 1
    if problem:
        counts["failures"].append(problem.replace(str(home), "."))


def _in_lanes(lanes: int, home: Path, **options: Any) -> Counts:
    """Run the campaign in several forks at once; the sum of their counts."""
    forks = []
    for lane in range(lanes):
        place = home / str(lane)
        place.mkdir()
        fork = os.fork()
        if not fork:
            _lane(place, lane=lane, lanes=lanes, **options)
        forks.append((fork, place))
    found: list[Counts] = []
    for fork, place in forks:
        if os.waitpid(fork, 0)[1]:
            sys.exit("the campaign itself failed")
        found.append(json.loads((place / "counts.json").read_text()))
    return {kind: _sum([each[kind] for each in found]) for kind in found[0]}


def _lane(place: Path, **options: Any) -> None:
    code = 1
    os.environ[CACHE_VARIABLE] = str(place / "cache")
    try:
        counts = campaign(home=place, **options)
        (place / "counts.json").write_text(json.dumps(counts))
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _sum(counts: list[dict[str, Any]]) -> dict[str, Any]:
    total = {
        name: sum((each[name] for each in counts[1:]), counts[0][name])
        for name in counts[0]
        if name != "skipped"
    }
    reasons = [each["skipped"] for each in counts if "skipped" in each]
    return total | ({"skipped": reasons[0]} if reasons else {})


def table(found: Counts) -> str:
    """The counts, one line for each kind."""
    lines = [f"{'':30} {'tried':>7} {'held':>7} {'failed':>7}"]
    for kind, counts in found.items():
        numbers = " ".join(f"{counts[name]:7,}" for name in ("tried", "held", "failed"))
        lines.append(f"{kind:30} {numbers}  {counts.get('skipped', '')}".rstrip())
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.fire")
    parser.add_argument("--minutes", type=float, default=20.0, help="How long to go on.")
    parser.add_argument("--tries", type=float, default=float("inf"), help="At most, of each kind.")
    parser.add_argument("--only", action="append", choices=KINDS, help="One kind of try.")
    parser.add_argument("--seed", type=int, default=0, help="Of everything random.")
    parser.add_argument("--jobs", type=int, default=2, help="Processes that fight at once.")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="fire-") as home:
        found = _in_lanes(
            given.jobs, Path(home), kinds=given.only or list(KINDS), seed=given.seed,
            seconds=given.minutes * 60, tries=given.tries,
        )  # fmt: skip
    print(table(found))
    for kind, counts in found.items():
        for problem in counts["failures"][:20]:
            print(f"{kind}: {problem}")
    if not given.only:
        keep("fire", {"seed": given.seed, "kinds": found}, "cpu")
    sys.exit(any(counts["failed"] for counts in found.values()))


if __name__ == "__main__":
    main()
