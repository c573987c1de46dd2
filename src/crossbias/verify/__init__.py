"""How good a model is, group by group, with intervals, from its answers alone."""

from crossbias.verify.accuracies import (
    WEIGHTS,
    aligned,
    by_group,
    class_averaged,
    conflicting,
    overall,
    per_class,
    unbiased,
    worst_group,
)
from crossbias.verify.between_runs import (
    McNemar,
    SeedVariance,
    Spread,
    check_same_samples,
    gap_within_classes,
    mcnemar,
    over_seeds,
    paired_difference,
    pooled_over_seeds,
)
from crossbias.verify.calibration import calibration_by_bias, calibration_error
from crossbias.verify.cells import (
    MIN_SAMPLES,
    Alignment,
    Cells,
    Group,
    count,
    count_right,
    small_group_warning,
    small_groups,
)
from crossbias.verify.detection import Detection, DetectionRates, Positive, about_detection
from crossbias.verify.detection_gains import Calls, detection_difference
from crossbias.verify.from_arrays import verify
from crossbias.verify.gaps import demographic_parity_gap, equalized_odds_gap
from crossbias.verify.independence import independence
from crossbias.verify.intervals import (
    NO_SAMPLES,
    Estimate,
    lowest_of,
    mean_of_dependent,
    mean_of_groups,
    wilson,
)
from crossbias.verify.metrics import Metrics, judged_split
from crossbias.verify.missing import missing_by_class, missing_warning
from crossbias.verify.multiplicity import holm, simultaneous
from crossbias.verify.positives import (
    PredictiveValues,
    Slope,
    auc,
    brier_score,
    calibration_slope,
    predictive_values,
)
from crossbias.verify.predictions import Predictions
from crossbias.verify.protocols import (
    Rates,
    biased,
    majority,
    mean_corruption_accuracy,
    mean_over_corrupted_splits,
    minority,
    populated,
    rates_by_source,
    texture_unbiased,
)
from crossbias.verify.thresholds import Threshold, threshold_for

__all__ = [
    "MIN_SAMPLES",
    "NO_SAMPLES",
    "WEIGHTS",
    "Alignment",
    "Calls",
    "Cells",
    "Detection",
    "DetectionRates",
    "Estimate",
    "Group",
    "McNemar",
    "Metrics",
    "Positive",
    "Predictions",
    "PredictiveValues",
    "Rates",
    "SeedVariance",
    "Slope",
    "Spread",
    "Threshold",
    "about_detection",
    "aligned",
    "auc",
    "biased",
    "brier_score",
    "by_group",
    "calibration_by_bias",
    "calibration_error",
    "calibration_slope",
    "check_same_samples",
    "class_averaged",
    "conflicting",
    "count",
    "count_right",
    "demographic_parity_gap",
    "detection_difference",
    "equalized_odds_gap",
    "gap_within_classes",
    "holm",
    "independence",
    "judged_split",
    "lowest_of",
    "majority",
    "mcnemar",
    "mean_corruption_accuracy",
    "mean_of_dependent",
    "mean_of_groups",
    "mean_over_corrupted_splits",
    "minority",
    "missing_by_class",
    "missing_warning",
    "over_seeds",
    "overall",
    "paired_difference",
    "per_class",
    "pooled_over_seeds",
    "populated",
    "predictive_values",
    "rates_by_source",
    "simultaneous",
    "small_group_warning",
    "small_groups",
    "texture_unbiased",
    "threshold_for",
    "unbiased",
    "verify",
    "wilson",
    "worst_group",
]
