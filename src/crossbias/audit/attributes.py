"""Each attribute against the target: association, how well it predicts, counts."""

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from crossbias.audit.association import strength_of
from crossbias.audit.folds import fitting_folds, num_present, stratified_folds, usable
from crossbias.data.dataset import BiasedDataset
from crossbias.formatting import as_json
from crossbias.seeds import generator_for, seed_for
from crossbias.types import UNKNOWN
from crossbias.verify import Estimate
from crossbias.verify.clusters import share_of

_SMALLEST: Final = 5  # groups that are listed


@dataclass(frozen=True, kw_only=True)
class AttributeFinding:
    """How one attribute is associated with the target."""

    name: str
    values: tuple[str, ...]
    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]  # samples of each class and value; unknown ones left out
    reason: str = ""  # why the attribute could not be tested; empty if it was
    cramers_v: Estimate | None = None  # adjusted for chance
    mutual_information: float | None = None  # normalized, adjusted for chance
    accuracy: Estimate | None = None  # of predicting the target from it alone, cross-validated
    majority: float | None = None  # accuracy of always answering the largest class
    balanced_accuracy: float | None = None  # mean of the classes' recalls of the same prediction
    chance: float | None = None  # balanced accuracy of guessing
    detectable: float | None = None  # Cramer's V that is found with a probability of 80%
    p: float | None = None  # of independence
    p_corrected: float | None = None  # for everything the audit tested

    @property
    def solved(self) -> float | None:
        """The share of the way from always answering the largest class to perfect accuracy.

        None where the attribute is not clearly better than that class.
        """
        if self.accuracy is None or self.majority is None or self.accuracy.low <= self.majority:
            return None
        return (self.accuracy.value - self.majority) / (1 - self.majority)

    @property
    def smallest(self) -> list[tuple[str, str, int]]:
        """Class, value and size of the smallest groups, smallest first."""
        groups = [
            (name, value, size)
            for name, row in zip(self.classes, self.counts, strict=True)
            for value, size in zip(self.values, row, strict=True)
        ]
        return sorted(groups, key=lambda group: group[2])[:_SMALLEST]

    def to_json(self) -> dict[str, Any]:
        """The finding as ``audit.json`` has it."""
        found = as_json(vars(self))
        reason = found.pop("reason") or None
        return {
            "name": found.pop("name"),
            "known": sum(map(sum, self.counts)),
            **found,
            "smallest": [{"target": t, "bias": b, "n": n} for t, b, n in self.smallest],
            "reason": reason,
        }


def audit_attributes(
    data: BiasedDataset, *, permutations: int, seed: int, tests: int = 1
) -> list[AttributeFinding]:
    """Test every attribute of a data set against its target; the audit makes so many tests."""
    return [_audited(data, name, permutations, tests, seed) for name in data.attributes]


def _audited(
    data: BiasedDataset, name: str, permutations: int, tests: int, seed: int
) -> AttributeFinding:
    known = data.attributes[name] != UNKNOWN
    targets, values = data.targets[known], data.attributes[name][known]
    cluster = None if data.cluster is None else data.cluster[known]
    shape = (data.num_classes, len(data.values[name]))
    cells = torch.bincount(targets * shape[1] + values, minlength=shape[0] * shape[1]).view(shape)
    about: dict[str, Any] = {
        "name": name,
        "values": data.values[name],
        "classes": data.classes,
        "counts": tuple(tuple(row) for row in cells.tolist()),
    }
    reason = _reason(targets, values)
    if reason:
        return AttributeFinding(**about, reason=reason)
    strength = strength_of(
        targets, values, shape=shape, permutations=permutations, tests=tests, cluster=cluster,
        seed=seed_for(seed, "association", name),
    )  # fmt: skip
    accuracy, balanced = _predicted_from_value(targets, values, shape, seed, cluster)
    return AttributeFinding(
        **about,
        **strength._asdict(),
        accuracy=accuracy,
        majority=int(cells.sum(1).max()) / len(targets),
        balanced_accuracy=balanced,
        chance=1 / int((cells.sum(1) > 0).sum()),
    )


def _reason(targets: Tensor, values: Tensor) -> str:
    if not len(values):
        return "none of its values is known"
    if num_present(values) < 2:
        return "all samples with a known value have the same one"
    if num_present(targets) < 2:
        return "all samples with a known value are of one class"
    return ""


def _predicted_from_value(
    targets: Tensor,
    values: Tensor,
    shape: tuple[int, int],
    seed: int,
    cluster: Tensor | None,
) -> tuple[Estimate | None, float | None]:
    """Cross-validated accuracy and balanced accuracy of predicting the target from the value.

    Both are None if fewer than two classes have two samples, or clusters, or more.
    """
    kept = usable(targets, cluster)
    targets, values = targets[kept], values[kept]
    cluster = None if cluster is None else cluster[kept]
    if num_present(targets) < 2:
        return None, None
    folds, draw = fitting_folds(targets, cluster), generator_for(seed, "folds")
    fold = stratified_folds(targets, folds=folds, generator=draw, cluster=cluster)
    plain, balanced = torch.empty_like(targets), torch.empty_like(targets)
    for number in range(folds):
        train, test = fold != number, fold == number
        cells = targets[train] * shape[1] + values[train]
        table = torch.bincount(cells, minlength=shape[0] * shape[1]).view(shape).double()
        sizes = table.sum(1, keepdim=True)
        # The class's own size breaks ties, and decides for values that were never seen.
        plain[test] = (table + 1e-6 * sizes / sizes.sum()).argmax(0)[values[test]]
        balanced[test] = (table / sizes.clamp(min=1)).argmax(0)[values[test]]
    sizes = torch.bincount(targets).double()
    right = torch.bincount(targets[balanced == targets], minlength=len(sizes)).double()
    mean_recall = float((right[sizes > 0] / sizes[sizes > 0]).mean())
    return share_of(plain == targets, cluster), mean_recall
