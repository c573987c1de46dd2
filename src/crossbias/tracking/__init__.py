"""Live logging of runs to TensorBoard, Weights & Biases or MLflow."""

from crossbias.tracking.tracker import Started, Tracker
from crossbias.tracking.trackers import TRACKERS, Trackers

__all__ = ["TRACKERS", "Started", "Tracker", "Trackers"]
