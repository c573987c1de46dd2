"""Each attribute against the target: association, how well it predicts, counts."""

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from crossbias.audit.association import strength_of
from crossbias.audit.folds import fitting_folds, num_present, stratified_folds, testable
from crossbias.data.dataset import BiasedDataset
from crossbias.seeds import generator_for, seed_for
from crossbias.types import UNKNOWN
from crossbias.verify import Estimate, wilson

_SMALLEST: Final = 5  # groups that are listed


@dataclass(frozen=True, kw_only=True)
class AttributeFinding:
    """How one attribute is associated with the target.

    Args:
        name: Name of the attribute.
        values: Names of its values.
        classes: Names of the classes.
        counts: For each class and each value, the number of samples; samples whose value is not
            known are left out.
        reason: Why the attribute could not be tested; empty if it was.
        cramers_v: Cramer's V with Bergsma's correction.
        mutual_information: Mutual information divided by the mean of the two entropies.
        accuracy: Accuracy of predicting the target from the attribute alone, cross-validated.
        majority: Accuracy of always answering the largest class.
        balanced_accuracy: Mean of the classes' recalls of the same prediction.
        chance: Balanced accuracy of guessing.
        p: P-value of independence.
        p_corrected: P-value corrected for everything the audit tested.
    """

    name: str
    values: tuple[str, ...]
    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    reason: str = ""
    cramers_v: Estimate | None = None
    mutual_information: Estimate | None = None
    accuracy: Estimate | None = None
    majority: float | None = None
    balanced_accuracy: float | None = None
    chance: float | None = None
    p: float | None = None
    p_corrected: float | None = None

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
        estimates = ("cramers_v", "mutual_information", "accuracy")
        numbers = ("majority", "balanced_accuracy", "chance", "p", "p_corrected")
        found = {name: getattr(self, name) for name in estimates}
        return {
            "name": self.name,
            "known": sum(map(sum, self.counts)),
            "values": list(self.values),
            "classes": list(self.classes),
            "counts": [list(row) for row in self.counts],
            **{name: value and value.to_json() for name, value in found.items()},
            **{name: getattr(self, name) for name in numbers},
            "smallest": [{"target": t, "bias": b, "n": n} for t, b, n in self.smallest],
            "reason": self.reason or None,
        }


def audit_attributes(
    data: BiasedDataset, *, permutations: int, seed: int
) -> list[AttributeFinding]:
    """Test every attribute of a data set against its target."""
    return [_audited(data, name, permutations, seed) for name in data.attributes]


def _audited(data: BiasedDataset, name: str, permutations: int, seed: int) -> AttributeFinding:
    known = data.attributes[name] != UNKNOWN
    targets, values = data.targets[known], data.attributes[name][known]
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
        targets, values, shape=shape, permutations=permutations,
        seed=seed_for(seed, "association", name),
    )  # fmt: skip
    accuracy, balanced = _predicted_from_value(targets, values, shape, seed)
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
    targets: Tensor, values: Tensor, shape: tuple[int, int], seed: int
) -> tuple[Estimate | None, float | None]:
    """Cross-validated accuracy and balanced accuracy of predicting the target from the value.

    Both are None if fewer than two classes have two samples or more.

    Args:
        targets: ``(n,)`` class numbers.
        values: ``(n,)`` attribute values, all known.
        shape: Number of classes and of values.
        seed: Seed of the folds.
    """
    usable = testable(targets)
    targets, values = targets[usable], values[usable]
    if num_present(targets) < 2:
        return None, None
    folds = fitting_folds(targets)
    fold = stratified_folds(targets, folds=folds, generator=generator_for(seed, "folds"))
    plain, balanced = torch.empty_like(targets), torch.empty_like(targets)
    for number in range(folds):
        train, test = fold != number, fold == number
        cells = targets[train] * shape[1] + values[train]
        table = torch.bincount(cells, minlength=shape[0] * shape[1]).view(shape).double()
        sizes = table.sum(1, keepdim=True)
        # The class's own size breaks ties, and decides for values that were never seen.
        plain[test] = (table + 1e-6 * sizes / sizes.sum()).argmax(0)[values[test]]
        balanced[test] = (table / sizes.clamp(min=1)).argmax(0)[values[test]]
    return wilson(int((plain == targets).sum()), len(targets)), _mean_recall(targets, balanced)


def _mean_recall(targets: Tensor, answers: Tensor) -> float:
    """The mean recall of the classes that are present."""
    sizes = torch.bincount(targets).double()
    right = torch.bincount(targets[answers == targets], minlength=len(sizes)).double()
    return float((right[sizes > 0] / sizes[sizes > 0]).mean())
