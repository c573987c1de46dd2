"""IE's bias-negative samples: scored while a biased network trains, drawn as partners."""

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import torch
from torch import Tensor

from crossbias.functional import NOT_SEEN, bias_negative_score, draw_partners, refilled
from crossbias.types import UNKNOWN, Batch

if TYPE_CHECKING:
    from crossbias.data.dataset import BiasedDataset
    from crossbias.train.run import Run

Partners = Literal["negative", "candidates", "all"]
"""Where partners come from: D^BN, D^BN_cand or D in the paper's Table 3."""

SCORE_CURVES: Final = {
    "score_aligned": ("BN score", "aligned"),
    "score_conflicting": ("BN score", "conflicting"),
    "negatives": ("share in D^BN", "all candidates"),
    "negatives_aligned": ("share in D^BN", "aligned"),
    "negatives_conflicting": ("share in D^BN", "conflicting"),
}
"""The numbers that ``BiasNegatives.summary`` logs: the axis of each, and its label."""


class BiasNegatives:
    """Bias-negative score of every training sample (IE, eqs. 2 and 3) and the draw of partners.

    Args:
        run: The run whose data is scored.
        candidates: ``(full_size,)`` mask of D^BN_cand.
        weight: alpha_s, of a new value in the score's average.
        partners: From which set partners are drawn.
        refill: Draw from all candidates of a class while none of them is bias-negative.
    """

    def __init__(
        self, run: "Run", candidates: Tensor, *, weight: float, partners: Partners, refill: bool
    ) -> None:
        self.weight, self.partners, self.refill = weight, partners, refill
        self.classes = run.data.num_classes
        self.score = torch.zeros(run.data.full_size, device=run.device)
        self.reference = torch.full_like(self.score, NOT_SEEN)
        self.rows = run.data.index[candidates[run.data.index]].to(run.device)
        everything = torch.ones_like(candidates)
        self._pool = _pool(run, everything if partners == "all" else candidates)

    def update(self, index: Tensor, losses: Tensor) -> None:
        """Eq. 2 for some rows; a row's first loss is its reference.

        Args:
            index: ``(B,)`` rows.
            losses: ``(B,)`` their averaged losses l_t (eq. 1) under the biased network.
        """
        reference = self.reference[index]
        reference = torch.where(reference < 0, losses, reference)
        self.reference[index] = reference
        self.score[index] = bias_negative_score(
            self.score[index], losses, reference, weight=self.weight
        )

    def draw(self, batch: Batch, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """A partner of the same class for each sample.

        Args:
            batch: The samples.
            uniform: ``(B,)`` random numbers in [0, 1).

        Returns:
            ``(B,)`` rows, and ``(B,)`` whether there was a partner; the sample's own row where
            there was none.
        """
        pool = self._pool
        if not len(pool.rows):
            return batch.index, torch.zeros_like(batch.index, dtype=torch.bool)
        allowed = torch.ones_like(pool.rows, dtype=torch.bool)
        if self.partners == "negative":
            allowed = self.score[pool.rows] > 0  # eq. 3
            if self.refill:
                allowed = refilled(allowed, pool.target, self.classes)
        place, found = draw_partners(allowed, pool.starts, batch.target, uniform)
        return torch.where(found, pool.rows[place], batch.index), found

    def summary(self, data: "BiasedDataset") -> dict[str, float]:
        """Figure 2 and Table 2 of the paper: how the score tells the two kinds of samples apart.

        Args:
            data: The training data; its bias labels, where it has any, are read for this alone.

        Returns:
            ``negatives``, the share of candidates with a positive score. With bias labels also
            ``score_*``, the mean score of aligned and conflicting candidates, and
            ``negatives_*``, the share of all aligned and of all conflicting samples in D^BN; 0
            where there is no such sample.
        """
        negative = torch.zeros_like(self.score)
        negative[self.rows] = (self.score[self.rows] > 0).float()
        found = {"negatives": _mean(negative[self.rows])}
        if not data.has_bias_labels:
            return found
        known = data.biases != UNKNOWN
        aligned = data.alignment()[data.targets, data.biases.clamp(min=0)]
        candidate = torch.isin(data.index, self.rows.cpu())
        for name, kind in (("aligned", aligned & known), ("conflicting", ~aligned & known)):
            found[f"score_{name}"] = _mean(self.score[data.index[kind & candidate]])
            found[f"negatives_{name}"] = _mean(negative[data.index[kind]])
        return found


class _Pool(NamedTuple):
    """Samples sorted by class."""

    rows: Tensor  # (m,) in the full training set
    target: Tensor  # (m,)
    starts: Tensor  # (classes + 1,)


def _pool(run: "Run", chosen: Tensor) -> _Pool:
    keep = chosen[run.data.index]
    target, order = run.data.targets[keep].sort(stable=True)
    sizes = target.bincount(minlength=run.data.num_classes)
    starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    rows = run.data.index[keep][order]
    return _Pool(rows.to(run.device), target.to(run.device), starts.to(run.device))


def _mean(values: Tensor) -> float:
    return float(values.mean()) if len(values) else 0.0
