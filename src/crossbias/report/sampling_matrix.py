"""The sampling matrix: which share of the draws a method gave to every (target, bias) group."""

from typing import NamedTuple

import torch
from markupsafe import Markup
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.formatting import percent
from crossbias.report.heatmap import HeatMap, aligned_table, fits_a_map
from crossbias.runs.read import FinishedRun
from crossbias.types import UNKNOWN


class Shares(NamedTuple):
    """What the groups have of the training samples and of the draws."""

    samples: Tensor  # (classes, biases) int64, how many
    draws: Tensor  # (classes, biases) float64, sums to 1

    def of(self, groups: Tensor) -> tuple[float, float]:
        """Shares of the samples and of the draws that some groups have together."""
        samples = self.samples[groups].sum() / self.samples.sum()
        return float(samples), float(self.draws[groups].sum())


def sampling_shares(run: FinishedRun) -> Shares | None:
    """Shares of the groups, where the run drew or weighed its training samples.

    The figure ``sampling`` reads one stage: a number for each training row, by which it is drawn
    or weighed.
    """
    stages = run.stages_of("sampling", 1)
    if stages is None or stages[0].ndim != 1 or run.labels is None or not fits_a_map(run.test):
        return None
    (weights,) = stages
    labels, (rows, columns) = run.labels, (len(run.test.classes), len(run.test.biases))
    bias = labels.bias(run.bias)
    known = bias != UNKNOWN
    if not known.any():
        return None
    groups = labels.target * columns + bias
    if int(labels.index.max()) >= len(weights) or int(groups[known].max()) >= rows * columns:
        raise CrossbiasError(f"{run.path}: labels.npz does not fit the stages; train it again")
    own = weights[labels.index].double().nan_to_num(0).clamp(min=0)[known]
    total = torch.zeros(rows * columns, dtype=torch.float64).index_add_(0, groups[known], own)
    counts = torch.bincount(groups[known], minlength=rows * columns)
    draws = total / total.sum().clamp(min=1e-300)
    return Shares(counts.view(rows, columns), draws.view(rows, columns))


def sampling_matrix(name: str, run: FinishedRun, number: int) -> Markup | None:
    """The share of the draws of every group, aligned ones framed; None without such a stage."""
    shares = sampling_shares(run)
    if shares is None:
        return None
    heat = HeatMap(
        values=shares.draws.masked_fill(shares.samples == 0, torch.nan).tolist(),
        sizes=shares.samples.tolist(),
        rows=run.test.classes,
        columns=run.test.biases,
        row_label="class",
        column_label=run.bias or "bias",
        framed=aligned_table(run.test),
        highest=max(float(shares.draws.max()), 1e-9),
    )
    aligned = torch.tensor(aligned_table(run.test))
    samples, draws = map(percent, shares.of(aligned))
    told = f"aligned groups hold {samples} of the training samples and get {draws} of the draws"
    return heat.figure(f"sampling {number}", f"{name}: {told}")
