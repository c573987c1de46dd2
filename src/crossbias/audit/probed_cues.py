"""How much of the task each cheap cue solves by itself."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from crossbias.audit.association import AIM
from crossbias.audit.cues import Cue
from crossbias.audit.folds import num_present, usable
from crossbias.audit.permutation import ALARM
from crossbias.audit.probe import probe, standardized
from crossbias.data.dataset import BiasedDataset
from crossbias.formatting import as_json
from crossbias.progress import Progress
from crossbias.seeds import seed_for
from crossbias.types import UNKNOWN
from crossbias.verify import Estimate
from crossbias.verify.clusters import share_of

CLASSES: Final = 50  # cues are probed on at most this many classes, the largest ones


class CueByAttribute(NamedTuple):
    """How often a cue is right where an attribute matches the class, and where it conflicts."""

    attribute: str
    aligned: Estimate
    conflicting: Estimate

    @property
    def follows(self) -> bool:
        """Whether the cue is clearly worse where the attribute conflicts (Newcombe's interval)."""
        (high, least, *_), (low, _, most, _) = self.aligned, self.conflicting
        return high - low > math.hypot(high - least, most - low)


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
    detectable: float | None = None  # balanced accuracy that is found with a probability of 80%
    p: float | None = None  # of the features saying nothing about the target
    p_corrected: float | None = None  # for everything the audit tested
    by_attribute: tuple[CueByAttribute, ...] = ()  # for attributes with samples of both kinds

    @property
    def solved(self) -> float | None:
        """The share of the way from chance to perfect."""
        if self.balanced_accuracy is None or self.chance is None:
            return None
        return max(0.0, (self.balanced_accuracy - self.chance) / (1 - self.chance))

    def to_json(self) -> dict[str, Any]:
        """The finding as ``audit.json`` has it."""
        names = ["name", "what", "dimensions", "balanced_accuracy", "chance", "accuracy"]
        names += ["majority", "solved", "detectable", "p", "p_corrected"]
        return {name: getattr(self, name) for name in names} | {
            "by_attribute": as_json(self.by_attribute), "reason": self.reason or None,
        }  # fmt: skip


def audit_cues(
    cues: Sequence[Cue],
    data: BiasedDataset,
    *,
    permutations: int,
    seed: int,
    tests: int = 1,
    progress: Progress | None = None,
) -> list[CueFinding]:
    """Probe each cue for the target; its features have one row for each sample of the data.

    ``tests`` is the number of tests of the whole audit.
    """
    targets = data.targets
    largest = torch.bincount(targets).argsort(descending=True, stable=True)[:CLASSES]
    kept = usable(targets, data.cluster) & torch.isin(targets, largest)
    rows = kept.nonzero().squeeze(1)
    found = []
    for cue in cues:
        (progress or Progress()).note(f"probing {cue.name}")
        found.append(_probed(cue, rows, data, permutations, tests, seed))
    return found


def _probed(
    cue: Cue, rows: Tensor, data: BiasedDataset, permutations: int, tests: int, seed: int
) -> CueFinding:
    targets = data.targets[rows]
    features, classes = cue.features[rows], num_present(targets)
    about: dict[str, Any] = {**cue._asdict(), "dimensions": features.shape[1]}
    del about["features"]
    if classes < 2:
        unit = "samples" if data.cluster is None else "clusters"
        return CueFinding(**about, reason=f"fewer than two classes have two {unit} or more")
    if not standardized(features).any():
        return CueFinding(**about, reason="it is the same in every sample")
    own_seed = seed_for(seed, "cue", cue.name)
    cluster = _in(data.cluster, rows)
    found = probe(features, targets, permutations=permutations, seed=own_seed, cluster=cluster)
    return CueFinding(
        **about,
        balanced_accuracy=found.balanced_accuracy,
        chance=1 / classes,
        accuracy=found.accuracy,
        majority=int(torch.bincount(targets).max()) / len(targets),
        detectable=detectable_score(found.null, tests=tests),
        p=found.p,
        by_attribute=tuple(_by_attribute(data, rows, found.right)),
    )


def detectable_score(null: Tensor, *, tests: int) -> float:
    """The score that is found with the probability ``POWER`` after the correction.

    A score is found above the quantile of the null at which Holm's correction begins. At the
    detectable score, the share ``AIM`` of samples of this size give more. Both are those of a
    normal distribution as wide as the null.

    Args:
        null: ``(permutations,)`` scores of shuffled labels.
        tests: Number of tests of the audit.
    """
    normal = NormalDist()
    steps = normal.inv_cdf(1 - ALARM / tests) + normal.inv_cdf(AIM)
    return min(1.0, float(null.mean() + steps * null.std()))


def _by_attribute(data: BiasedDataset, rows: Tensor, right: Tensor) -> Iterator[CueByAttribute]:
    cluster = _in(data.cluster, rows)
    for name, column in data.attributes.items():
        values, targets = column[rows], data.targets[rows]
        known = values != UNKNOWN
        aligned = data.with_bias(name).alignment()[targets, values]
        kinds = [known & aligned, known & ~aligned]
        if all(bool(kind.any()) for kind in kinds):
            yield CueByAttribute(
                name, *(share_of(right[kind], _in(cluster, kind)) for kind in kinds)
            )


def _in(cluster: Tensor | None, chosen: Tensor) -> Tensor | None:
    return None if cluster is None else cluster[chosen]
