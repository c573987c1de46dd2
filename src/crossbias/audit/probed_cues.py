"""How much of the task each cheap cue solves by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from crossbias.audit.cues import Cue
from crossbias.audit.folds import num_present, testable
from crossbias.audit.probe import Probe, probe, standardized
from crossbias.progress import Progress
from crossbias.seeds import seed_for

CLASSES: Final = 50
"""Cues are probed on at most this many classes, the largest ones."""


@dataclass(frozen=True, kw_only=True)
class CueFinding:
    """What one cue alone reveals about the target.

    Args:
        name: Name of the cue.
        what: What it looks at.
        dimensions: Number of its features.
        reason: Why it could not be tested; empty if it was.
        balanced_accuracy: Cross-validated balanced accuracy of a linear probe.
        chance: Balanced accuracy of guessing.
        accuracy: Accuracy of the same probe if it prefers frequent classes.
        majority: Accuracy of always answering the largest class.
        noticeable: Balanced accuracy that 1 in 100 shuffles of the labels reaches.
        p: P-value of the features saying nothing about the target.
        p_corrected: P-value corrected for everything the audit tested.
    """

    name: str
    what: str
    dimensions: int
    reason: str = ""
    balanced_accuracy: float | None = None
    chance: float | None = None
    accuracy: float | None = None
    majority: float | None = None
    noticeable: float | None = None
    p: float | None = None
    p_corrected: float | None = None

    @property
    def solved(self) -> float | None:
        """The share of the way from chance to perfect."""
        if self.balanced_accuracy is None or self.chance is None:
            return None
        return max(0.0, (self.balanced_accuracy - self.chance) / (1 - self.chance))

    def to_json(self) -> dict[str, Any]:
        """The finding as ``audit.json`` has it."""
        names = ["name", "what", "dimensions", "balanced_accuracy", "chance", "accuracy"]
        names += ["majority", "solved", "noticeable", "p", "p_corrected"]
        return {name: getattr(self, name) for name in names} | {"reason": self.reason or None}


def probed_rows(targets: Tensor) -> Tensor:
    """Positions of the samples to probe: those of the largest classes, with two samples or more."""
    counts = torch.bincount(targets)
    largest = counts.argsort(descending=True, stable=True)[:CLASSES]
    return (testable(targets) & torch.isin(targets, largest)).nonzero().squeeze(1)


def audit_cues(
    cues: Sequence[Cue],
    targets: Tensor,
    *,
    permutations: int,
    seed: int,
    progress: Progress | None = None,
) -> list[CueFinding]:
    """Probe each cue for the target; its features have one row for each of the ``targets``."""
    rows = probed_rows(targets)
    found = []
    for cue in cues:
        (progress or Progress()).note(f"probing {cue.name}")
        found.append(_probed(cue, rows, targets[rows], permutations, seed))
    return found


def _probed(cue: Cue, rows: Tensor, targets: Tensor, permutations: int, seed: int) -> CueFinding:
    features = cue.features[rows]
    about: dict[str, Any] = {
        "name": cue.name,
        "what": cue.what,
        "dimensions": features.shape[1],
    }
    classes = num_present(targets)
    if classes < 2:
        return CueFinding(**about, reason="fewer than two classes have two samples or more")
    if not standardized(features).any():
        return CueFinding(**about, reason="it is the same in every sample")
    found: Probe = probe(
        features, targets, permutations=permutations, seed=seed_for(seed, "cue", cue.name)
    )
    return CueFinding(
        **about,
        balanced_accuracy=found.balanced_accuracy,
        chance=1 / classes,
        accuracy=found.accuracy,
        majority=int(torch.bincount(targets).max()) / len(targets),
        noticeable=float(found.null.quantile(0.99)),
        p=found.p,
    )
