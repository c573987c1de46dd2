"""The papers' mathematics as pure functions of tensors, usable in any training loop."""

from crossbias.functional.attribution import cam, intrinsic_weight
from crossbias.functional.colors import color_levels
from crossbias.functional.denoising import clean_samples, noise_threshold
from crossbias.functional.directions import vmf_log_density
from crossbias.functional.gradients import head_gradient_norm
from crossbias.functional.kernels import hsic, median_bandwidth
from crossbias.functional.objectives import (
    bias_cross_entropy,
    confusion,
    generalized_cross_entropy,
    negative_conditional_entropy,
)
from crossbias.functional.regularizers import end_terms
from crossbias.functional.reversal import gradient_reversal
from crossbias.methods.per_sample_gradients import per_sample_gradients

__all__ = [
    "bias_cross_entropy",
    "cam",
    "clean_samples",
    "color_levels",
    "confusion",
    "end_terms",
    "generalized_cross_entropy",
    "gradient_reversal",
    "head_gradient_norm",
    "hsic",
    "intrinsic_weight",
    "median_bandwidth",
    "negative_conditional_entropy",
    "noise_threshold",
    "per_sample_gradients",
    "vmf_log_density",
]
