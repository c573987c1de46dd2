"""How often 95% intervals contain the true value, by simulation: every interval that is printed.

python -m benchmarks.coverage
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import norm

from benchmarks.coverage_of_tables import table_rows
from benchmarks.measure import keep
from crossbias.audit.association import strength_of
from crossbias.audit.attributes import audit_attributes
from crossbias.data.dataset import BiasedDataset
from crossbias.formatting import DASH
from crossbias.runs.rows import over_runs
from crossbias.seeds import seed_for
from crossbias.verify import (
    WEIGHTS,
    Cells,
    Estimate,
    Metrics,
    Positive,
    auc,
    brier_score,
    calibration_error,
    calibration_slope,
    count,
    demographic_parity_gap,
    equalized_odds_gap,
    gap_within_classes,
    lowest_of,
    mean_over_corrupted_splits,
    over_seeds,
    paired_difference,
    pooled_over_seeds,
    predictive_values,
    simultaneous,
    unbiased,
    wilson,
)
from crossbias.verify.bootstrap import generator_of, stratified_mean
from crossbias.verify.clusters import (
    clustered_accuracy,
    design_effect,
    design_effects,
    with_clusters,
)
from crossbias.verify.detection import detect
from crossbias.verify.detection_gains import GAINS, Calls, detection_difference

SPLITS = 1_000
PAGE = Path("docs/coverage.md")
Draw = np.random.Generator
Trial = Callable[[Draw], tuple[Estimate, float]]  # an interval, and the truth it should contain


class Case(NamedTuple):
    """One interval in one setting."""

    interval: str
    setting: str
    trial: Trial


def main() -> None:
    rows = [_row(case) for case in (*cases(), *others())]
    rows += list(table_rows(SPLITS))
    keep("coverage", {"splits": SPLITS, "rows": rows}, "cpu")
    PAGE.write_text(page(rows, SPLITS))


PRINTED = {
    "overall, aligned and conflicting accuracy, accuracy of a group, recall, sensitivity, "
    "specificity, confident errors, answers that flip, errors of a slice": "a proportion",
    "unbiased and class average, balanced accuracy, `biased`": "mean of groups",
    "worst group": "worst group",
    "accuracy on corrupted images": "mean corruption accuracy",
    "difference of aligned and conflicting samples within a class": "gap within classes",
    "calibration error": "calibration error",
    "equalized odds": "equalized-odds gap",
    "parity gap": "demographic-parity gap",
    "AUC": "AUC",
    "PPV": "PPV",
    "NPV": "NPV",
    "Brier score": "Brier score",
    "calibration slope": "calibration slope",
    "calibration intercept": "calibration intercept",
    "association of an attribute with the class": "Cramer's V",
    "accuracy of an attribute alone": "accuracy from an attribute, cross-validated",
    "a number over several seeds": "mean over seeds",
    "worst group over several seeds": "worst group over seeds",
    "gaps and calibration errors over several seeds": "equalized-odds gap over seeds",
    "gain over several seeds": "gain of a method",
    "gain with one seed": "gain of one training over another",
    "gains of several rows, together": "gains of several methods, all at once",
    "gain in sensitivity": "gain in sensitivity",
    "gain in specificity": "gain in specificity",
    "gain in AUC": "gain in AUC",
    "gain in PPV": "gain in PPV",
    "gain in NPV": "gain in NPV",
    "gain in the Brier score": "gain in Brier score",
    "an accuracy, over patients": "accuracy over patients",
    "unbiased and class average, over patients": "mean of groups over patients",
    "worst group, over patients": "worst group over patients",
    "sensitivity, over patients": "sensitivity over patients",
    "specificity, over patients": "specificity over patients",
    "PPV, over patients": "PPV over patients",
    "NPV, over patients": "NPV over patients",
    "AUC, over patients": "AUC over patients",
    "Brier score, over patients": "Brier score over patients",
    "calibration slope, over patients": "calibration slope over patients",
    "calibration intercept, over patients": "calibration intercept over patients",
    "parity gap, over patients": "demographic-parity gap over patients",
    "gain, over patients": "gain over patients",
}
"""What commands and pages print, and the rows that are about it."""


BELOW = {("gap in sensitivity", "60 samples, 2 hospitals")}
"""Where less than 92% was found, so that a confidence of 90% is claimed: 12 samples of a class."""


def page(rows: list[dict[str, Any]], splits: int) -> str:
    """The page of the documentation, from the content of the result file."""
    tables = [row for row in rows if row.get("part") == "tables"]
    lines = [
        "# Coverage of the intervals",
        "",
        "A 95% interval should contain the true value in 95 of 100 repetitions. This page shows "
        "how often the\nintervals of crossbias do, in simulations where the truth is known. Each "
        "row has "
        f"{splits:,} simulated test splits,\nso a share of 95% is uncertain by about 1.4 points. "
        "`python -m benchmarks.coverage` makes this page and\n"
        "`benchmarks/results/coverage-cpu.json`. Shares above 95% mean that an interval is wider "
        "than it must be. No interval contains the truth in fewer than 92%, but for the gap in "
        "sensitivity between two\nvalues with about 12 positive samples each: read gaps between so "
        "few samples of a class as 90% intervals.",
        "",
        "## Which interval is where",
        "",
        "| printed | rows below |",
        "|---|---|",
        *(f"| {what} | {interval} |" for what, interval in PRINTED.items()),
        "",
        "`crossbias verify FILE` has a [table of its own](#tables-of-answers).",
        "",
        "## Every interval",
        "",
        "| interval | setting | contains the truth | mean width, % points |",
        "|---|---|---|---|",
    ]
    for row in rows:
        if row in tables:
            continue
        width = f"{100 * row['width']:.1f}"
        cells = (row["interval"], row["setting"], f"{100 * row['coverage']:.1f}%", width)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, *_tables_section(tables)]) + "\n"


def _tables_section(rows: list[dict[str, Any]]) -> list[str]:
    """The intervals of ``crossbias verify FILE``: a column for each setting."""
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    found = {(row["interval"], row["setting"]): f"{100 * row['coverage']:.1f}" for row in rows}
    lines = [
        "",
        "## Tables of answers",
        "",
        "All intervals of `crossbias verify FILE`, in percent that contain the truth. An interval "
        "of a value or a group is\ncounted for each of them. PPV and NPV are those at the "
        "prevalence in the table. With a threshold that a rule chose,\nthe truth is that at this "
        "threshold. The settings:",
        "",
        *(f"{number}. {setting}" for number, setting in enumerate(settings, 1)),
        "",
        f"| interval | {' | '.join(str(number) for number in range(1, len(settings) + 1))} |",
        "|---|" + "---|" * len(settings),
    ]
    for interval in dict.fromkeys(row["interval"] for row in rows):
        cells = [found.get((interval, setting), DASH) for setting in settings]
        lines.append(f"| {interval} | {' | '.join(cells)} |")
    return lines


def others() -> Iterator[Case]:
    """Intervals that crossbias does not print, and why: they are known, and do not hold."""
    for name, parts in GROUPS.items():
        interval = "(not used) mean of groups, stratified bootstrap"
        yield Case(interval, name, _groups(parts, bootstrapped))
    for name, parts in LOWEST.items():
        yield Case("(not used) worst group, its own interval", name, _lowest(parts, alone=True))
    for name, (sizes, accuracy, deviation) in METHODS.items():
        trial = _gain(sizes, accuracy, deviation, 3, alike=True)
        yield Case("(not used) gain, over samples alone", f"{name}; 3 seeds each", trial)


def cases() -> Iterator[Case]:
    """Every interval in every setting."""
    yield from _of_accuracies()
    yield from _of_gains()
    yield from _of_other_numbers()
    yield from _of_patients()


def _of_accuracies() -> Iterator[Case]:
    """Accuracies of one model or over seeds."""
    for n, p in ((12, 0.5), (20, 0.8), (60, 0.9), (500, 0.99)):
        yield Case("a proportion", f"{n} samples at {p}", _proportion(n, p))
    for name, parts in GROUPS.items():
        yield Case("mean of groups", name, _groups(parts, unbiased))
    for name, parts in LOWEST.items():
        yield Case("worst group", name, _lowest(parts))
    for patients, each, groups in ((100, 5, 4), (200, 3, 20), (40, 5, 4), (150, UNEVEN, 4)):
        images = _images(each)
        setting = f"{groups} groups, {patients} patients in all, {images}, at 0.8"
        yield Case(
            "worst group over patients", setting, _lowest_of_patients(patients, each, groups)
        )
    for name, parts in LOWEST.items():
        yield Case("worst group over seeds", f"{name}; 3 seeds", _lowest_over_seeds(parts, 3))
    for images, accuracy in ((50, 0.7), (500, 0.7), (200, 0.95), (2000, 0.4)):
        setting = f"{images} images, 3 corruptions of 5 severities, at {accuracy}"
        yield Case("mean corruption accuracy", setting, _corrupted(images, accuracy))
    for setting, about in WITHIN.items():
        yield Case("gap within classes", setting, _within_classes(*about))
    for patients, each, accuracy, correlation in CLUSTERS:
        setting = f"{patients} patients, {_images(each)}, at {accuracy}, {correlation} alike"
        yield Case(
            "accuracy over patients", setting, _patients(patients, each, accuracy, correlation)
        )
    for runs in (2, 3, 5, 10):
        yield Case("mean over seeds", f"{runs} seeds, deviation 1.5 points", _seeds(runs))


def _of_gains() -> Iterator[Case]:
    """Gains of methods and of trained models."""
    for runs in (2, 3, 5, 10):
        for name, (sizes, accuracy, deviation) in METHODS.items():
            setting = f"{name}; {runs} seeds each"
            yield Case("gain of a method", setting, _gain(sizes, accuracy, deviation, runs))
    for name, (sizes, accuracy, _) in METHODS.items():
        yield Case("gain of one training over another", name, _models(sizes, accuracy))
    for name, (sizes, only_first, only_second) in ALMOST.items():
        trial = _almost_equal(sizes, only_first, only_second)
        yield Case("gain of one training over another", name, trial)
    for methods in (3, 9):
        setting = f"{methods} methods and plain training, one run each, 500 samples at 0.8"
        yield Case("gains of several methods, all at once", setting, _gains([0.0] * (methods + 1)))
    for name, (methods, runs, factors) in SEED_DEVIATIONS.items():
        deviations = [0.015 * factors.get(place, 1.0) for place in range(methods + 1)]
        setting = f"{name}, 500 samples at 0.8"
        yield Case("gains of several methods, all at once", setting, _gains(deviations, runs=runs))
    for setting, about in DETECTIONS.items():
        for part in GAINS:
            yield Case(f"gain in {_title(part)}", setting, _detection_gain(part, *about))


def _of_other_numbers() -> Iterator[Case]:
    """Calibration, gaps, numbers about a positive class, and the audit."""
    for n, excess in ((50, 0.0), (500, 0.0), (200, 0.1)):
        sure = f"sure by {excess} too much" if excess else "true probabilities"
        yield Case("calibration error", f"{n} samples, {sure}", _calibration(n, excess))
    yield Case(
        "calibration error", "60 patients, 5 images each, true probabilities",
        _calibration(60, 0.0, each=5),
    )  # fmt: skip
    for name, (sizes, rates) in GAPS.items():
        yield Case("equalized-odds gap", name, _gap(sizes, rates, equalized_odds_gap))
        yield Case("demographic-parity gap", name, _gap(sizes, rates, demographic_parity_gap))
    for title, gap in (
        ("equalized-odds gap", equalized_odds_gap),
        ("demographic-parity gap", demographic_parity_gap),
    ):
        setting = "2 values, equal rates, 40 patients each, 5 images of each"
        yield Case(title, setting, _gap([100, 100], [0.8, 0.8], gap, each=5))
    for patients, accuracy in ((80, 0.97), (80, 0.8), (150, 0.9), (40, 0.9)):
        yield Case(
            "demographic-parity gap over patients",
            f"2 values, {patients} patients of any class, 5 images each, at {accuracy}",
            _parity_of_patients(patients, accuracy),
        )
    for positives, negatives, truth in AREAS:
        setting = f"{positives} positive, {negatives} negative, area {truth}"
        yield Case("AUC", setting, _auc(positives, negatives, truth))
    for setting in PREDICTIVE:
        n, m, sensitivity, specificity, prevalence = setting
        words = f"{n} and {m}, rates {sensitivity} and {specificity}, prevalence {prevalence}"
        for part in ("ppv", "npv"):
            yield Case(part.upper(), words, _predictive(*setting, part))
    for n, slope in ((50, 1.0), (500, 0.5), (200, 1.0), (1000, 1.5)):
        yield Case("Brier score", f"{n} samples, true slope {slope}", _brier(n, slope))
        for part in ("slope", "intercept"):
            trial = _slope(n, slope, part)
            yield Case(f"calibration {part}", f"{n} samples, true slope {slope}", trial)
    for setting, about in GAPS_OVER_SEEDS.items():
        yield Case("equalized-odds gap over seeds", setting, _gap_over_seeds(*about))
    for classes, rule, patients, each in PREDICTED:
        images = f"{patients} patients, {each} images each" if each > 1 else f"{patients} samples"
        yield Case(
            "accuracy from an attribute, cross-validated",
            f"{classes} classes, {rule} of values by a rule, {images}",
            _predicted(classes, rule, patients, each),
        )
    for classes, values, rule, patients, each in ASSOCIATIONS:
        about = f"{classes} x {values}, {rule} of values by a rule, {patients}"
        setting = f"{about} patients, {each} images each" if each > 1 else f"{about} samples"
        yield Case("Cramer's V", setting, _association(classes, values, rule, patients, each))


def _of_patients() -> Iterator[Case]:
    """Numbers about a positive class and gains, with several images of each patient."""
    for patients, each in ((60, 5), (30, 4), (150, 2), (24, 10)):
        for part in DETECTED:
            setting = f"{patients} patients, {each} images each, 0.8 alike"
            yield Case(f"{_title(part)} over patients", setting, _detected(patients, each, part))
    for patients, each, accuracy, correlation in CLUSTERS:
        about = f"{patients} patients, {_images(each)}, at {accuracy}, {correlation} alike"
        for groups, runs in ((1, 1), (4, 1), (4, 3)):
            setting = f"{about}; {groups} group{'s'[: groups > 1]}, {runs} seed{'s'[: runs > 1]}"
            trial = _patients_gain(patients, each, accuracy, correlation, groups, runs)
            yield Case("gain over patients", setting, trial)
        yield Case(
            "mean of groups over patients", f"{about}; 4 groups",
            _patients(patients, each, accuracy, correlation, groups=4),
        )  # fmt: skip


AREAS = ((15, 15, 0.7), (20, 200, 0.9), (300, 300, 0.99), (60, 60, 0.97))
"""Positive and negative samples, and the true area."""

PREDICTIVE = (
    (50, 50, 0.9, 0.8, 0.1),
    (20, 200, 0.95, 0.9, 0.02),
    (30, 30, 0.99, 0.95, 0.3),
    (200, 800, 0.7, 0.97, 0.05),
)
"""Positive and negative samples, sensitivity, specificity and prevalence."""

SEED_DEVIATIONS = {
    "9 methods and plain training, 3 seeds each": (9, 3, {}),
    "3 methods and plain training, 3 seeds each": (3, 3, {}),
    "9 methods and plain training, 2 seeds each": (9, 2, {}),
    "9 methods and plain training, 3 seeds each, plain training varies 3 times as much": (
        *(9, 3), {0: 3.0},
    ),
    "9 methods and plain training, 3 seeds each, one method varies 3 times as much": (
        *(9, 3), {9: 3.0},
    ),
}  # fmt: skip
"""Methods, seeds of each, and by how much the deviation over seeds of some differs."""

DETECTED = {
    "sensitivity": 0.6915, "specificity": 0.6915, "ppv": 0.6915, "npv": 0.6915, "auc": 0.7602,
    "brier": 0.1988, "slope": 1.0, "intercept": 0.0,
}  # fmt: skip
"""The truth where scores are normal, one standard deviation apart, and probabilities are true."""

DETECTIONS = {
    "20 positive, 200 negative, area .8 and .85, 1 seed": (20, 200, 1, 0.8, 0.85, 1),
    "30 positive, 30 negative, area .9, 1 seed": (30, 30, 1, 0.9, 0.9, 1),
    "300 positive, 300 negative, area .97 and .98, 1 seed": (300, 300, 1, 0.97, 0.98, 1),
    "100 positive, 400 negative, area .85, 3 seeds": (100, 400, 1, 0.85, 0.85, 3),
    "40 positive, 40 negative patients, 5 images each, area .8, 1 seed": (40, 40, 5, 0.8, 0.8, 1),
    "40 positive, 40 negative patients, 5 images each, area .8, 3 seeds": (40, 40, 5, 0.8, 0.8, 3),
}
"""Patients of both classes, images of each, area of both methods, and trainings of each."""

GROUPS = {
    "4 cells of 150 at .7": [(4, 150, 0.7)],
    "4 cells of 30 at .99": [(4, 30, 0.99)],
    "100 cells of 100 at .99": [(100, 100, 0.99)],
    "2 cells of 2,000 at .999, 2 of 50 at .96": [(2, 2000, 0.999), (2, 50, 0.96)],
    "10 cells of 900 at .99, 90 of 11 at .9": [(10, 900, 0.99), (90, 11, 0.9)],
}
"""Number of cells, number of samples in each, and the true accuracy of each."""

LOWEST = {
    "4 groups: 500 at .95, 500 at .95, 20 at .5, 20 at .6": [
        (2, 500, 0.95),
        (1, 20, 0.5),
        (1, 20, 0.6),
    ],
    "100 groups of 30 at .8": [(100, 30, 0.8)],
    "10 groups of 200 at .95, 30 of 8 at .7": [(10, 200, 0.95), (30, 8, 0.7)],
    "2 groups: 300 at .9, 40 at .7": [(1, 300, 0.9), (1, 40, 0.7)],
}

ALMOST = {
    "200 samples, only one of both is right on 1%": ([200], 0.002, 0.008),
    "1,000 samples, only one of both is right on .3%": ([1000], 0.0015, 0.0015),
    "mean of 4 groups: 450, 450, 50 and 50, only the second is right on 1%": (
        [450, 450, 50, 50],
        0.0,
        0.01,
    ),
}
"""Samples of each group, and how often only the first of two trainings is right, or the second."""

WITHIN = {
    "2 classes, 450 aligned and 50 conflicting each, 1 seed": ([450, 450], [50, 50], 1, 1),
    "4 classes, 90 aligned and 5 conflicting each, 1 seed": ([90] * 4, [5] * 4, 1, 1),
    "Simpson's paradox: 400 and 20, 50 and 200, 1 seed": ([400, 50], [20, 200], 1, 1),
    "2 classes, 450 aligned and 50 conflicting each, 3 seeds": ([450, 450], [50, 50], 3, 1),
    "2 classes, 30 aligned and 20 conflicting patients each, 5 images": ([30] * 2, [20] * 2, 1, 5),
}
"""Aligned and conflicting patients of each class, trainings, and images of each patient."""

METHODS = {
    "5,000 samples at .8, deviation 1.1 points": ([5000], [0.8], 0.011),
    "1,000 samples at .8, deviation 1.5 points": ([1000], [0.8], 0.015),
    "200 samples at .7, deviation 1.5 points": ([200], [0.7], 0.015),
    "mean of 4 groups: 450, 450, 50 and 50": ([450, 450, 50, 50], [0.95, 0.95, 0.6, 0.6], 0.015),
    "mean of 30 groups of 8": ([8] * 30, [0.8] * 30, 0.015),
    "mean of 100 groups: 10 of 200, 90 of 5": (
        [200] * 10 + [5] * 90,
        [0.98] * 10 + [0.7] * 90,
        0.015,
    ),
}
"""Samples and accuracy of each group, and the standard deviation of the accuracy over seeds."""

UNEVEN, FEW_LARGE = 0, -1  # images of each patient: 1 to about 30; 40 of every 25th, else 1

CLUSTERS = (
    (100, 5, 0.8, 0.5),
    (40, 5, 0.9, 0.8),
    (20, 10, 0.8, 0.5),
    (300, 2, 0.95, 0.9),
    (100, 5, 0.8, 0.0),
    (150, UNEVEN, 0.85, 0.5),
    (150, FEW_LARGE, 0.85, 0.6),
)
"""Patients, mean number of images, accuracy, and the correlation of difficulty in a patient."""

ASSOCIATIONS = (
    (2, 2, 0.0, 100, 1),
    (2, 2, 0.2, 100, 1),
    (2, 2, 0.95, 100, 1),
    (2, 20, 0.3, 200, 1),
    (10, 40, 0.3, 400, 1),
    (10, 40, 0.8, 400, 1),
    (2, 2, 0.5, 60, 5),
    (3, 6, 0.4, 80, 4),
)
"""Classes, values, share of values that tell the class, patients, and images of each."""

GAPS_OVER_SEEDS = {
    "2 values, equal rates, 100 each, 3 seeds": ([100, 100], [0.8, 0.8], 3),
    "4 values, equal rates, 20 to 400, 3 seeds": ([20, 50, 100, 400], [0.8] * 4, 3),
    "2 values, rates .9 and .7, 100 each, 2 seeds": ([100, 100], [0.9, 0.7], 2),
    "2 values, equal rates, 300 each, 5 seeds": ([300, 300], [0.9, 0.9], 5),
}
"""For each bias value, samples of each class and the accuracy on them; and seeds."""

PREDICTED = ((2, 0.5, 100, 1), (2, 0.9, 60, 1), (3, 0.6, 200, 1), (2, 0.6, 80, 5))
"""Classes, share of values that tell the class, patients, and images of each."""

GAPS = {
    "2 values, equal rates, 100 each": ([100, 100], [0.8, 0.8]),
    "4 values, equal rates, 20 to 400": ([20, 50, 100, 400], [0.8, 0.8, 0.8, 0.8]),
    "2 values, rates .9 and .7, 100 each": ([100, 100], [0.9, 0.7]),
}
"""For each bias value, samples of each class and the accuracy on them."""


def _row(case: Case) -> dict[str, Any]:
    seed = seed_for(0, case.interval, case.setting)
    about = {"interval": case.interval, "setting": case.setting}
    return about | _held(case.trial, seed)


def _held(trial: Trial, seed: int) -> dict[str, float]:
    draw, held, width = np.random.default_rng(seed), 0, 0.0
    for _ in range(SPLITS):
        estimate, truth = trial(draw)
        held += estimate.low <= truth <= estimate.high
        width += estimate.high - estimate.low
    return {"coverage": round(held / SPLITS, 4), "width": round(width / SPLITS, 4)}


def _proportion(n: int, p: float) -> Trial:
    return lambda draw: (wilson(int(draw.binomial(n, p)), n), p)


def _expanded(parts: list[tuple[int, int, float]]) -> tuple[list[int], list[float]]:
    sizes = [size for cells, size, _ in parts for _ in range(cells)]
    return sizes, [truth for cells, _, truth in parts for _ in range(cells)]


def _groups(parts: list[tuple[int, int, float]], function: Callable[[Cells], Estimate]) -> Trial:
    sizes, truths = _expanded(parts)
    return lambda draw: (
        function(_one_class(torch.from_numpy(draw.binomial(sizes, truths)), torch.tensor(sizes))),
        float(np.mean(truths)),
    )


def _lowest(parts: list[tuple[int, int, float]], *, alone: bool = False) -> Trial:
    """The lowest accuracy of several groups; ``alone`` forgets that the group was picked."""
    sizes, truths = _expanded(parts)

    def trial(draw: Draw) -> tuple[Estimate, float]:
        right = draw.binomial(sizes, truths).tolist()
        if not alone:
            return lowest_of(right, sizes), min(truths)
        found = min(map(wilson, right, sizes), key=lambda estimate: estimate.value)
        return found, min(truths)

    return trial


def _lowest_of_patients(patients: int, each: int, groups: int) -> Trial:
    """The lowest accuracy of groups of patients, all of which are equally hard."""

    def trial(draw: Draw) -> tuple[Estimate, float]:
        patient = np.repeat(np.arange(patients), each)
        if each == UNEVEN:
            patient = _patient_of_images(draw, patients, each)
        own, noise = draw.normal(size=patients)[patient], draw.normal(size=len(patient))
        right = torch.from_numpy(math.sqrt(0.5) * (own + noise) < norm.ppf(0.8))
        cluster = torch.from_numpy(patient)
        columns = (torch.zeros_like(cluster), cluster % groups, 1 - right.long())
        names = {"classes": ("right", "wrong"), "values": tuple(map(str, range(groups)))}
        cells = Cells.from_answers(*columns, alignment=None, **names)
        found = with_clusters(Metrics.from_cells(cells, None), *columns, cluster)
        assert found.worst_group is not None
        return found.worst_group.accuracy, 0.8

    return trial


def _lowest_over_seeds(parts: list[tuple[int, int, float]], runs: int) -> Trial:
    """The lowest accuracy of several groups, over trainings that vary by 1.5 points."""
    sizes, truths = _expanded(parts)

    def trial(draw: Draw) -> tuple[Estimate, float]:
        found = []
        for shift in draw.normal(0, 0.015, runs):
            rates = np.clip(np.array(truths) + shift, 0, 1)
            found.append(lowest_of(draw.binomial(sizes, rates).tolist(), sizes))
        number = over_runs(found, noisy=True)
        assert number is not None
        return Estimate(number.value, number.low, number.high, runs), min(truths)

    return trial


def _corrupted(images: int, accuracy: float) -> Trial:
    """Copies of the same images: what is hard to see stays so in each copy."""

    def trial(draw: Draw) -> tuple[Estimate, float]:
        hard = math.sqrt(0.7) * draw.normal(size=images)
        noise = math.sqrt(0.3) * draw.normal(size=(3, 5, images))
        right = (hard + noise < norm.ppf(accuracy)).sum(2)
        splits = {
            f"test-c-{kind}-{level}": wilson(int(right[kind, level]), images)
            for kind in range(3)
            for level in range(5)
        }
        return mean_over_corrupted_splits(splits), accuracy

    return trial


def _within_classes(with_bias: list[int], against: list[int], runs: int, each: int) -> Trial:
    """Accuracies of .95 and .7 on aligned samples of even and odd classes, less by .1 otherwise."""
    classes = len(with_bias)
    sizes = torch.tensor([with_bias, against]).T.flatten()
    cell = torch.arange(2 * classes).repeat_interleave(sizes)
    rates = np.array([[0.95, 0.85], [0.7, 0.6]])[np.arange(classes) % 2].ravel()
    cell = cell.repeat_interleave(each)
    limit = norm.ppf(rates)[cell]

    def trial(draw: Draw) -> tuple[Estimate, float]:
        patient = np.arange(len(cell)) // each
        own = draw.normal(size=int(patient.max()) + 1)[patient]
        noise = draw.normal(size=(runs, len(cell)))
        right = torch.from_numpy(math.sqrt(0.5) * (own + noise) < limit)
        cluster = torch.from_numpy(patient) if each > 1 else None
        return gap_within_classes(right, cell // 2, cell % 2 == 0, cluster=cluster), 0.1

    return trial


def _images(each: int) -> str:
    """The images of each patient in words."""
    named = {UNEVEN: "1 to about 30 images each", FEW_LARGE: "1 image each, every 25th 40"}
    return named.get(each, f"{each} images each")


def _patient_of_images(draw: Draw, patients: int, each: int) -> np.ndarray:
    """The patient of each image; their number varies around ``each``."""
    if each == UNEVEN:
        images = np.maximum(1, np.round(np.exp(draw.normal(0.5, 1.0, patients)))).astype(np.int64)
    elif each == FEW_LARGE:
        images = np.where(np.arange(patients) % 25 == 0, 40, 1)
    else:
        images = draw.poisson(each - 1, patients) + 1
    return np.repeat(np.arange(patients), images)


def _patients(
    patients: int, each: int, accuracy: float, correlation: float, groups: int = 1
) -> Trial:
    """The accuracy over groups of patients, each group counting the same."""

    def trial(draw: Draw) -> tuple[Estimate, float]:
        patient = _patient_of_images(draw, patients, each)
        own, noise = draw.normal(size=patients)[patient], draw.normal(size=len(patient))
        difficulty = math.sqrt(correlation) * own + math.sqrt(1 - correlation) * noise
        right = torch.from_numpy(difficulty < norm.ppf(accuracy))
        cluster = torch.from_numpy(patient)
        weights = torch.full((groups,), 1 / groups)
        return clustered_accuracy(right, cluster % groups, weights, cluster), accuracy

    return trial


def _patients_gain(
    patients: int, each: int, accuracy: float, correlation: float, groups: int, runs: int
) -> Trial:
    """Two equal methods; half of what makes a patient or an image hard is the method's own."""
    weights = torch.full((groups,), 1 / groups)

    def trial(draw: Draw) -> tuple[Estimate, float]:
        patient = _patient_of_images(draw, patients, each)
        common, own = draw.normal(size=patients), draw.normal(size=(2, 1, patients))
        image = draw.normal(size=len(patient)) + draw.normal(size=(2, runs, len(patient)))
        difficulty = math.sqrt(correlation / 2) * (common + own)[..., patient]
        difficulty = difficulty + math.sqrt((1 - correlation) / 2) * image
        difficulty += 0.05 * draw.normal(size=(2, runs, 1)) * (runs > 1)
        answers = torch.from_numpy(difficulty < norm.ppf(accuracy))
        cluster = torch.from_numpy(patient)
        cell = cluster % groups
        return paired_difference(*answers, cell=cell, weights=weights, cluster=cluster), 0.0

    return trial


