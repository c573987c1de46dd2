"""How often 95% intervals of a mean over groups contain the true value, by simulation.

python -m benchmarks.coverage
"""

import numpy as np
import torch

from benchmarks.measure import keep
from crossbias.verify import WEIGHTS, Cells, Estimate, unbiased
from crossbias.verify.bootstrap import generator_of, stratified_mean

SPLITS = 1_500
CASES = {
    "4 cells of 150 at .7": [(4, 150, 0.7)],
    "4 cells of 30 at .99": [(4, 30, 0.99)],
    "6 cells of 30 at .99": [(6, 30, 0.99)],
    "100 cells of 100 at .99": [(100, 100, 0.99)],
    "2 cells of 2,000 at .999, 2 of 50 at .96": [(2, 2000, 0.999), (2, 50, 0.96)],
    "10 cells of 900 at .99, 90 of 11 at .9": [(10, 900, 0.99), (90, 11, 0.9)],
}
"""Number of cells, number of samples in each, and the true accuracy of each."""


def main() -> None:
    found = {name: _coverage(parts) for name, parts in CASES.items()}
    keep("coverage", {"splits": SPLITS, "coverage": found}, "cpu")


def _coverage(parts: list[tuple[int, int, float]]) -> dict[str, float]:
    generator = torch.Generator().manual_seed(0)
    totals = torch.cat([torch.full((cells,), samples) for cells, samples, _ in parts])
    truths = torch.cat([torch.full((cells,), truth).double() for cells, _, truth in parts])
    held = {"formula": 0, "bootstrap": 0}
    for _ in range(SPLITS):
        correct = torch.binomial(totals.double(), truths, generator=generator).long()
        cells = _one_class(correct, totals)
        held["formula"] += _holds(unbiased(cells), float(truths.mean()))
        held["bootstrap"] += _holds(bootstrapped(cells), float(truths.mean()))
    return {name: round(count / SPLITS, 4) for name, count in held.items()}


def bootstrapped(cells: Cells) -> Estimate:
    """The unbiased accuracy with the interval of the stratified bootstrap.

    Resampling a cell that is all right or all wrong changes nothing, so the interval is too narrow
    near 0 and 1. This is why the package uses a formula instead.
    """
    right, total = cells.correct.flatten().numpy(), cells.total.flatten().numpy()
    counts, steps = np.stack([total - right, right], axis=1), np.array([0.0, 1.0])
    weights = WEIGHTS["unbiased"](cells).flatten().numpy()
    return stratified_mean(counts, steps, weights, generator_of("accuracy", "unbiased"))


def _one_class(correct: torch.Tensor, totals: torch.Tensor) -> Cells:
    """Cells of one class, with a bias value for each of them."""
    unknown = torch.zeros(1, dtype=torch.int64)
    return Cells(
        correct=torch.cat([correct, unknown])[None],
        total=torch.cat([totals, unknown])[None],
        alignment=torch.zeros(1, len(totals), dtype=torch.bool),
        classes=("class",),
        biases=tuple(str(number) for number in range(len(totals))),
    )


def _holds(estimate: Estimate, truth: float) -> bool:
    return estimate.low <= truth <= estimate.high


if __name__ == "__main__":
    main()
