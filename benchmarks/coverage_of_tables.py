"""Coverage of every interval that ``crossbias verify FILE`` prints, on simulated tables.

Two models score samples of two classes from several hospitals. Scores are normal, so that the truth
about every number is known. ``python -m benchmarks.coverage`` runs this.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm

from crossbias import verify_table
from crossbias.answers.by_value import within_class
from crossbias.answers.grids_of_answers import TITLES
from crossbias.answers.model_findings import ModelFindings
from crossbias.seeds import seed_for
from crossbias.verify import Estimate

Draw = np.random.Generator
Columns = dict[str, np.ndarray]
Found = tuple[str, Estimate | None, float | None]  # a name, an interval, and the truth if known

POSITIVE, NEGATIVE = "ill", "well"
BETTER = 0.3  # how much farther apart the second model's scores are
HEAVY = 2.0  # weight of positive samples, and of those of the first hospital


class Tables(NamedTuple):
    """How tables are drawn. A patient has one class and one hospital."""

    patients: int
    hospitals: tuple[float, ...] = (0.5, 0.5)  # shares of the patients
    distances: tuple[float, ...] = (1.5,)  # of the classes' scores, in each hospital or in all
    prevalence: float = 0.4
    images: str = "one"  # of each patient: one, five or uneven
    alike: float = 0.0  # share of the variance of a score that is the patient's
    weighted: bool = False
    validation: int = 0  # patients on whom a rule chooses the threshold

    @property
    def prior(self) -> float:
        """The share of positive samples, by weight."""
        ill = self.prevalence * (HEAVY if self.weighted else 1.0)
        return ill / (ill + 1 - self.prevalence)

    def shares(self) -> np.ndarray:
        """The share of each hospital, by weight."""
        heavy = np.ones(len(self.hospitals))
        heavy[0] = HEAVY if self.weighted else 1.0
        found: np.ndarray = heavy * self.hospitals / (heavy * self.hospitals).sum()
        return found


SETTINGS = {
    "60 samples, 2 hospitals": Tables(60),
    "400 samples, 3 hospitals of 60, 30 and 10%": Tables(400, (0.6, 0.3, 0.1)),
    "1,200 samples, 12 hospitals": Tables(1200, (1 / 12,) * 12),
    "300 samples, one of 2 hospitals harder": Tables(300, (0.7, 0.3), (2.0, 1.0)),
    "80 patients, 5 images each": Tables(80, distances=(2.0,), images="five", alike=0.5),
    "150 patients, 1 to about 30 images each": Tables(150, images="uneven", alike=0.7),
    "400 samples with weights": Tables(400, weighted=True),
    "100 patients, 5 images each, with weights": Tables(
        100, images="five", alike=0.5, weighted=True
    ),
    "300 samples, threshold by a rule on 200 others": Tables(300, validation=200),
}


def table_rows(splits: int) -> Iterator[dict[str, Any]]:
    """A row for each interval in each setting."""
    for setting, tables in SETTINGS.items():
        draw = np.random.default_rng(seed_for(0, "tables", setting))
        sums: dict[str, list[float]] = {}
        for _ in range(splits):
            for name, estimate, truth in _trial(tables, draw):
                if estimate is None or not estimate.n or truth is None:
                    continue
                each = sums.setdefault(name, [0, 0.0, 0])
                each[0] += estimate.low - 1e-12 <= truth <= estimate.high + 1e-12
                each[1] += estimate.high - estimate.low
                each[2] += 1
        for name, (held, width, number) in sums.items():
            shares = {"coverage": round(held / number, 4), "width": round(width / number, 4)}
            yield {"interval": name, "setting": setting, **shares, "part": "tables"}


def _trial(tables: Tables, draw: Draw) -> Iterator[Found]:
    """One table: each of its intervals, with the truth."""
    columns = _drawn(tables, draw)
    further: dict[str, Any] = {}
    if tables.images != "one":
        further["cluster"] = "patient"
    if tables.weighted:
        further["weight"] = "weight"
    if tables.validation:
        further |= {"threshold": "sensitivity>=.9", "split_column": "split"}
    found = verify_table(
        columns, target="finding", prediction=["first", "second"], bias="hospital",
        positive=POSITIVE, aligned={POSITIVE: "0", NEGATIVE: "1"}, **further,
    )  # fmt: skip
    rows = columns["split"] == "test"
    judged = {name: column[rows] for name, column in columns.items()}
    first, second = (
        _Truth(tables, better, _limit(model))
        for better, model in zip((0.0, BETTER), found.models.values(), strict=True)
    )
    yield from _numbers(found.first, first, judged)
    yield from _groups(found.first, first)
    for gain in found.gains:
        name = f"gain in {TITLES[gain.number]}{' of a value' if gain.attribute else ''}"
        one, two = (
            truth.of(gain.number, int(gain.value) if gain.attribute else None)
            for truth in (first, second)
        )
        yield name, gain.gain, None if one is None or two is None else two - one


def _limit(model: ModelFindings) -> float:
    """The logit from which a sample is called positive."""
    assert model.metrics.detection is not None
    threshold = model.metrics.detection.positive.threshold
    return 0.0 if threshold is None else float(logit(threshold.value))


def _numbers(model: ModelFindings, truth: "_Truth", judged: Columns) -> Iterator[Found]:
    """The numbers over all samples, of each value, and their gaps."""
    findings = model.attributes["hospital",]
    everything = np.ones(len(judged["finding"]), dtype=bool)
    for name, number in model.numbers.items():
        yield TITLES[name], number, truth.of(name, None, _prevalence(judged, everything))
    for value in findings.values:
        share = _prevalence(judged, judged["hospital"] == value.value)
        for name, number in value.numbers.items():
            yield f"{TITLES[name]} of a value", number, truth.of(name, int(value.value), share)
    present = [int(value.value) for value in findings.values]
    for name, gap in findings.gaps.items():
        yield f"gap in {TITLES[name]}", gap, _range([truth.of(name, each) for each in present])


def _groups(model: ModelFindings, truth: "_Truth") -> Iterator[Found]:
    """The numbers by groups of class and hospital."""
    metrics = model.attributes["hospital",].metrics
    rates: dict[tuple[str, int], float] = {}
    for group in metrics.groups:
        name = "sensitivity" if group.target == POSITIVE else "specificity"
        rate = truth.of(name, int(group.bias))
        assert rate is not None
        rates[group.target, int(group.bias)] = rate
        yield "accuracy of a group", group.accuracy, rate
    assert metrics.worst_group is not None
    yield "worst group", metrics.worst_group.accuracy, min(rates.values())
    yield "unbiased", metrics.unbiased, float(np.mean(list(rates.values())))
    by_class = [
        _range([rate for (target, _), rate in rates.items() if target == name])
        for name in (POSITIVE, NEGATIVE)
    ]
    yield "equalized odds", metrics.equalized_odds, max(each or 0.0 for each in by_class)
    called = [truth.of("selection_rate", each) for each in {value for _, value in rates}]
    yield "parity gap", metrics.demographic_parity, _range(called)
    for name, gap in zip((POSITIVE, NEGATIVE), by_class, strict=True):
        yield "gap within one class, of gates", within_class(metrics, name), gap
    aligned = ((POSITIVE, 0), (NEGATIVE, 1))
    for name, number in (("aligned", metrics.aligned), ("conflicting", metrics.conflicting)):
        yield (
            name,
            number,
            truth.on({pair for pair in rates if (pair in aligned) == (name == "aligned")}),
        )


def _range(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return max(known) - min(known) if known and len(known) == len(numbers) else None


def _prevalence(judged: Columns, rows: np.ndarray) -> float:
    """The share of positive samples in a table, by weight."""
    ill = judged["finding"][rows] == POSITIVE
    return float(np.average(ill, weights=judged["weight"][rows]))


class _Truth(NamedTuple):
    """What is true about a model: its scores are normal, so far apart for both classes."""

    tables: Tables
    better: float
    limit: float

    def distance(self, hospital: int) -> float:
        return self.tables.distances[hospital % len(self.tables.distances)] + self.better

    def rates(self, hospital: int) -> tuple[float, float]:
        """Sensitivity and specificity in a hospital."""
        score = (self.limit - float(logit(self.tables.prior))) / self.distance(0)
        half = self.distance(hospital) / 2
        return float(norm.cdf(half - score)), float(norm.cdf(half + score))

    def of(self, name: str, hospital: int | None, prevalence: float = math.nan) -> float | None:
        """One number of a hospital or of all samples; None where it is not known."""
        if hospital is None:
            rates = np.array([self.rates(each) for each in range(len(self.tables.hospitals))])
            sensitivity, specificity = self.tables.shares() @ rates
        else:
            sensitivity, specificity = self.rates(hospital)
        ill, well = self.tables.prior, 1 - self.tables.prior
        known: Mapping[str, float] = {
            "sensitivity": sensitivity,
            "specificity": specificity,
            "accuracy": ill * sensitivity + well * specificity,
            "class_averaged": (sensitivity + specificity) / 2,
            "selection_rate": ill * sensitivity + well * (1 - specificity),
            "ppv": _trust(sensitivity, 1 - specificity, prevalence),
            "npv": _trust(specificity, 1 - sensitivity, 1 - prevalence),
        }
        if name in known:
            return float(known[name])
        if len(self.tables.distances) > 1:
            return None
        distance = self.distance(0)
        return {
            "auc": float(norm.cdf(distance / math.sqrt(2))),
            "brier": _brier(distance, ill),
            "slope": 1.0,
            "calibration": 0.0,
        }[name]

    def on(self, groups: set[tuple[str, int]]) -> float:
        """The accuracy on the samples of some groups."""
        shares, total, right = self.tables.shares(), 0.0, 0.0
        for target, hospital in groups:
            ill = target == POSITIVE
            share = shares[hospital] * (self.tables.prior if ill else 1 - self.tables.prior)
            total += share
            right += share * self.rates(hospital)[0 if ill else 1]
        return right / total


def _trust(right: float, wrong: float, share: float) -> float:
    """How often an answer is right where its class has this share."""
    return right * share / (right * share + wrong * (1 - share))


@cache
def _brier(distance: float, prior: float) -> float:
    noise = np.linspace(-8, 8, 8001)
    density = norm.pdf(noise) * (noise[1] - noise[0])
    stated = [expit(distance * (noise + sign * distance / 2) + logit(prior)) for sign in (1, -1)]
    missed, alarmed = ((1 - stated[0]) ** 2 * density).sum(), (stated[1] ** 2 * density).sum()
    return float(prior * missed + (1 - prior) * alarmed)


def _drawn(tables: Tables, draw: Draw) -> Columns:
    """The columns of one table."""
    patients = tables.patients + tables.validation
    images = {
        "one": np.ones(patients, dtype=np.int64),
        "five": np.full(patients, 5),
        "uneven": np.maximum(1, np.round(np.exp(draw.normal(0.5, 1.0, patients)))).astype(np.int64),
    }[tables.images]
    patient = np.repeat(np.arange(patients), images)
    ill = (draw.random(patients) < tables.prevalence)[patient]
    hospital = draw.choice(len(tables.hospitals), patients, p=tables.hospitals)[patient]
    # Half of what makes a patient or an image hard is the same for both models.
    common = _mixed(draw, patient, tables.alike), _mixed(draw, patient, tables.alike)
    noise = common[0], math.sqrt(0.5) * (common[0] + common[1])
    far = np.array(tables.distances)[hospital % len(tables.distances)]
    stated = [
        expit(
            (tables.distances[0] + better) * (own + (far + better) * (ill - 0.5))
            + logit(tables.prior)
        )
        for own, better in zip(noise, (0.0, BETTER), strict=True)
    ]
    heavy = np.where(ill, HEAVY, 1.0) * np.where(hospital == 0, HEAVY, 1.0)
    weight = heavy * draw.uniform(0.5, 2.0, len(patient)) if tables.weighted else np.ones(len(ill))
    return {
        "finding": np.where(ill, POSITIVE, NEGATIVE), "first": stated[0], "second": stated[1],
        "hospital": hospital.astype(str), "patient": patient, "weight": weight,
        "split": np.where(patient < tables.patients, "test", "validation"),
    }  # fmt: skip


def _mixed(draw: Draw, patient: np.ndarray, alike: float) -> np.ndarray:
    """Noise of variance 1, a share of which is the same for all images of a patient."""
    own = draw.normal(size=int(patient.max()) + 1)[patient]
    found: np.ndarray = math.sqrt(alike) * own + math.sqrt(1 - alike) * draw.normal(size=len(own))
    return found
