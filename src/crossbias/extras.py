"""Packages that only some functions need; each is installed by an extra of crossbias."""

import importlib.util
from typing import Final

from crossbias.errors import CrossbiasError

EXTRAS: Final = {
    "av": ("PyAV", "video"),
    "datasets": ("datasets", "huggingface"),
    "mlflow": ("MLflow", "mlflow"),
    "onnxruntime": ("ONNX Runtime", "onnx"),
    "onnxscript": ("onnxscript", "onnx"),
    "optuna": ("Optuna", "search"),
    "pyarrow": ("pyarrow", "parquet"),
    "pydicom": ("pydicom", "dicom"),
    "ray": ("Ray", "ray"),
    "sklearn": ("scikit-learn", "sklearn"),
    "submitit": ("submitit", "slurm"),
    "tensorboard": ("TensorBoard", "tensorboard"),
    "torchvision": ("torchvision", "download"),
    "wandb": ("wandb", "wandb"),
}
"""For each module, the name of its package and the extra that installs it."""


def check_installed(module: str, *, what: str, instead: str = "") -> None:
    """Refuse to go on without an optional package; the message names the extra that has it."""
    if importlib.util.find_spec(module) is None:
        package, extra = EXTRAS[module]
        raise CrossbiasError(
            f"{what} needs {package}: pip install 'crossbias[{extra}]'"
            f"{f'; or {instead}' if instead else ''}"
        )
