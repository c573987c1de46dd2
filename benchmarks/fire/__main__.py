"""Runs the campaign and writes its counts to results/fire-cpu.json."""

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch

from benchmarks.fire import (
    damages,
    disks,
    fuzz,
    fuzzed_inputs,
    fuzzed_runs,
    intrusions,
    kills,
    power,
    races,
    sequences,
    sweeps,
)
from benchmarks.fire.subjects import METHODS, Arena, Skipped
from benchmarks.measure import COMMIT, RESULTS, keep
from crossbias.data.memory_maps import CACHE_VARIABLE

Kind = Callable[[Arena], Iterator[str | None]]

_FUZZED = fuzzed_runs.BODIES | fuzzed_inputs.BODIES
KINDS: dict[str, tuple[Kind, int]] = {
    "kills at random moments": (kills.at_random_moments, 500),
    "kills at every file event": (kills.at_every_event, 500),
    "kills of sequences of runs": (sequences.of_tables, 60),
    "kills of sweeps": (sweeps.kills, 12),
    "stops on request": (kills.on_request, 60),
    "power cuts": (power.cuts, 60),
    "full disks": (disks.full, 60),
    "full disks of the cache": (disks.of_the_cache, 60),
    "bit flips of finished runs": (partial(damages.of_finished_runs, damages.FLIPS), 300),
    "bit flips of unfinished runs": (partial(damages.of_unfinished_runs, damages.FLIPS), 250),
    "damage to finished runs": (partial(damages.of_finished_runs, damages.OTHERS), 250),
    "damage to unfinished runs": (partial(damages.of_unfinished_runs, damages.OTHERS), 250),
    **{f"damaged {name}": (partial(fuzz.attack, body), 80) for name, body in _FUZZED.items()},
    "names of code": (intrusions.by_names, 120),
    "pickles": (intrusions.by_pickles, 120),
    "races for a run": (races.between_processes, 200),
    "races for the cache": (races.for_the_cache, 20),
}
"""Every kind of try, and how often it is tried."""

Counts = dict[str, dict[str, Any]]

_NOTHING = {"tried": 0, "held": 0, "failed": 0, "processor_seconds": 0.0}


def campaign(
    kinds: list[str],
    home: Path,
    *,
    seed: int = 0,
    lane: int = 0,
    lanes: int = 1,
    share: float = 1.0,
    methods: tuple[str, ...] = tuple(METHODS),
) -> Counts:
    """Try all kinds side by side, until each was tried as often as it should be.

    Args:
        kinds: Names of the kinds.
        home: A folder to fight in.
        seed: Of everything random.
        lane: Number of this process among those that fight at the same time.
        lanes: How many there are; each has its own methods.
        share: Share of the tries that are made.
        methods: Names of the methods to fight with.
    """
    arena = Arena(home, Random(f"{seed}-{lane}"), methods[lane::lanes])
    found: Counts = {kind: _NOTHING | {"failures": []} for kind in kinds}
    goals = {kind: math.ceil(KINDS[kind][1] * share / lanes) for kind in kinds}
    arena.batch = min(arena.batch, *goals.values())
    running = {kind: KINDS[kind][0](arena) for kind in kinds}
    while running:
        kind = min(running, key=lambda kind: found[kind]["tried"] / goals[kind])
        begin = _processor_time()
        try:
            _count(kind, found[kind], next(running[kind]), home)
        except StopIteration:
            running[kind] = KINDS[kind][0](arena)
        except Skipped as reason:
            found[kind]["skipped"] = str(reason)
            del running[kind]
        found[kind]["processor_seconds"] += round(_processor_time() - begin, 2)
        if found[kind]["tried"] >= goals[kind]:
            running.pop(kind, None)
    return found


def _processor_time() -> float:
    return sum(os.times()[:4])


def _count(kind: str, counts: dict[str, Any], problem: str | None, home: Path) -> None:
    counts["tried"] += 1
    counts["failed" if problem else "held"] += 1
    if problem:
        counts["failures"].append(problem.replace(str(home), "."))
        print(f"failed, {kind}: {problem}", file=sys.stderr, flush=True)


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
    tempfile.tempdir = str(place)
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


def kept() -> Counts:
    """What was found before, by kind: a kind that is tried alone replaces its own counts."""
    file = RESULTS / "fire-cpu.json"
    found: Counts = json.loads(file.read_text())["found"] if file.exists() else {}
    return {kind: counts for kind, counts in found.items() if kind in KINDS}


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.fire")
    parser.add_argument("--share", type=float, default=1.0, help="Share of the tries to make.")
    parser.add_argument("--only", action="append", choices=KINDS, help="One kind of try.")
    parser.add_argument("--seed", type=int, default=0, help="Of everything random.")
    parser.add_argument("--jobs", type=int, default=2, help="Processes that fight at once.")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="fire-") as home:
        found = _in_lanes(
            given.jobs, Path(home), kinds=given.only or list(KINDS), seed=given.seed,
            share=given.share,
        )  # fmt: skip
    print(table(found))
    if given.share == 1.0:
        record = {"seed": given.seed, "jobs": given.jobs, "commit": COMMIT}
        keep("fire", kept() | {kind: counts | record for kind, counts in found.items()}, "cpu")
    sys.exit(any(counts["failed"] for counts in found.values()))


if __name__ == "__main__":
    main()
