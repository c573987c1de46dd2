"""Metrics: everything reported about a model on one split, each number with its interval."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, Final

import torch
from torch import Tensor

from crossbias import formatting
from crossbias.errors import CrossbiasError
from crossbias.types import UNKNOWN
from crossbias.verify import accuracies
from crossbias.verify.calibration import calibration_by_bias, calibration_error
from crossbias.verify.cells import Cells, Group, aligned_names, count, small_group_warning
from crossbias.verify.clusters import design_effect, design_effects, with_clusters
from crossbias.verify.detection import Detection, Positive, detect
from crossbias.verify.gaps import demographic_parity_gap, equalized_odds_gap
from crossbias.verify.intervals import NO_SAMPLES, Estimate, wilson_size
from crossbias.verify.missing import missing_warning

MOST_RATES: Final = 200_000
"""Gaps are left out where there are more rates than this: the largest of them would be noise."""

MOST_VALUES: Final = 500
"""Gaps, calibration and detection by bias are left out where there are more values than this."""

_MIX: Final = 0.02
"""Aligned and conflicting samples that differ by this much more than within a class are noted."""

_NEED_LABELS: Final = ("aligned", "conflicting", "unbiased")
_RELIABILITY: Final = ("calibration", "demographic_parity", "equalized_odds")


@dataclass(frozen=True, repr=False, kw_only=True)
class Metrics:
    """Accuracies of one model on one split, with 95% intervals.

    Numbers that need bias labels are None where no sample of the split has one. A part of the
    split without samples has the accuracy ``NO_SAMPLES``.

    Args:
        overall: Accuracy on all samples, whether their bias is known or not.
        aligned: Accuracy on the samples of aligned groups; None where nobody knows which groups
            are aligned, or where none is.
        conflicting: Accuracy on the samples of all other groups; None in the same case.
        unbiased: Mean over the groups that have samples, each counting the same.
        worst_group: The group with the lowest accuracy among those with samples; ties go to the
            first by class and then bias value. Its interval is about the lowest true accuracy of
            any group.
        per_class: Accuracy on all samples of each class.
        groups: Every (class, bias value) pair that has samples, class by class.
        classes: Names of the classes.
        biases: Names of the bias values.
        aligned_groups: For each class, the names of the bias values that are aligned with it;
            empty where nobody knows.
        class_averaged: Mean over the classes that have samples, each counting the same.
        calibration: The expected calibration error over all samples; None without probabilities.
        demographic_parity: The demographic-parity gap between bias values; None where only counts
            were kept or there are too many groups.
        equalized_odds: The equalized-odds gap between bias values; None in the same cases.
        bias_calibration: The calibration error on the samples of each bias value, in the order of
            ``biases``; empty without probabilities or with too many values.
        clusters: Number of clusters, such as patients, over which the accuracies' intervals are;
            None where samples are independent.
        effective_samples: How many independent samples of the same weight would say as much about
            the accuracy over all samples as the clusters or the weighted samples do.
        detection: How well the positive class is found; None where no class is named as positive.
        attributes: For each attribute of the data that is not the bias, the metrics with respect
            to it, which have no further attributes.
    """

    overall: Estimate
    aligned: Estimate | None
    conflicting: Estimate | None
    unbiased: Estimate | None
    worst_group: Group | None
    per_class: tuple[Estimate, ...]
    groups: tuple[Group, ...]
    classes: tuple[str, ...]
    biases: tuple[str, ...]
    aligned_groups: tuple[tuple[str, ...], ...]
    class_averaged: Estimate
    calibration: Estimate | None = None
    demographic_parity: Estimate | None = None
    equalized_odds: Estimate | None = None
    bias_calibration: tuple[Estimate, ...] = ()
    clusters: int | None = None
    effective_samples: float | None = None
    detection: Detection | None = None
    attributes: Mapping[str, "Metrics"] = field(default_factory=dict)

    def __repr__(self) -> str:
        named = {"overall": self.overall, "aligned": self.aligned, "conflicting": self.conflicting}
        shown = [f"{name} {formatting.percent(each.value)}" for name, each in named.items() if each]
        return f"<{self.overall.n:,} samples, {len(self.classes)} classes: {', '.join(shown)}>"

    @classmethod
    def from_answers(
        cls,
        targets: Tensor,
        biases: Tensor,
        answers: Tensor,
        *,
        probabilities: Tensor | None = None,
        alignment: Tensor | None,
        classes: Sequence[str],
        values: Sequence[str],
        cluster: Tensor | None = None,
        weight: Tensor | None = None,
        positive: Positive | None = None,
    ) -> "Metrics":
        """Everything that can be said about answers to samples, on the CPU.

        Args:
            targets: ``(n,)`` class numbers.
            biases: ``(n,)`` bias values, ``UNKNOWN`` where not known.
            answers: ``(n,)`` predicted class numbers.
            probabilities: ``(n, classes)`` probabilities behind the answers; calibration needs
                them.
            alignment: ``(classes, values)`` bool, true where a bias value goes along with a
                class; None where nobody knows.
            classes: Names of the classes.
            values: Names of the bias values; none where there is no bias attribute.
            cluster: ``(n,)`` which samples belong together, as those of a patient do; None where
                all are independent.
            weight: ``(n,)`` float, how much each sample counts; None where all count the same.
            positive: The class to be found, for sensitivity, specificity and what goes with them.
        """
        sizes = {"num_classes": len(classes), "num_biases": len(values)}
        cells = Cells.from_answers(
            targets, biases, answers, alignment=alignment, classes=classes, values=values
        )
        alike = cluster is None and weight is None
        weight = None if weight is None else weight.double() / weight.double().mean()
        effect = 1.0 if alike else design_effect(answers == targets, cluster, weight)
        found: dict[str, Any] = {}
        few = len(values) <= MOST_VALUES and len(classes) ** 2 * len(values) <= MOST_RATES
        if cells.labeled and few:
            counts = count(targets, biases, answers, **sizes, weight=weight)
            by_value = by_group = None
            if not alike:
                parts = len(classes) * len(values)
                group = torch.where(biases == UNKNOWN, UNKNOWN, targets * len(values) + biases)
                by_value = design_effects(answers, biases, len(values), cluster, weight)
                by_group = design_effects(answers, group, parts, cluster, weight)
                by_group = by_group.view(len(classes), len(values))
            found["demographic_parity"] = demographic_parity_gap(counts, effects=by_value)
            found["equalized_odds"] = equalized_odds_gap(counts, effects=by_group)
        if probabilities is not None:
            found["calibration"] = calibration_error(
                probabilities, targets, effect=effect, weight=weight
            )
            if cells.labeled and len(values) <= MOST_VALUES:
                of_values = None
                if not alike:
                    right = (answers == targets).long()
                    of_values = design_effects(right, biases, len(values), cluster, weight)
                found["bias_calibration"] = calibration_by_bias(
                    probabilities, targets, biases, len(values), effects=of_values, weight=weight
                )
        if positive is not None:
            found["detection"] = detect(
                targets, biases, answers, probabilities, positive=positive, classes=classes,
                values=values if len(values) <= MOST_VALUES else (), cluster=cluster, weight=weight,
            )  # fmt: skip
        metrics = replace(cls.from_cells(cells, alignment), **found)
        if alike:
            return metrics
        return with_clusters(metrics, targets, biases, answers, cluster, weight)

    @classmethod
    def from_counts(
        cls, counts: Tensor, *, alignment: Tensor, classes: Sequence[str], biases: Sequence[str]
    ) -> "Metrics":
        """The accuracies, from counts alone, summed over batches and processes.

        Arguments as for ``Cells.from_counts``.
        """
        names = {"classes": classes, "biases": biases}
        return cls.from_cells(Cells.from_counts(counts, alignment=alignment, **names), alignment)

    @classmethod
    def from_cells(cls, cells: Cells, alignment: Tensor | None) -> "Metrics":
        """The accuracies, from the cells alone; ``alignment`` is as for ``from_answers``."""
        told = alignment is not None and bool(alignment.any()) and cells.labeled
        return cls(
            overall=accuracies.overall(cells),
            aligned=accuracies.aligned(cells) if told else None,
            conflicting=accuracies.conflicting(cells) if told else None,
            unbiased=accuracies.unbiased(cells) if cells.labeled else None,
            worst_group=accuracies.worst_group(cells) if cells.labeled else None,
            per_class=accuracies.per_class(cells),
            groups=accuracies.by_group(cells),
            classes=cells.classes,
            biases=cells.biases,
            aligned_groups=() if alignment is None else aligned_names(alignment, cells.biases),
            class_averaged=accuracies.class_averaged(cells),
        )

    @property
    def by_group(self) -> tuple[tuple[Estimate, ...], ...]:
        """The accuracy of each group as a matrix, (classes, biases), ``NO_SAMPLES`` if empty.

        With many classes and values, most of it is empty; ``groups`` lists the others.
        """
        found = {(group.target, group.bias): group.accuracy for group in self.groups}
        return tuple(
            tuple(found.get((target, bias), NO_SAMPLES) for bias in self.biases)
            for target in self.classes
        )

    @property
    def associated(self) -> bool:
        """Whether at least one group is known to be aligned."""
        return any(self.aligned_groups)

    @property
    def association_note(self) -> str | None:
        """That no group is aligned, because training associates nothing; None otherwise."""
        if self.associated or not (self.groups and self.aligned_groups):
            return None
        return (
            "no value is associated with a class in training, so no sample is aligned or "
            "conflicting"
        )

    @property
    def worst_of(self) -> str:
        """What the worst group is the worst of: it is the lower, the more groups there are."""
        present = len(self.groups)
        return "only group" if present == 1 else f"worst of {present} groups"

    @property
    def worst_note(self) -> str | None:
        """What the interval of the worst group is about; None for fewer than two groups."""
        if len(self.groups) < 2:
            return None
        return (
            "The interval of the worst group is about the lowest true accuracy of any group, "
            "whichever it is"
        )

    @property
    def cells(self) -> Cells:
        """The samples and right answers behind the accuracies.

        No group is marked as aligned where nobody knows which ones are.
        """
        of_class, of_bias = (
            {name: place for place, name in enumerate(names)}
            for names in (self.classes, self.biases)
        )
        aligned = [set(names) for names in self.aligned_groups] or [set()] * len(self.classes)
        listed: list[tuple[int, int, int, int, bool]] = []
        unknown = [[part.n, _right(part)] for part in self.per_class]
        for group in self.groups:
            target, n, right = of_class[group.target], group.accuracy.n, _right(group.accuracy)
            listed.append((target, of_bias[group.bias], right, n, group.bias in aligned[target]))
            unknown[target][0] -= n
            unknown[target][1] -= right
        # The samples of a class that are in none of its groups have an unknown bias.
        listed += [(row, UNKNOWN, right, n, False) for row, (n, right) in enumerate(unknown) if n]
        table = torch.tensor(sorted(listed), dtype=torch.int64).view(-1, 5)
        return Cells(
            target=table[:, 0], bias=table[:, 1], correct=table[:, 2], total=table[:, 3],
            aligned=table[:, 4] > 0, classes=self.classes, biases=self.biases,
        )  # fmt: skip

    @property
    def cell_effects(self) -> Tensor:
        """How many samples of each of ``cells`` say as much as an independent one; float."""
        known = {(group.target, group.bias): group.accuracy for group in self.groups}
        cells = self.cells
        effects = torch.ones(len(cells.total), dtype=torch.float64)
        for place, (target, bias) in enumerate(
            zip(cells.target.tolist(), cells.bias.tolist(), strict=True)
        ):
            if bias != UNKNOWN:
                share = known[self.classes[target], self.biases[bias]]
                effects[place] = share.n / max(wilson_size(share), 1e-9)
        return effects.clamp(min=1.0)

    @property
    def warning(self) -> str | None:
        """What to know before reading the numbers of groups, if anything.

        Groups may be small, and the bias label may be missing more often in some classes.
        """
        known, total = dict.fromkeys(self.classes, 0), [part.n for part in self.per_class]
        for group in self.groups:
            known[group.target] += group.accuracy.n
        missing = [n - found for n, found in zip(total, known.values(), strict=True)]
        size = self.overall.n / self.clusters if self.clusters else 1.0
        unknown = missing_warning("the bias label", missing, total, self.classes, effect=size)
        return "; ".join(filter(None, [small_group_warning(self.groups), unknown])) or None

    @property
    def class_mix_note(self) -> str | None:
        """Where the classes explain why aligned and conflicting samples differ (Simpson's paradox).

        None where the difference is about the same within a class, or where there is none to see.
        """
        within = self._gap_within_classes()
        if within is None or not (self.aligned and self.conflicting):
            return None
        gap = self.aligned.value - self.conflicting.value
        if abs(gap - within) < _MIX:
            return None
        return (
            f"accuracy on aligned samples minus that on conflicting ones is {100 * gap:+.1f} "
            f"points, but {100 * within:+.1f} points within a class: the classes differ in how "
            f"hard they are and in how many of their samples conflict"
        )

    def _gap_within_classes(self) -> float | None:
        """The value of ``gap_within_classes``; None if no class has samples of both kinds."""
        sums: dict[tuple[str, bool], list[float]] = {}
        aligned = dict(zip(self.classes, self.aligned_groups, strict=False))
        for target, bias, accuracy in self.groups:
            part = sums.setdefault((target, bias in aligned.get(target, ())), [0.0, 0.0])
            part[0] += accuracy.value * accuracy.n
            part[1] += accuracy.n
        both = [
            (sums[target, True], sums[target, False])
            for target in self.classes
            if (target, True) in sums and (target, False) in sums
        ]
        conflicting = sum(against[1] for _, against in both)
        if not conflicting:
            return None
        return sum(
            against[1] / conflicting * (with_bias[0] / with_bias[1] - against[0] / against[1])
            for with_bias, against in both
        )

    @property
    def design_effect(self) -> float:
        """How many samples say as much as an independent one; 1 without clusters and weights."""
        if self.effective_samples is None:
            return 1.0
        return max(1.0, self.overall.n / self.effective_samples)

    @property
    def cluster_note(self) -> str | None:
        """What clusters mean for the intervals over samples; None without clusters."""
        if self.clusters is None or self.effective_samples is None:
            return None
        return (
            f"The {self.overall.n:,} samples are in {self.clusters:,} clusters and say as much "
            f"about the overall accuracy as {max(1, round(self.effective_samples)):,} independent "
            f"samples. Intervals over samples take that into account"
        )

    def summary(self) -> dict[str, float]:
        """The accuracies that exist, as plain numbers by name."""
        worst = self.worst_group and self.worst_group.accuracy
        named = {
            "accuracy": self.overall,
            "class_averaged": self.class_averaged,
            **self._by_label(),
            "worst_group": worst,
        }
        return {name: part.value for name, part in named.items() if part is not None and part.n}

    def to_json(self) -> dict[str, Any]:
        """The metrics as a JSON object, null where a number does not exist.

        Groups without samples are counted, not listed: with many classes and values most are.
        """
        of_classes = zip(self.classes, self.per_class, strict=True)
        per_class = [{"target": name, **accuracy.to_json()} for name, accuracy in of_classes]
        empty = {"empty_groups": len(self.classes) * len(self.biases) - len(self.groups)}
        fields = {**vars(self), "per_class": per_class}
        found: dict[str, Any] = {**formatting.as_json(fields), **empty}
        if self.detection is None:  # only where a class is named as positive
            del found["detection"]
        return found

    def _by_label(self) -> dict[str, Estimate | None]:
        return {name: getattr(self, name) for name in _NEED_LABELS}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Metrics":
        """The metrics of a JSON object that ``to_json`` made, exactly.

        Raises:
            CrossbiasError: The object is not one that ``to_json`` made.
        """
        try:
            metrics = cls(**_parts(value))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CrossbiasError(f"these are not metrics of a split: {error!r}") from error
        rows = len(metrics.classes)
        if len(metrics.per_class) != rows or len(metrics.aligned_groups) not in (rows, 0):
            raise CrossbiasError("these are not metrics of a split: its tables differ in size")
        return metrics

    def _repr_html_(self) -> str:
        """The accuracies as a small table, which a notebook shows."""
        named = {"overall": self.overall, **self._by_label()}
        if self.worst_group is not None:
            target, bias, accuracy = self.worst_group
            named[f"{self.worst_of} ({target}, {bias})"] = accuracy
        rows = [_html_row(name, part) for name, part in named.items() if part is not None]
        titles = "<th></th><th>accuracy</th><th>95% interval</th><th>samples</th>"
        return f"<table><tr>{titles}</tr>{''.join(rows)}</table>"


def judged_split(splits: Iterable[str]) -> str | None:
    """``test``, or else the first split used neither to train nor to choose; None without one.

    >>> judged_split(["train", "validation", "unseen", "test"]), judged_split(["validation"])
    ('test', None)
    """
    judged = [split for split in splits if split not in ("train", "validation")]
    return "test" if "test" in judged else next(iter(judged), None)


def _right(accuracy: Estimate) -> int:
    """The number of right answers behind an accuracy."""
    return round(accuracy.value * accuracy.n) if accuracy.n else 0


def _parts(value: Mapping[str, Any]) -> dict[str, Any]:
    """The constructor's arguments, from what ``Metrics.to_json`` made."""
    optional = {name: value[name] for name in (*_NEED_LABELS, *_RELIABILITY)}
    worst = value["worst_group"]
    return {
        "overall": Estimate.from_json(value["overall"]),
        **{n: None if part is None else Estimate.from_json(part) for n, part in optional.items()},
        "worst_group": None if worst is None else Group.from_json(worst),
        "per_class": tuple(map(Estimate.from_json, value["per_class"])),
        "groups": _groups_of(value),
        "classes": tuple(value["classes"]),
        "biases": tuple(value["biases"]),
        "aligned_groups": tuple(map(tuple, value["aligned_groups"])),
        "class_averaged": Estimate.from_json(value["class_averaged"]),
        "bias_calibration": tuple(map(Estimate.from_json, value["bias_calibration"])),
        **{name: _size(value, name) for name in ("clusters", "effective_samples")},
        "detection": Detection.from_json(value["detection"]) if "detection" in value else None,
        "attributes": {n: Metrics.from_json(part) for n, part in value["attributes"].items()},
    }


def _size(value: Mapping[str, Any], name: str) -> Any:
    """A positive number of a split; None where it has none."""
    size = value[name]
    if size is not None and (isinstance(size, bool) or not size > 0):
        raise ValueError(f"its {name} cannot be {size!r}")
    return size


def _groups_of(value: Mapping[str, Any]) -> tuple[Group, ...]:
    """The listed groups, after checking that there can be such."""
    groups = tuple(map(Group.from_json, value["groups"]))
    named = {(group.target, group.bias) for group in groups}
    targets, biases = (set(value[key]) for key in ("classes", "biases"))
    pairs = len(value["classes"]) * len(value["biases"])
    if pairs - len(named) != value["empty_groups"] or len(named) < len(groups):
        raise ValueError("its groups are not as many as it says")
    aligned = {name for names in value["aligned_groups"] for name in names}
    if not all(target in targets and bias in biases for target, bias in named) or aligned - biases:
        raise ValueError("its groups are not those of its classes and bias values")
    if not all(group.accuracy.n for group in groups):
        raise ValueError("it lists a group without samples")
    return groups


def _html_row(name: str, part: Estimate) -> str:
    limits = formatting.percent_range(part.low, part.high) if part.n else formatting.DASH
    cells = (formatting.percent(part.value), limits, formatting.count(part.n))
    return f"<tr><th>{escape(name)}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
