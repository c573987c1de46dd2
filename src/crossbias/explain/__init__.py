"""What a model looks at: explanation maps, features and boundaries, kept with the run."""

from crossbias.explain.grad_cam import grad_cam
from crossbias.explain.labels import Labels, load_labels, save_labels
from crossbias.explain.look import look
from crossbias.explain.views import Boundary, Views, load_views, save_views

__all__ = [
    "Boundary",
    "Labels",
    "Views",
    "grad_cam",
    "load_labels",
    "load_views",
    "look",
    "save_labels",
    "save_views",
]
