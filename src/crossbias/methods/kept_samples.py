"""What is left of the training set by a method that removes samples."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.methods.symptoms import class_share_symptoms
from crossbias.train.data_symptoms import conflicting_samples
from crossbias.types import UNKNOWN

if TYPE_CHECKING:
    from crossbias.train.run import Run

# Of fewer samples than this, a network learns a class by heart.
_LEAST_OF_CLASS = 10


def report_kept(run: "Run", keep: Tensor, *, remedy: str) -> None:
    """Count what is kept in ``kept.json``, and warn where classes have lost much.

    Args:
        run: The run; its bias labels, if it has any, are read for the counts alone.
        keep: ``(n,)`` bool, the samples of the run's data that are kept.
        remedy: What to change so that more are kept, as a whole sentence.
    """
    counts = _counts(run.data, keep)
    run.keep("kept", counts)
    words = [f"{name} {found['kept']} of {found['before']}" for name, found in counts.items()]
    run.progress.note(f"kept samples: {', '.join(words)}")
    before, left = (
        rows.bincount(minlength=run.data.num_classes)
        for rows in (run.data.targets, run.data.targets[keep])
    )
    few = ((left < _LEAST_OF_CLASS) & (left < before)).nonzero().squeeze(1).tolist()
    if few:
        names = ", ".join(f"{run.data.classes[number]} ({left[number]})" for number in few)
        run.warn(
            "hardly anything of a class is kept",
            f"Fewer than {_LEAST_OF_CLASS} samples are kept of some classes: {names}. The network "
            f"will learn these by heart.",
            remedy,
        )
    weights = torch.zeros(run.data.full_size)
    weights[run.data.index] = keep.float()
    for symptom in class_share_symptoms(weights, run.data):
        run.warn(*symptom)


def _counts(data: BiasedDataset, keep: Tensor) -> dict[str, dict[str, int]]:
    kinds = {"all": data.targets >= 0}
    conflicting = conflicting_samples(data, data.alignment())
    if conflicting.any():
        aligned = (data.biases != UNKNOWN) & ~conflicting
        kinds |= {"aligned": aligned, "conflicting": conflicting}
    return {
        name: {"before": int(rows.sum()), "kept": int((rows & keep).sum())}
        for name, rows in kinds.items()
    }
