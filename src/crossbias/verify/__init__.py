"""How good a model is, group by group, with intervals, from its answers alone."""

from crossbias.verify.accuracies import (
    aligned,
    by_group,
    class_averaged,
    conflicting,
    overall,
    per_class,
    unbiased,
    worst_group,
)
from crossbias.verify.calibration import calibration_by_group, calibration_error
from crossbias.verify.cells import Alignment, Cells
from crossbias.verify.corruption import mean_corruption_accuracy, mean_over_corrupted_splits
from crossbias.verify.counts import count
from crossbias.verify.from_arrays import verify
from crossbias.verify.gaps import demographic_parity_gap, equalized_odds_gap
from crossbias.verify.groups import MIN_SAMPLES, Group, small_group_warning, small_groups
from crossbias.verify.intervals import (
    NO_SAMPLES,
    Estimate,
    mean_of_dependent,
    mean_of_groups,
    wilson,
)
from crossbias.verify.metrics import Metrics, judged_split
from crossbias.verify.over_seeds import Spread, over_seeds
from crossbias.verify.paired import McNemar, check_same_samples, mcnemar, paired_difference
from crossbias.verify.predictions import Predictions
from crossbias.verify.protocols import biased, majority, minority, populated, texture_unbiased
from crossbias.verify.rates import Rates, rates_by_source
from crossbias.verify.weights import WEIGHTS

__all__ = [
    "MIN_SAMPLES",
    "NO_SAMPLES",
    "WEIGHTS",
    "Alignment",
    "Cells",
    "Estimate",
    "Group",
    "McNemar",
    "Metrics",
    "Predictions",
    "Rates",
    "Spread",
    "aligned",
    "biased",
    "by_group",
    "calibration_by_group",
    "calibration_error",
    "check_same_samples",
    "class_averaged",
    "conflicting",
    "count",
    "demographic_parity_gap",
    "equalized_odds_gap",
    "judged_split",
    "majority",
    "mcnemar",
    "mean_corruption_accuracy",
    "mean_of_dependent",
    "mean_of_groups",
    "mean_over_corrupted_splits",
    "minority",
    "over_seeds",
    "overall",
    "paired_difference",
    "per_class",
    "populated",
    "rates_by_source",
    "small_group_warning",
    "small_groups",
    "texture_unbiased",
    "unbiased",
    "verify",
    "wilson",
    "worst_group",
]
