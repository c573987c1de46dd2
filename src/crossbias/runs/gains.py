"""How much better one row of a comparison is than another, on the same samples."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from crossbias.runs.rows import Row, value_of
from crossbias.verify import Calls, Estimate, McNemar, detection_difference
from crossbias.verify.accuracies import OF_SAMPLES, Strata
from crossbias.verify.between_runs import (
    SeedVariance,
    mcnemar,
    paired_difference,
    pooled_over_seeds,
)
from crossbias.verify.multiplicity import holm


def variances_over_seeds(rows: Sequence[Row], names: Sequence[str]) -> dict[str, SeedVariance]:
    """How much each metric varies from seed to seed, over the rows that have several seeds."""
    found = {}
    for name in names:
        values = [[value_of(name, metrics) for metrics in row.metrics] for row in rows]
        present = [[each.value for each in row if each and each.n] for row in values]
        if (pooled := pooled_over_seeds(present)) is not None:
            found[name] = pooled
    return found


def gains_over(
    baseline: Row,
    row: Row,
    strata: Mapping[str, Strata],
    confidence: float,
    over_methods: Mapping[str, SeedVariance],
) -> dict[str, Estimate]:
    """The difference of each metric that is a weighted mean of parts."""
    first, second = right_answers(baseline), right_answers(row)
    cluster = baseline.runs[0].judged.cluster
    found = {
        name: paired_difference(
            first,
            second,
            cell=each.part,
            weights=each.weights,
            cluster=cluster,
            confidence=confidence,
            over_methods=over_methods.get(name),
        )
        for name, each in strata.items()
    }
    return {name: gain for name, gain in found.items() if gain.n}


def positive_gains_over(
    baseline: Row,
    row: Row,
    names: Sequence[str],
    confidence: float,
    over_methods: Mapping[str, SeedVariance],
) -> dict[str, Estimate]:
    """The difference of each number about the positive class."""
    if not names:
        return {}
    judged = baseline.runs[0].judged
    positive = judged.target == _place_of_positive(baseline)
    found = {
        name: detection_difference(
            name, _calls(baseline), _calls(row), positive, cluster=judged.cluster,
            confidence=confidence, over_methods=over_methods.get(name),
        )
        for name in names
    }  # fmt: skip
    return {name: gain for name, gain in found.items() if gain.n}


def positive_tests_against(baseline: Row, row: Row, names: Sequence[str]) -> dict[str, McNemar]:
    """McNemar's test of sensitivity and specificity."""
    if not names or not _tested(baseline, row):
        return {}
    positive = baseline.runs[0].judged.target == _place_of_positive(baseline)
    first, second = (_calls(each).called[0] == positive for each in (baseline, row))
    rows = {"sensitivity": positive, "specificity": ~positive}
    return {
        name: mcnemar(first[chosen], second[chosen])
        for name, chosen in rows.items()
        if name in names and chosen.any()
    }


def _calls(row: Row) -> Calls:
    """What each of the row's runs says about the positive class."""
    place = _place_of_positive(row)
    answers = [run.judged.answers == place for run in row.runs]
    scores = [run.judged.probabilities[:, place] for run in row.runs]
    return Calls(torch.stack(answers), torch.stack(scores))


def _place_of_positive(row: Row) -> int:
    detection = row.metrics[0].detection
    assert detection is not None  # ``compare`` has named the class
    return row.metrics[0].classes.index(detection.positive.name)


def _tested(baseline: Row, row: Row) -> bool:
    """Whether McNemar's test holds: it is about two models.

    There is none with clusters: their samples are not independent tosses of a coin.
    """
    single = not (baseline.runs[1:] or row.runs[1:])
    return single and baseline.runs[0].judged.cluster is None


def tests_against(baseline: Row, row: Row, strata: Mapping[str, Strata]) -> dict[str, McNemar]:
    """McNemar's test of each metric that is a mean of samples."""
    if not _tested(baseline, row):
        return {}
    first, second = right_answers(baseline)[0], right_answers(row)[0]
    counted = {name: strata[name].part > 0 for name in OF_SAMPLES if name in strata}
    return {n: mcnemar(first[rows], second[rows]) for n, rows in counted.items() if rows.any()}


def corrected(tests: Mapping[str, Mapping[str, McNemar]]) -> dict[str, dict[str, McNemar]]:
    """The tests with p corrected over the rows, metric by metric."""
    found: dict[str, dict[str, McNemar]] = {label: {} for label in tests}
    for name in {name: None for each in tests.values() for name in each}:
        labels = [label for label in tests if name in tests[label]]
        for label, p in zip(labels, holm([tests[label][name].p for label in labels]), strict=True):
            found[label][name] = tests[label][name]._replace(p=p)
    return found


def right_answers(row: Row) -> Tensor:
    """Whether each of the row's runs answers each test sample correctly, (runs, n)."""
    return torch.stack([run.judged.answers == run.judged.target for run in row.runs])
