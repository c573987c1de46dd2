"""How well one class, named as the positive one, is told from all others."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.formatting import percent
from crossbias.parameters import unknown
from crossbias.verify.clusters import design_effect
from crossbias.verify.intervals import Estimate
from crossbias.verify.positives import (
    auc,
    brier_score,
    calibration_slope,
    predictive_values,
)
from crossbias.verify.thresholds import Labeled, Threshold, answers_at, chosen_threshold


class Positive(NamedTuple):
    """The class that a model is to find, such as a disease, and how its answers are read."""

    name: str
    prevalence: float | None = None  # where the model will be used; None: that of the samples
    threshold: Threshold | None = None  # None: a sample is called what is most probable

    @classmethod
    def wanted(
        cls,
        name: str | None,
        classes: Sequence[str],
        *,
        prevalence: float | None = None,
        threshold: float | str | None = None,
        validation: Labeled | None = None,
    ) -> "Positive | None":
        """The positive class by its name, with the threshold chosen where a rule is given.

        Args:
            name: One of the classes; None where none is named.
            classes: Names of the classes.
            prevalence: Share of the class where the model will be used, for PPV and NPV.
            threshold: As for ``chosen_threshold``.
            validation: Samples on which a rule chooses.
        """
        if name is None:
            if prevalence is not None or threshold is not None:
                raise CrossbiasError(
                    f"a prevalence and a threshold are about one class; name it as positive (one "
                    f"of {', '.join(classes)})"
                )
            return None
        place = place_of(name, classes)
        found = None if threshold is None else chosen_threshold(threshold, place, validation)
        return cls(name, prevalence, found)

    def answers(self, probabilities: Tensor, classes: Sequence[str]) -> Tensor:
        """The class number that each sample is given, (n,)."""
        if self.threshold is None:
            return probabilities.argmax(1)
        return answers_at(probabilities, place_of(self.name, classes), self.threshold.value)


class DetectionRates(NamedTuple):
    """Rates, ranking and probabilities on some samples; the last four need probabilities."""

    prevalence: float  # to which PPV and NPV refer
    sensitivity: Estimate  # share of the samples of the class that are called so
    specificity: Estimate  # share of the other samples that are not
    ppv: Estimate
    npv: Estimate
    auc: Estimate | None
    brier: Estimate | None
    slope: Estimate | None  # of the calibration; None also where it does not exist
    intercept: Estimate | None


class Detection(NamedTuple):
    """How well the positive class is found, on all samples and on those of each bias value."""

    positive: Positive
    overall: DetectionRates
    by_bias: Mapping[str, DetectionRates]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Detection":
        """The detection of a JSON object that ``formatting.as_json`` made."""
        name, prevalence, threshold = (
            value["positive"][part] for part in ("name", "prevalence", "threshold")
        )
        return cls(
            Positive(name, prevalence, threshold and Threshold(**threshold)),
            _rates_from_json(value["overall"]),
            {bias: _rates_from_json(rates) for bias, rates in value["by_bias"].items()},
        )


def detect(
    targets: Tensor,
    biases: Tensor,
    answers: Tensor,
    probabilities: Tensor | None,
    *,
    positive: Positive,
    classes: Sequence[str],
    values: Sequence[str],
    cluster: Tensor | None = None,
    weight: Tensor | None = None,
) -> Detection:
    """How well the positive class is found. Arguments as for ``Metrics.from_answers``."""
    place = place_of(positive.name, classes)
    truth, called = targets == place, answers == place
    scores = None if probabilities is None else probabilities[:, place]

    def on(rows: Tensor) -> DetectionRates:
        further = [None if part is None else part[rows] for part in (scores, cluster, weight)]
        return _rates(truth[rows], called[rows], *further, prevalence=positive.prevalence)

    by_bias = {name: on(biases == number) for number, name in enumerate(values)}
    return Detection(positive, on(torch.ones_like(truth)), by_bias)


def place_of(name: str, classes: Sequence[str]) -> int:
    """The number of the positive class.

    >>> place_of("ill", ["healthy", "ill"])
    1
    """
    if name not in classes:
        raise unknown("there is no class", name, classes, "the classes are")
    return list(classes).index(name)


def about_detection(positive: Positive) -> list[str]:
    """How the answers were made, and for which population PPV and NPV hold."""
    threshold = positive.threshold
    called = (
        f"A sample is called {positive.name} if that is its most probable class."
        if threshold is None
        else f"A sample is called {positive.name} from a probability of {threshold.value:.4g} "
        f"({threshold.origin}); all accuracies above follow it."
    )
    population = (
        f"PPV and NPV hold where {positive.name} is as frequent as in the samples of the row; "
        f"--prevalence gives another share."
        if positive.prevalence is None
        else f"PPV and NPV hold where {percent(positive.prevalence)} are {positive.name}."
    )
    return [called, population]


class _Called(NamedTuple):
    """How many samples of one kind are called what they are, and what a sample says."""

    right: float  # not whole where samples have weights
    n: int
    effect: float  # so many samples say as much as an independent one

    @classmethod
    def of(
        cls, right: Tensor, rows: Tensor, cluster: Tensor | None, weight: Tensor | None
    ) -> "_Called":
        """From whether each of the samples at ``rows`` is called right."""
        if not len(right):
            return cls(0, 0, 1.0)
        together = None if cluster is None else cluster[rows]
        own = None if weight is None else weight[rows]
        share = float(right.double().mean())
        if own is not None:
            share = min(1.0, float(own @ right.double() / own.sum()))
        alike = together is None and own is None
        effect = 1.0 if alike else design_effect(right, together, own)
        return cls(len(right) * share, len(right), effect)


def _rates(
    truth: Tensor,
    called: Tensor,
    scores: Tensor | None,
    cluster: Tensor | None,
    weight: Tensor | None,
    *,
    prevalence: float | None,
) -> DetectionRates:
    parts = [(rows, (called == truth)[rows]) for rows in (truth, ~truth)]
    found, cleared = (_Called.of(right, rows, cluster, weight) for rows, right in parts)
    if weight is not None and prevalence is None and found.n and cleared.n:
        prevalence = float(weight[truth].sum() / weight.sum())
    known = predictive_values(
        found.right, found.n, cleared.right, cleared.n, prevalence=prevalence,
        effects=(found.effect, cleared.effect),
    )  # fmt: skip
    if scores is None:
        return DetectionRates(*known, None, None, None, None)
    known_about = {"cluster": cluster, "weight": weight}
    slope = calibration_slope(scores, truth, **known_about)
    return DetectionRates(
        *known,
        auc=auc(scores, truth, **known_about),
        brier=brier_score(scores, truth, **known_about),
        slope=slope and slope.slope,
        intercept=slope and slope.intercept,
    )


def _rates_from_json(value: Mapping[str, Any]) -> DetectionRates:
    estimates = {
        name: None if part is None else Estimate.from_json(part)
        for name, part in value.items()
        if name != "prevalence"
    }
    return DetectionRates(value["prevalence"], **estimates)  # type: ignore[arg-type]
