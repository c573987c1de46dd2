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

from benchmarks.measure import keep
from crossbias.audit.association import strength_of
from crossbias.verify import (
    WEIGHTS,
    Cells,
    Estimate,
    Positive,
    auc,
    brier_score,
    calibration_error,
    calibration_slope,
    count,
    demographic_parity_gap,
    equalized_odds_gap,
    lowest_of,
    over_seeds,
    paired_difference,
    predictive_values,
    simultaneous,
    unbiased,
    wilson,
)
from crossbias.verify.bootstrap import generator_of, stratified_mean
from crossbias.verify.clusters import clustered_accuracy
from crossbias.verify.detection import detect

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
    rows = [_row(case, number) for number, case in enumerate(cases())]
    rows += [_row(case, 0) for case in others()]
    keep("coverage", {"splits": SPLITS, "rows": rows}, "cpu")
    PAGE.write_text(page(rows, SPLITS))


def page(rows: list[dict[str, Any]], splits: int) -> str:
    """The page of the documentation, from the content of the result file."""
    lines = [
        "# Coverage of the intervals",
        "",
        "A 95% interval should contain the true value in 95 of 100 repetitions. This page shows "
        "how often the\nintervals of crossbias do, in simulations where the truth is known. Each "
        "row has "
        f"{splits:,} simulated test splits,\nso a share of 95% is uncertain by about 1.4 points. "
        "`python -m benchmarks.coverage` makes this page and\n"
        "`benchmarks/results/coverage-cpu.json`. Shares above 95% mean that an interval is wider "
        "than it must be.",
        "",
        "| interval | setting | contains the truth | mean width, % points |",
        "|---|---|---|---|",
    ]
    for row in rows:
        width = f"{100 * row['width']:.1f}"
        cells = (row["interval"], row["setting"], f"{100 * row['coverage']:.1f}%", width)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


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


def cases() -> Iterator[Case]:  # noqa: PLR0912
    """Every interval in every setting."""
    for n, p in ((12, 0.5), (20, 0.8), (60, 0.9), (500, 0.99)):
        yield Case("a proportion", f"{n} samples at {p}", _proportion(n, p))
    for name, parts in GROUPS.items():
        yield Case("mean of groups", name, _groups(parts, unbiased))
    for name, parts in LOWEST.items():
        yield Case("worst group", name, _lowest(parts))
    for patients, each, accuracy, correlation in CLUSTERS:
        setting = f"{patients} patients, {each} images each, at {accuracy}, {correlation} alike"
        yield Case(
            "accuracy over patients", setting, _patients(patients, each, accuracy, correlation)
        )
    for runs in (2, 3, 5, 10):
        for name, (sizes, accuracy, deviation) in METHODS.items():
            setting = f"{name}; {runs} seeds each"
            yield Case("gain of a method", setting, _gain(sizes, accuracy, deviation, runs))
    for name, (sizes, accuracy, _) in METHODS.items():
        yield Case("gain of one training over another", name, _models(sizes, accuracy))
    for runs in (2, 3, 5):
        yield Case("mean over seeds", f"{runs} seeds, deviation 1.5 points", _seeds(runs))
    for n, excess in ((50, 0.0), (500, 0.0), (200, 0.1)):
        sure = f"sure by {excess} too much" if excess else "true probabilities"
        yield Case("calibration error", f"{n} samples, {sure}", _calibration(n, excess))
    for name, (sizes, rates) in GAPS.items():
        yield Case("equalized-odds gap", name, _gap(sizes, rates, equalized_odds_gap))
        yield Case("demographic-parity gap", name, _gap(sizes, rates, demographic_parity_gap))
    for positives, negatives, truth in ((15, 15, 0.7), (20, 200, 0.9), (300, 300, 0.99)):
        setting = f"{positives} positive, {negatives} negative, area {truth}"
        yield Case("AUC", setting, _auc(positives, negatives, truth))
    for setting in ((50, 50, 0.9, 0.8, 0.1), (20, 200, 0.95, 0.9, 0.02), (30, 30, 0.99, 0.95, 0.3)):
        n, m, sensitivity, specificity, prevalence = setting
        words = f"{n} and {m}, rates {sensitivity} and {specificity}, prevalence {prevalence}"
        for part in ("ppv", "npv"):
            yield Case(part.upper(), words, _predictive(*setting, part))
    for n, slope in ((50, 1.0), (500, 0.5)):
        yield Case("Brier score", f"{n} samples, true slope {slope}", _brier(n, slope))
        yield Case("calibration slope", f"{n} samples, true slope {slope}", _slope(n, slope))
    for methods in (3, 9):
        setting = f"{methods} methods and plain training, one run each, 500 samples at 0.8"
        yield Case("gains of several methods, all at once", setting, _gains(methods, 500, 0.8))
    for patients, each in ((60, 5), (30, 4)):
        for part in DETECTED:
            setting = f"{patients} patients, {each} images each, 0.8 alike"
            yield Case(f"{part} over patients", setting, _detected(patients, each, part))
    for patients, each, accuracy, correlation in CLUSTERS:
        about = f"{patients} patients, {each} images each, at {accuracy}, {correlation} alike"
        for groups, runs in ((1, 1), (4, 1), (4, 3)):
            setting = f"{about}; {groups} group{'s'[: groups > 1]}, {runs} seed{'s'[: runs > 1]}"
            trial = _patients_gain(patients, each, accuracy, correlation, groups, runs)
            yield Case("gain over patients", setting, trial)
        yield Case(
            "mean of groups over patients", f"{about}; 4 groups",
            _patients(patients, each, accuracy, correlation, groups=4),
        )  # fmt: skip
    for classes, values, rule, patients, each in ASSOCIATIONS:
        about = f"{classes} x {values}, {rule} of values by a rule, {patients}"
        setting = f"{about} patients, {each} images each" if each > 1 else f"{about} samples"
        yield Case("Cramer's V", setting, _association(classes, values, rule, patients, each))


