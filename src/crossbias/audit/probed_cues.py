"""How much of the task each cheap cue solves by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from crossbias.audit.cues import Cue
from crossbias.audit.folds import num_present, testable
from crossbias.audit.probe import probe, standardized
from crossbias.progress import Progress
from crossbias.seeds import seed_for

CLASSES: Final = 50  # cues are probed on at most this many classes, the largest ones


@dataclass(frozen=True, kw_only=True)
class CueFinding:
    """What one cue alone reveals about the target."""

    name: str
    what: str  # it looks at
    dimensions: int  # number of its features
    reason: str = ""  # why it could not be tested; empty if it was
    balanced_accuracy: float | None = None  # of a linear probe, cross-validated
    chance: float | None = None  # balanced accuracy of guessing
    accuracy: float | None = None  # of the same probe if it prefers frequent classes
    majority: float | None = None  # accuracy of always answering the largest class
    noticeable: float | None = None  # balanced accuracy that 1 in 100 shuffled labels reach
    p: float | None = None  # of the features saying nothing about the target
    p_corrected: float | None = None  # for everything the audit tested

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


def audit_cues(
    cues: Sequence[Cue],
    targets: Tensor,
    *,
    permutations: int,
    seed: int,
    progress: Progress | None = None,
) -> list[CueFinding]:
    """Probe each cue for the target; its features have one row for each of the ``targets``."""
    largest = torch.bincount(targets).argsort(descending=True, stable=True)[:CLASSES]
    rows = (testable(targets) & torch.isin(targets, largest)).nonzero().squeeze(1)
    found = []
    for cue in cues:
        (progress or Progress()).note(f"probing {cue.name}")
        found.append(_probed(cue, rows, targets[rows], permutations, seed))
    return found


def _probed(cue: Cue, rows: Tensor, targets: Tensor, permutations: int, seed: int) -> CueFinding:
    features, classes = cue.features[rows], num_present(targets)
    about: dict[str, Any] = {**cue._asdict(), "dimensions": features.shape[1]}
    del about["features"]
    if classes < 2:
        return CueFinding(**about, reason="fewer than two classes have two samples or more")
    if not standardized(features).any():
        return CueFinding(**about, reason="it is the same in every sample")
    own_seed = seed_for(seed, "cue", cue.name)
    found = probe(features, targets, permutations=permutations, seed=own_seed)
    return CueFinding(
        **about,
        balanced_accuracy=found.balanced_accuracy,
        chance=1 / classes,
        accuracy=found.accuracy,
        majority=int(torch.bincount(targets).max()) / len(targets),
        noticeable=float(found.null.quantile(0.99)),
        p=found.p,
    )
