"""How good a model is, group by group, with intervals: counts, metrics, stored predictions."""

from crossbias.verify.counts import count
from crossbias.verify.groups import Group
from crossbias.verify.intervals import NO_SAMPLES, Estimate, mean_of_groups, wilson
from crossbias.verify.judged import judged_split
from crossbias.verify.metrics import Metrics
from crossbias.verify.predictions import Predictions, load_predictions, save_predictions

__all__ = [
    "NO_SAMPLES",
    "Estimate",
    "Group",
    "Metrics",
    "Predictions",
    "count",
    "judged_split",
    "load_predictions",
    "mean_of_groups",
    "save_predictions",
    "wilson",
]