DETECTED = {"sensitivity": 0.6915, "ppv": 0.6915, "auc": 0.7602, "brier": 0.1988, "slope": 1.0}
"""The truth where scores are normal, one standard deviation apart, and probabilities are true."""

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
}

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

CLUSTERS = (
    (100, 5, 0.8, 0.5),
    (40, 5, 0.9, 0.8),
    (20, 10, 0.8, 0.5),
    (300, 2, 0.95, 0.9),
    (100, 5, 0.8, 0.0),
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

GAPS = {
    "2 values, equal rates, 100 each": ([100, 100], [0.8, 0.8]),
    "4 values, equal rates, 20 to 400": ([20, 50, 100, 400], [0.8, 0.8, 0.8, 0.8]),
    "2 values, rates .9 and .7, 100 each": ([100, 100], [0.9, 0.7]),
}
"""For each bias value, samples of each class and the accuracy on them."""


def _row(case: Case, number: int) -> dict[str, Any]:
    return {"interval": case.interval, "setting": case.setting} | _held(case.trial, number)


def _held(trial: Trial, number: int) -> dict[str, float]:
    draw, held, width = np.random.default_rng(number), 0, 0.0
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


def _patients(
    patients: int, each: int, accuracy: float, correlation: float, groups: int = 1
) -> Trial:
    """The accuracy over groups of patients, each group counting the same."""

    def trial(draw: Draw) -> tuple[Estimate, float]:
        patient = np.repeat(np.arange(patients), draw.poisson(each - 1, patients) + 1)
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
        patient = np.repeat(np.arange(patients), draw.poisson(each - 1, patients) + 1)
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


def _seeds(runs: int) -> Trial:
    def trial(draw: Draw) -> tuple[Estimate, float]:
        spread = over_seeds(draw.normal(0.8, 0.015, runs).tolist())
        return Estimate(spread.mean, spread.low, spread.high, runs), 0.8

    return trial


def _calibration(n: int, excess: float) -> Trial:
    """A model of two classes whose confidence is too high by the same amount everywhere."""

    def trial(draw: Draw) -> tuple[Estimate, float]:
        confidence = draw.uniform(0.6, 1, n)
        right = draw.random(n) < confidence - excess
        probabilities = torch.from_numpy(np.stack([confidence, 1 - confidence], 1))
        return calibration_error(probabilities, torch.from_numpy(~right).long()), excess

    return trial


def _gap(sizes: list[int], rates: list[float], function: Callable[..., Estimate]) -> Trial:
    """Two classes; for each bias value the same rate of right answers in both."""
    targets = torch.cat([torch.arange(2 * size) % 2 for size in sizes])
    biases = torch.repeat_interleave(torch.arange(len(sizes)), 2 * torch.tensor(sizes))
    odds = function is equalized_odds_gap
    truth = max(rates) - min(rates) if odds else 0.0  # classes are balanced: answers are too

    def trial(draw: Draw) -> tuple[Estimate, float]:
        right = torch.from_numpy(draw.random(len(targets))) < torch.tensor(rates)[biases]
        answers = torch.where(right, targets, 1 - targets)
        sizes_ = {"num_classes": 2, "num_biases": len(sizes)}
        return function(count(targets, biases, answers, **sizes_)), truth

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


def _slope(n: int, slope: float) -> Trial:
    def trial(draw: Draw) -> tuple[Estimate, float]:
        found = calibration_slope(*_stated(draw, n, slope))
        assert found is not None
        return found.slope, slope

    return trial


def _gains(methods: int, n: int, accuracy: float) -> Trial:
    """Methods as good as plain training: the interval that misses 0, or else the first."""
    confidence, cell = simultaneous(0.95, methods), torch.zeros(n).long()

    def trial(draw: Draw) -> tuple[Estimate, float]:
        own = draw.normal(size=(methods + 1, n))
        difficulty = math.sqrt(0.6) * draw.normal(size=n) + math.sqrt(0.4) * own
        right = torch.from_numpy(difficulty < norm.ppf(accuracy))
        gains = [
            paired_difference(
                right[:1], other[None], cell=cell, weights=torch.ones(1), confidence=confidence
            )
            for other in right[1:]
        ]
        return min(gains, key=lambda gain: gain.low <= 0 <= gain.high), 0.0

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
