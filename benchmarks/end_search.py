"""EnD's alpha and beta on Biased MNIST, searched as by its authors; end_search.toml names all.

A trial is a training with another pair. The first pairs are spread over the ranges. Each later one
is where a Gaussian process, fitted to the validation accuracies so far, expects the largest
improvement, as in the authors' Bayesian search. Pairs are chosen by validation accuracy, and every
trial is kept. Every rho has the same number of trials.

python -m benchmarks.end_search [--only "rho .999"] [--jobs 4] [--stop-after SECONDS]
"""

import argparse
import json
import math
import statistics
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.measure import RESULTS
from benchmarks.table import ROOT, Job, train
from crossbias.errors import CrossbiasError
from crossbias.runs.files import write_atomically

_LENGTHS = (0.1, 0.2, 0.4, 0.8)  # widths of the kernel that are tried, in parts of a range
_NOISE = 0.1  # variance of a trial's accuracy by chance, in parts of the variance of all trials
_CANDIDATES = 1024


@dataclass(frozen=True)
class Plan:
    """What ``end_search.toml`` says.

    Args:
        recipe: The recipe of every trial.
        seed: Seed of every trial, and of the pairs.
        trials: Number of trials for each column.
        uniform: Number of them that are spread over the ranges.
        best: Number of best trials whose mean is reported, as in the paper.
        set: Settings of every trial.
        columns: For each name, settings, the ranges ``alpha`` and ``beta``, and the paper's number.
    """

    recipe: str
    seed: int
    trials: int
    uniform: int
    best: int
    set: dict[str, Any]
    columns: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> "Plan":
        """The plan of a file."""
        return cls(**tomllib.loads(path.read_text(encoding="utf-8")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, default=Path(__file__).with_suffix(".toml"))
    parser.add_argument("--only", action="append", help="this column alone; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, help="trials at a time, each of another rho")
    parser.add_argument("--stop-after", type=float, default=math.inf, help="start no trial after")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "end_search")
    parser.add_argument("--results", type=Path, default=RESULTS / "end_search.json")
    options = parser.parse_args()
    try:
        search(Plan.read(options.plan), options)
    except (CrossbiasError, OSError) as error:
        sys.exit(f"benchmarks.end_search: {error}")


def search(plan: Plan, options: argparse.Namespace) -> None:
    """Run what is missing, one trial at each rho in turn, and write after every turn."""
    found = _kept(plan, options.results)
    started = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        for number in range(plan.trials):
            columns = [name for name in options.only or plan.columns if number >= len(found[name])]
            if time.monotonic() - started > options.stop_after:
                return
            trials = [pool.submit(_trial, plan, name, found[name], options) for name in columns]
            for column, trial in zip(columns, trials, strict=True):
                if (record := trial.result()) is None:  # interrupted; the next call continues it
                    return
                found[column].append(record)
                print(column, json.dumps(record), flush=True)
                _write(plan, found, options.results)


def _kept(plan: Plan, path: Path) -> dict[str, list[dict[str, Any]]]:
    """The trials so far, if the same search made them; it may have had another length."""
    if not path.exists():
        return {column: [] for column in plan.columns}
    content = json.loads(path.read_text())
    before, now = (json.dumps(each | {"trials": 0}) for each in (content["plan"], asdict(plan)))
    if before != now:
        raise CrossbiasError(
            f"{path} holds the trials of another plan; remove it, or name another --results"
        )
    return {column: content["found"][column]["trials"] for column in plan.columns}


def _trial(
    plan: Plan, column: str, trials: list[dict[str, Any]], options: argparse.Namespace
) -> dict[str, Any] | None:
    about = plan.columns[column]
    alpha, beta = next_pair(plan, column, trials)
    settings = plan.set | about["set"] | {"method.alpha": alpha, "method.beta": beta}
    name = f"trial {len(trials) + 1}"
    record = train(
        Job(name, column, plan.seed, plan.recipe, None, settings), options.runs, options.jobs
    )
    if record is None:
        return None
    pair = {"alpha": alpha, "beta": beta}
    if "failed" in record:
        return pair | record
    judged = record.pop("found")
    return pair | {split: judged[split]["overall"] for split in ("validation", "test")} | record


def next_pair(plan: Plan, column: str, trials: list[dict[str, Any]]) -> tuple[float, float]:
    """The pair of the next trial; a trial that failed counts as an accuracy of 0."""
    ranges = [plan.columns[column][name] for name in ("alpha", "beta")]
    low, high = torch.tensor(ranges, dtype=torch.float64).unbind(1)
    if len(trials) < plan.uniform:
        place = _spread(plan.uniform, plan.seed)[len(trials)]
    else:
        pairs = [[trial["alpha"], trial["beta"]] for trial in trials]
        points = (torch.tensor(pairs, dtype=torch.float64) - low) / (high - low)
        values = torch.tensor([trial.get("validation", 0.0) for trial in trials])
        candidates = _spread(_CANDIDATES, plan.seed + len(trials))
        place = candidates[expected_improvement(points, values.double(), candidates).argmax()]
    alpha, beta = (low + place * (high - low)).tolist()
    return round(alpha, 4), round(beta, 4)


def expected_improvement(points: Tensor, values: Tensor, candidates: Tensor) -> Tensor:
    """How much each candidate is expected to exceed the best value so far, by a Gaussian process.

    Args:
        points: ``(n, d)`` in the unit cube.
        values: ``(n,)`` what was measured there; in units of their deviation from here on.
        candidates: ``(m, d)``.

    Returns:
        ``(m,)``.
    """
    values = (values - values.mean()) / values.std().clamp(min=1e-6)
    length = max(_LENGTHS, key=lambda each: _likelihood(points, values, each))
    mean, deviation = _posterior(points, values, candidates, length)
    normal = torch.distributions.Normal(0.0, 1.0)
    gap = mean - values.max()
    z = gap / deviation
    return gap * normal.cdf(z) + deviation * normal.log_prob(z).exp()


def _posterior(
    points: Tensor, values: Tensor, candidates: Tensor, length: float
) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the process at the candidates, ``(m,)`` each."""
    factor = torch.linalg.cholesky(_covariance(points, length))
    across = _kernel(points, candidates, length)  # (n, m)
    mean = across.mT @ torch.cholesky_solve(values[:, None], factor).squeeze(1)
    explained = torch.linalg.solve_triangular(factor, across, upper=False).square().sum(0)
    return mean, (1 - explained).clamp(min=1e-12).sqrt()


def _likelihood(points: Tensor, values: Tensor, length: float) -> float:
    process = torch.distributions.MultivariateNormal(
        torch.zeros_like(values), _covariance(points, length)
    )
    return float(process.log_prob(values))


def _covariance(points: Tensor, length: float) -> Tensor:
    return _kernel(points, points, length) + _NOISE * torch.eye(len(points), dtype=points.dtype)


def _kernel(one: Tensor, other: Tensor, length: float) -> Tensor:
    return torch.exp(-torch.cdist(one, other).square() / (2 * length**2))


def _spread(count: int, seed: int) -> Tensor:
    """Points that fill the unit square evenly, ``(count, 2)``."""
    engine = torch.quasirandom.SobolEngine(2, scramble=True, seed=seed)
    return engine.draw(count, dtype=torch.float64)


def _write(plan: Plan, found: dict[str, list[dict[str, Any]]], path: Path) -> None:
    columns = {name: summary(plan, name, trials) for name, trials in found.items()}
    content = {"benchmark": "end_search", "plan": asdict(plan), "found": columns}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def summary(plan: Plan, column: str, trials: list[dict[str, Any]]) -> dict[str, Any]:
    """The chosen pair, and the best trials as the paper reports them, in percent."""
    ranked = sorted(
        (trial for trial in trials if "failed" not in trial),
        key=lambda trial: trial["validation"],
        reverse=True,
    )
    best = [100 * trial["test"] for trial in ranked[: plan.best]]
    return {
        "n": len(trials),
        "failed": len(trials) - len(ranked),
        "chosen": {name: ranked[0][name] for name in ("alpha", "beta")} if ranked else None,
        "mean": round(statistics.fmean(best), 2) if best else None,
        "deviation": round(statistics.pstdev(best), 2) if best else None,
        "paper": plan.columns[column]["paper"],
        "trials": trials,
    }


if __name__ == "__main__":
    main()
