"""The papers' mathematics as pure functions of tensors, usable in any training loop."""

from crossbias.functional.attribution import (
    cam,
    guidance_distance,
    intrinsic_weight,
    pooled_guidance,
)
from crossbias.functional.colors import IGNORED, LEVELS, color_levels
from crossbias.functional.difficulty import (
    NOT_SEEN,
    bias_negative_score,
    class_maximum,
    divided_by_class,
    moving_average,
    relative_difficulty,
)
from crossbias.functional.gradients import gradient_reversal, head_gradient_norm, vmf_log_density
from crossbias.functional.groups import exponentiated_gradient, group_means
from crossbias.functional.kernels import hsic, median_bandwidth
from crossbias.functional.linear_filter import predictability, ridge_classifiers
from crossbias.functional.objectives import (
    bias_cross_entropy,
    confusion,
    generalized_cross_entropy,
    learned_mixin_terms,
    masked_cross_entropy,
    negative_conditional_entropy,
)
from crossbias.functional.partners import draw_partners, refilled
from crossbias.functional.precision import at_least_float32, no_autocast, unit_rows
from crossbias.functional.regularizers import EnDVariant, end_terms, has_entangling_pairs
from crossbias.functional.resampling import (
    NoiseThreshold,
    acceptance,
    clean_samples,
    direction_score,
    magnitude_score,
    noise_threshold,
)
from crossbias.functional.sparse_regression import sparse_logistic_regression
from crossbias.functional.style import adaptive_instance_normalization, channel_statistics
from crossbias.functional.texture import (
    column_norms,
    cooccurrence,
    gray_levels,
    neighbor_difference,
    without_texture,
)
from crossbias.functional.weighted_bias import Keep, kept_by_weight, representation_bias

__all__ = [
    "IGNORED",
    "LEVELS",
    "NOT_SEEN",
    "EnDVariant",
    "Keep",
    "NoiseThreshold",
    "acceptance",
    "adaptive_instance_normalization",
    "at_least_float32",
    "bias_cross_entropy",
    "bias_negative_score",
    "cam",
    "channel_statistics",
    "class_maximum",
    "clean_samples",
    "color_levels",
    "column_norms",
    "confusion",
    "cooccurrence",
    "direction_score",
    "divided_by_class",
    "draw_partners",
    "end_terms",
    "exponentiated_gradient",
    "generalized_cross_entropy",
    "gradient_reversal",
    "gray_levels",
    "group_means",
    "guidance_distance",
    "has_entangling_pairs",
    "head_gradient_norm",
    "hsic",
    "intrinsic_weight",
    "kept_by_weight",
    "learned_mixin_terms",
    "magnitude_score",
    "masked_cross_entropy",
    "median_bandwidth",
    "moving_average",
    "negative_conditional_entropy",
    "neighbor_difference",
    "no_autocast",
    "noise_threshold",
    "pooled_guidance",
    "predictability",
    "refilled",
    "relative_difficulty",
    "representation_bias",
    "ridge_classifiers",
    "sparse_logistic_regression",
    "unit_rows",
    "vmf_log_density",
    "without_texture",
]
