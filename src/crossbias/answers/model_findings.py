"""Everything that is known about one model: overall, by attribute, and where it fails."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from crossbias.answers.by_value import (
    ValueNumbers,
    gaps_between,
    numbers_by_value,
    rates_by_name,
)
from crossbias.answers.intersections import Attribute, Scan, scan
from crossbias.answers.samples import BETWEEN, Samples
from crossbias.data.own.table import EncodedColumn
from crossbias.errors import CrossbiasError
from crossbias.formatting import as_json
from crossbias.types import UNKNOWN
from crossbias.verify import Estimate, Metrics, Positive


@dataclass(frozen=True, kw_only=True, eq=False)
class AttributeFindings:
    """What is known about one model by one attribute or intersection.

    Args:
        columns: The columns of the attribute.
        metrics: The metrics by (class, value) pair.
        values: The numbers of each value that has samples.
        gaps: For each number, the largest difference between two values.
    """

    columns: Attribute
    metrics: Metrics
    values: tuple[ValueNumbers, ...]
    gaps: Mapping[str, Estimate]

    @property
    def name(self) -> str:
        """The columns in words."""
        return BETWEEN.join(self.columns)

    def to_json(self) -> dict[str, Any]:
        """The findings as a JSON object."""
        return {
            "columns": list(self.columns),
            "metrics": self.metrics.to_json(),
            "values": [
                {"value": each.value, "n": each.n, **as_json(dict(each.numbers))}
                for each in self.values
            ],
            "gaps": as_json(dict(self.gaps)),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelFindings:
    """What is known about one model.

    Args:
        name: The name of the model: its column, its file, or both.
        metrics: The metrics over all samples, without an attribute.
        numbers: The numbers over all samples, by name.
        attributes: The findings by each attribute and intersection.
        scan: The groups that the model fails.
    """

    name: str
    metrics: Metrics
    numbers: Mapping[str, Estimate]
    attributes: Mapping[Attribute, AttributeFindings]
    scan: Scan

    def to_json(self) -> dict[str, Any]:
        """The findings as a JSON object."""
        return {
            "model": self.name,
            "metrics": self.metrics.to_json(),
            "numbers": as_json(dict(self.numbers)),
            "attributes": [each.to_json() for each in self.attributes.values()],
            "scan": as_json(self.scan),
        }


def judge_model(
    name: str,
    samples: Samples,
    *,
    positive: Positive | None,
    alignments: Mapping[Attribute, Tensor],
) -> ModelFindings:
    """Judge one model by every attribute of the samples.

    Args:
        name: The model.
        samples: The samples and its answers.
        positive: The class to be found.
        alignments: For each attribute of which it is known, the (classes, values) table of what
            goes along in the training data.
    """
    answers = answers_of(name, samples, positive)
    found = {}
    for attribute, column in samples.attributes.items():
        metrics = _metrics(name, samples, answers, column, positive, alignments.get(attribute))
        values = numbers_by_value(
            metrics, column, target=samples.target, answers=answers,
            cluster=samples.cluster, weight=samples.weight,
        )  # fmt: skip
        found[attribute] = AttributeFindings(
            columns=attribute, metrics=metrics, values=values, gaps=gaps_between(values)
        )
    overall = _without_attribute(name, samples, answers, positive, found)
    return ModelFindings(
        name=name,
        metrics=overall,
        numbers=_numbers(overall),
        attributes=found,
        scan=scan({attribute: each.metrics for attribute, each in found.items()}),
    )


def _without_attribute(
    name: str,
    samples: Samples,
    answers: Tensor,
    positive: Positive | None,
    found: Mapping[Attribute, AttributeFindings],
) -> Metrics:
    """The metrics over all samples; those by any attribute have the same numbers."""
    nothing = EncodedColumn(torch.full_like(answers, UNKNOWN), ())
    if not found:
        return _metrics(name, samples, answers, nothing, positive, None)
    known = next(iter(found.values())).metrics
    detection = known.detection and known.detection._replace(by_bias={})
    return replace(
        known, groups=(), biases=(), aligned_groups=(), bias_calibration=(), worst_group=None,
        unbiased=None, aligned=None, conflicting=None, demographic_parity=None,
        equalized_odds=None, detection=detection,
    )  # fmt: skip


def answers_of(name: str, samples: Samples, positive: Positive | None) -> Tensor:
    """The class that a model gives each sample, (n,), by the threshold where there is one."""
    model = samples.models[name]
    if positive is None or positive.threshold is None:
        return model.classes
    if model.probabilities is None:
        raise CrossbiasError(f"a threshold needs probabilities; {name} holds classes only")
    return positive.answers(model.probabilities, samples.classes)


def _metrics(
    name: str,
    samples: Samples,
    answers: Tensor,
    column: EncodedColumn,
    positive: Positive | None,
    alignment: Tensor | None,
) -> Metrics:
    return Metrics.from_answers(
        *(samples.target, column.numbers, answers),
        probabilities=samples.models[name].probabilities,
        alignment=alignment,
        classes=samples.classes,
        values=column.values,
        cluster=samples.cluster,
        weight=samples.weight,
        positive=positive,
    )


def _numbers(metrics: Metrics) -> dict[str, Estimate]:
    """The numbers over all samples that exist, by name."""
    found = {
        "accuracy": metrics.overall,
        "class_averaged": metrics.class_averaged,
        "calibration": metrics.calibration,
    }
    rates = rates_by_name(metrics.detection.overall) if metrics.detection else {}
    return {name: each for name, each in found.items() if each is not None and each.n} | rates