def _association(classes: int, values: int, rule: float, patients: int, each: int) -> Trial:
    """Values of which each goes along with one class; the others are drawn at random."""
    joint = np.full((classes, values), (1 - rule) / classes / values)
    joint[np.arange(values) % classes, np.arange(values)] += rule / values
    expected = joint.sum(1, keepdims=True) * joint.sum(0)
    truth = math.sqrt(((joint - expected) ** 2 / expected).sum() / (min(joint.shape) - 1))

    def trial(draw: Draw) -> tuple[Estimate, float]:
        patient = np.repeat(np.arange(patients), draw.poisson(each - 1, patients) + 1)
        cell = torch.from_numpy(draw.choice(joint.size, patients, p=joint.ravel())[patient])
        found = strength_of(
            cell // values, cell % values, shape=(classes, values), permutations=199,
            seed=int(draw.integers(2**31)), cluster=torch.from_numpy(patient) if each > 1 else None,
        )  # fmt: skip
        return found.cramers_v, truth

    return trial


def _answers(
    draw: Draw, sizes: list[int], accuracy: list[float], shifts: np.ndarray
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Answers of two methods, (runs, n) each: the same samples are hard for all trainings."""
    cell = np.repeat(np.arange(len(sizes)), sizes)
    shape = (*shifts.shape, len(cell))
    common, own = draw.normal(size=shape[-1]), draw.normal(size=(2, 1, shape[-1]))
    difficulty = math.sqrt(0.6) * common + math.sqrt(0.2) * (own + draw.normal(size=shape))
    right = difficulty < norm.ppf(accuracy)[cell] + shifts[..., None]
    return list(torch.from_numpy(right)), torch.from_numpy(cell)


def _gain(
    sizes: list[int], accuracy: list[float], deviation: float, runs: int, *, alike: bool = False
) -> Trial:
    """Two methods that are equal in the mean over trainings; ``alike`` takes these for the same."""
    weights = torch.full((len(sizes),), 1 / len(sizes))
    scale = deviation / norm.pdf(norm.ppf(np.mean(accuracy)))

    def trial(draw: Draw) -> tuple[Estimate, float]:
        shifts = draw.normal(0, scale, (2, runs))
        answers, cell = _answers(draw, sizes, accuracy, shifts)
        if alike:
            answers = [right.double().mean(0, keepdim=True) for right in answers]
        return paired_difference(*answers, cell=cell, weights=weights), 0.0

    return trial


def _models(sizes: list[int], accuracy: list[float]) -> Trial:
    """Two trained models, of which the second is better by a tenth of the spread of difficulty."""
    weights = torch.full((len(sizes),), 1 / len(sizes))
    better = norm.cdf(norm.ppf(accuracy) + 0.1)
    truth = float(np.mean(better - np.array(accuracy)))

    def trial(draw: Draw) -> tuple[Estimate, float]:
        answers, cell = _answers(draw, sizes, accuracy, np.array([[0.0], [0.1]]))
        return paired_difference(*answers, cell=cell, weights=weights), truth

    return trial


def _almost_equal(sizes: list[int], only_first: float, only_second: float) -> Trial:
    """Two trained models that answer almost all samples alike."""
    weights = torch.full((len(sizes),), 1 / len(sizes))
    cell = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))

    def trial(draw: Draw) -> tuple[Estimate, float]:
        chance = torch.from_numpy(draw.random(len(cell)))
        first, second = (
            chance < only_first + 0.5,
            (chance >= only_first) & (chance < 0.5 + only_first + only_second),
        )
        found = paired_difference(first[None], second[None], cell=cell, weights=weights)
        return found, only_second - only_first

    return trial


def _seeds(runs: int) -> Trial:
    def trial(draw: Draw) -> tuple[Estimate, float]:
        spread = over_seeds(draw.normal(0.8, 0.015, runs).tolist())
        return Estimate(spread.mean, spread.low, spread.high, runs), 0.8

    return trial


def _calibration(n: int, excess: float, *, each: int = 1) -> Trial:
    """A model of two classes whose confidence is too high by the same amount everywhere.

    The images of a patient have the same confidence, and most are right or wrong together.
    """
    patient = torch.arange(n).repeat_interleave(each)

    def trial(draw: Draw) -> tuple[Estimate, float]:
        confidence = draw.uniform(0.6, 1, n)[patient]
        own, noise = draw.normal(size=n)[patient], draw.normal(size=len(patient))
        share = 0.8 * (each > 1)
        chance = norm.cdf(math.sqrt(share) * own + math.sqrt(1 - share) * noise)
        right = torch.from_numpy(chance < confidence - excess)
        probabilities = torch.from_numpy(np.stack([confidence, 1 - confidence], 1))
        effect = design_effect(right, patient) if each > 1 else 1.0
        return calibration_error(probabilities, (~right).long(), effect=effect), excess

    return trial


def _gap(
    sizes: list[int], rates: list[float], function: Callable[..., Estimate], *, each: int = 1
) -> Trial:
    """Two classes; for each bias value the same rate of right answers in both.

    So many samples in turn are one patient, whose images are right or wrong together.
    """
    targets = torch.cat([torch.arange(2 * size) % 2 for size in sizes])
    biases = torch.repeat_interleave(torch.arange(len(sizes)), 2 * torch.tensor(sizes))
    odds = function is equalized_odds_gap
    truth = max(rates) - min(rates) if odds else 0.0  # classes are balanced: answers are too

    targets = targets.sort(stable=True).values if each > 1 else targets
    biases = biases.view(len(sizes), 2, -1).transpose(0, 1).flatten() if each > 1 else biases
    patient = torch.arange(len(targets)) // each

    def trial(draw: Draw) -> tuple[Estimate, float]:
        own, noise = draw.normal(size=len(patient))[patient], draw.normal(size=len(patient))
        share = 0.8 * (each > 1)
        chance = norm.cdf(math.sqrt(share) * own + math.sqrt(1 - share) * noise)
        right = torch.from_numpy(chance) < torch.tensor(rates)[biases]
        answers = torch.where(right, targets, 1 - targets)
        sizes_ = {"num_classes": 2, "num_biases": len(sizes)}
        group = biases if not odds else targets * len(sizes) + biases
        effects = None
        if each > 1:
            parts = (1 + odds) * len(sizes)
            effects = design_effects(answers, group, parts, patient)
            effects = effects.view(2, len(sizes)) if odds else effects
        return function(count(targets, biases, answers, **sizes_), effects=effects), truth

    return trial


def _parity_of_patients(patients: int, accuracy: float) -> Trial:
    """Class and value are those of the patient, but errors are those of the image."""
    patient = torch.arange(patients).repeat_interleave(5)

    def trial(draw: Draw) -> tuple[Estimate, float]:
        target, value = (torch.from_numpy(draw.integers(2, size=patients))[patient] for _ in "12")
        wrong = torch.from_numpy(draw.random(len(patient)) > accuracy)
        answers = torch.where(wrong, 1 - target, target)
        counts = count(target, value, answers, num_classes=2, num_biases=2)
        effects = design_effects(answers, value, 2, patient)
        return demographic_parity_gap(counts, effects=effects), 0.0

    return trial


def _auc(positives: int, negatives: int, truth: float) -> Trial:
    shift = norm.ppf(truth) * math.sqrt(2)
    positive = torch.arange(positives + negatives) < positives

    def trial(draw: Draw) -> tuple[Estimate, float]:
        scores = np.r_[draw.normal(shift, 1, positives), draw.normal(0, 1, negatives)]
        return auc(torch.from_numpy(scores), positive), truth

    return trial


def _predictive(
    n: int, m: int, sensitivity: float, specificity: float, prevalence: float, part: str
) -> Trial:
    ill, well = prevalence, 1 - prevalence
    truths = {
        "ppv": sensitivity * ill / (sensitivity * ill + (1 - specificity) * well),
        "npv": specificity * well / (specificity * well + (1 - sensitivity) * ill),
    }

    def trial(draw: Draw) -> tuple[Estimate, float]:
        hits, clear = int(draw.binomial(n, sensitivity)), int(draw.binomial(m, specificity))
        found = predictive_values(hits, n, clear, m, prevalence=prevalence)
        return getattr(found, part), truths[part]

    return trial


def _stated(draw: Draw, n: int, slope: float) -> tuple[torch.Tensor, torch.Tensor]:
    logit = draw.normal(-1, 1.5, n)
    positive = draw.random(n) < 1 / (1 + np.exp(-slope * logit))
    return torch.from_numpy(1 / (1 + np.exp(-logit))), torch.from_numpy(positive)


def _brier(n: int, slope: float) -> Trial:
    logit = np.random.default_rng(0).normal(-1, 1.5, 1_000_000)
    stated, true = 1 / (1 + np.exp(-logit)), 1 / (1 + np.exp(-slope * logit))
    truth = float(np.mean(true * (1 - stated) ** 2 + (1 - true) * stated**2))
    return lambda draw: (brier_score(*_stated(draw, n, slope)), truth)


def _slope(n: int, slope: float, part: str) -> Trial:
    def trial(draw: Draw) -> tuple[Estimate, float]:
        found = calibration_slope(*_stated(draw, n, slope))
        assert found is not None
        return getattr(found, part), slope if part == "slope" else 0.0

    return trial


def _gains(deviations: list[float], *, runs: int = 1) -> Trial:
    """Methods as good as the first, with their deviations over seeds.

    The result is the gain whose interval misses the truth, or else the first.
    """
    methods, n, accuracy = len(deviations), 500, 0.8
    confidence, cell = simultaneous(0.95, methods - 1), torch.zeros(n).long()
    scale = np.array(deviations)[:, None, None] / norm.pdf(norm.ppf(accuracy))
    # A training that varies on the scale of difficulty is less accurate in the mean.
    truth = norm.cdf(norm.ppf(accuracy) / np.sqrt(1 + scale.ravel() ** 2))

    def trial(draw: Draw) -> tuple[Estimate, float]:
        own = draw.normal(size=(methods, runs, n))
        difficulty = math.sqrt(0.6) * draw.normal(size=n) + math.sqrt(0.4) * own
        difficulty += scale * draw.normal(size=(methods, runs, 1))
        right = torch.from_numpy(difficulty < norm.ppf(accuracy))
        pooled = pooled_over_seeds(right.double().mean(2).tolist())
        gains = [
            paired_difference(
                right[0], other, cell=cell, weights=torch.ones(1), confidence=confidence,
                over_methods=pooled,
            )
            for other in right[1:]
        ]  # fmt: skip
        pairs = list(zip(gains, truth[1:] - truth[0], strict=True))
        return min(pairs, key=lambda pair: pair[0].low <= pair[1] <= pair[0].high)

    return trial


def _gap_over_seeds(sizes: list[int], rates: list[float], runs: int) -> Trial:
    """The equalized-odds gap of trainings that vary, on the same samples."""
    biases = torch.repeat_interleave(torch.arange(len(sizes)), 2 * torch.tensor(sizes))
    targets = torch.arange(len(biases)) % 2
    limits = norm.ppf(rates)[biases]

    def trial(draw: Draw) -> tuple[Estimate, float]:
        noise = draw.normal(size=(runs, len(biases)))
        difficulty = math.sqrt(0.6) * draw.normal(size=len(biases)) + math.sqrt(0.4) * noise
        difficulty += 0.05 * draw.normal(size=(runs, 1))
        answers = torch.from_numpy(difficulty < limits) ^ (targets == 0)
        gaps = [
            equalized_odds_gap(
                count(targets, biases, each.long(), num_classes=2, num_biases=len(sizes))
            )
            for each in answers
        ]
        number = over_runs(gaps, noisy=True)
        assert number is not None
        return Estimate(*number[:3], runs), max(rates) - min(rates)

    return trial


def _predicted(classes: int, rule: float, patients: int, each: int) -> Trial:
    """As many values as classes; the best rule answers the class of the value."""
    truth = rule + (1 - rule) / classes
    names = tuple(map(str, range(classes)))

    def trial(draw: Draw) -> tuple[Estimate, float]:
        patient = np.repeat(np.arange(patients), each)
        target = draw.integers(classes, size=patients)
        value = np.where(
            draw.random(patients) < rule, target, draw.integers(classes, size=patients)
        )
        data = BiasedDataset(
            inputs=torch.zeros(len(patient), 1), targets=torch.from_numpy(target[patient]),
            attributes={"value": torch.from_numpy(value[patient])}, classes=names,
            values={"value": names}, cluster=torch.from_numpy(patient) if each > 1 else None,
        )  # fmt: skip
        (found,) = audit_attributes(data, permutations=1, seed=int(draw.integers(2**31)))
        assert found.accuracy is not None
        return found.accuracy, truth

    return trial


def _detected(patients: int, each: int, part: str) -> Trial:
    """Every second patient is ill; the images of a patient share most of what makes them hard."""
    patient = torch.arange(patients).repeat_interleave(each)
    ill, nobody = patient % 2 == 0, torch.zeros(len(patient)).long()

    def trial(draw: Draw) -> tuple[Estimate, float]:
        own, noise = draw.normal(size=patients)[patient], draw.normal(size=len(patient))
        logit = math.sqrt(0.8) * own + math.sqrt(0.2) * noise + ill.numpy() - 0.5
        stated = torch.from_numpy(1 / (1 + np.exp(-logit)))
        both = torch.stack([1 - stated, stated], 1)
        found = detect(
            ill.long(), nobody, both.argmax(1), both, positive=Positive("ill", 0.5),
            classes=("well", "ill"), values=(), cluster=patient,
        )  # fmt: skip
        return getattr(found.overall, part), DETECTED[part]

    return trial


def _detection_gain(
    part: str, ill: int, well: int, each: int, area: float, better: float, runs: int
) -> Trial:
    """Normal scores of two methods; half of what makes an image hard is the same for both."""
    shifts = math.sqrt(2) * norm.ppf([area, better])
    patient = torch.arange(ill + well).repeat_interleave(each)
    positive = patient < ill
    share = ill / (ill + well)
    first, second = (_detection_truth(part, shift, share) for shift in shifts)

    def trial(draw: Draw) -> tuple[Estimate, float]:
        common, own = draw.normal(size=ill + well), draw.normal(size=(2, 1, ill + well))
        noise = draw.normal(size=(2, runs, len(patient)))
        patients = math.sqrt(0.5) * common + math.sqrt(0.3) * own
        score = patients[..., patient] + math.sqrt(0.2) * noise
        moved = shifts[:, None, None] + 0.1 * draw.normal(size=(2, runs, 1)) * (runs > 1)
        # The limit is 0, and the mean of both classes is there.
        logit = torch.from_numpy(score + moved * (positive.numpy() - 0.5))
        calls = [Calls(runs > 0, runs.sigmoid()) for runs in logit]
        cluster = patient if each > 1 else None
        return detection_difference(part, *calls, positive, cluster=cluster), second - first

    return trial


def _detection_truth(part: str, shift: float, share: float) -> float:
    """The number of a method whose scores are normal, so far apart and around 0."""
    rate = float(norm.cdf(shift / 2))
    if part == "brier":
        noise = np.linspace(-8, 8, 4001)
        density = norm.pdf(noise) * (noise[1] - noise[0])
        stated = [1 / (1 + np.exp(-(noise + sign * shift / 2))) for sign in (1, -1)]
        missed, alarmed = ((1 - stated[0]) ** 2 * density).sum(), (stated[1] ** 2 * density).sum()
        return float(share * missed + (1 - share) * alarmed)
    right, wrong = rate, 1 - rate
    return {
        "sensitivity": rate,
        "specificity": rate,
        "auc": float(norm.cdf(shift / math.sqrt(2))),
        "ppv": right * share / (right * share + wrong * (1 - share)),
        "npv": right * (1 - share) / (right * (1 - share) + wrong * share),
    }[part]


def _title(part: str) -> str:
    """A number about a positive class as the page names it."""
    named = {"brier": "Brier score", "slope": "calibration slope"}
    named |= {"intercept": "calibration intercept"}
    return named.get(part, part if len(part) > 3 else part.upper())


def bootstrapped(cells: Cells) -> Estimate:
    """The unbiased accuracy with the interval of the stratified bootstrap.

    Resampling a cell that is all right or all wrong changes nothing, so the interval is too narrow
    near 0 and 1. This is why the package uses a formula instead.
    """
    right, total = cells.correct.numpy(), cells.total.numpy()
    counts, steps = np.stack([total - right, right], axis=1), np.array([0.0, 1.0])
    weights = WEIGHTS["unbiased"](cells).numpy()
    return stratified_mean(counts, steps, weights, generator_of("accuracy", "unbiased"))


def _one_class(correct: torch.Tensor, totals: torch.Tensor) -> Cells:
    """Cells of one class, with a bias value for each of them."""
    unknown = torch.zeros(1, dtype=torch.int64)
    return Cells.from_table(
        *(torch.cat([part, unknown])[None] for part in (correct, totals)),
        alignment=None,
        classes=("class",),
        biases=tuple(str(number) for number in range(len(totals))),
    )


if __name__ == "__main__":
    main()
