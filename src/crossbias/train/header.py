"""The header of a training: what is trained, on what and how, one line for each subject."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.defaults import is_pretrained
from crossbias.formatting import p_value
from crossbias.networks.recipe import Recipe
from crossbias.train.config import TrainConfig
from crossbias.types import UNKNOWN
from crossbias.verify.independence import CLEAR, independence

if TYPE_CHECKING:
    from crossbias.train.run import Run

_MOST_GROUPS: Final = 9  # more groups, or classes, are not listed one by one
_KNOWLEDGE: Final = {
    "none": "needs to know nothing about the bias",
    "kind of bias": "needs to know the kind of bias",
    "bias labels": "uses the bias labels",
}


def header_of(run: "Run", record: dict[str, Any]) -> list[str]:
    """The header of a run; ``record`` is the content of its ``config.json``."""
    method, knowledge = record["method"]["name"], _KNOWLEDGE[record["supervision"]]
    plain = " (plain training)" if method == "erm" else ""
    device, config = record["environment"]["device"], run.config
    augment = run.data.augment if config.augment is None else config.augment
    world = run.devices.world
    processes = f", {world} processes" if world > 1 else ""
    subjects = {
        "data": f"{run.data.name}: {sizes_of(run.data, run.validation)}; {shape_of(run.data)}",
        "groups" if run.data.has_bias_labels else "classes": groups_of(run.data),
        "method": f"{method}{plain}; {knowledge}",
        "network": _network(run),
        "training": _length(config, run.steps) + f"; {_pace(config)}",
        "augment": ", ".join(augment) or "none",
        "device": f"{device}, {config.precision}{processes}",
    }
    return [f"{name:<9} {text}" for name, text in subjects.items()]


def sizes_of(*splits: BiasedDataset | None) -> str:
    """Number of samples of each split."""
    return ", ".join(f"{len(data):,} {data.split}" for data in splits if data is not None)


def shape_of(data: BiasedDataset) -> str:
    """The form of a sample, as a network sees it.

    >>> import torch
    >>> images = torch.zeros(1, 3, 32, 24, dtype=torch.uint8)
    >>> shape_of(BiasedDataset(inputs=images, targets=torch.zeros(1, dtype=torch.int64)))
    '32 x 24 pixels, 3 channels'
    """
    if data.inputs.ndim == 2:
        return f"vectors of {data.inputs.shape[1]} numbers"
    *before, height, width = data.seen_shape
    frames = f"{before[1]} frames of " if len(before) == 2 else ""
    return f"{frames}{height} x {width} pixels, {before[0]} channels"


def groups_of(data: BiasedDataset) -> str:
    """Samples of each (class, bias) group, or only the totals and the smallest of many groups.

    Without a bias, these are the samples of each class.
    """
    if not data.has_bias_labels:
        return _listed(data.classes, data.targets.bincount(minlength=data.num_classes).tolist())
    assert data.bias is not None
    counts, aligned = data.counts(), data.alignment()
    names = [f"{target}/{value}" for target in data.classes for value in data.values[data.bias]]
    totals = f"{_sum(counts, aligned)} aligned, {_sum(counts, ~aligned)} conflicting by {data.bias}"
    if not aligned.any():
        totals = f"{data.bias} is not associated with the class, so no sample is aligned"
    elif (p := _p_of_independence(data)) > CLEAR:
        totals += f", which may be chance ({p_value(p)}, chi-square test)"
    missing = int((data.biases == UNKNOWN).sum())
    unlabeled = f", {missing:,} without a value" if missing else ""
    return f"{_listed(names, counts.flatten().tolist())}; {totals}{unlabeled}"


def _p_of_independence(data: BiasedDataset) -> float:
    """The p-value of class and bias being independent, over the samples of known bias."""
    known = data.biases != UNKNOWN
    cluster = None if data.cluster is None else data.cluster[known]
    return independence(data.targets[known], data.biases[known], cluster=cluster)


def _listed(names: Sequence[str], counts: Sequence[int]) -> str:
    if len(names) <= _MOST_GROUPS:
        return ", ".join(f"{name} {size:,}" for name, size in zip(names, counts, strict=True))
    present = [(size, name) for size, name in zip(counts, names, strict=True) if size]
    size, name = min(present)
    return f"{len(present)} of {len(names)} have samples, the smallest is {name} with {size:,}"


def _sum(counts: Tensor, where: Tensor) -> str:
    return f"{int(counts[where].sum()):,}"


def _network(run: "Run") -> str:
    network = run.outline() if isinstance(run.network, Recipe) else run.network
    parameters = list(network.parameters())
    size = f"{sum(parameter.numel() for parameter in parameters):,} parameters"
    if isinstance(run.network, Recipe):
        start = "pretrained" if is_pretrained(run.network) else "not pretrained"
        return f"{run.network.name}, {size}, {start}"
    start = "new random weights" if run.fresh else "starts with the weights of the given model"
    model = getattr(run.network.body, "model", run.network.body)  # not what is put around it
    return f"{type(model).__name__}, {size}, {start}"


def _length(config: TrainConfig, steps: int) -> str:
    samples = f"of {config.batch_size} samples"
    if config.steps:
        return f"{steps:,} steps {samples}"
    return f"{config.epochs} epochs x {steps // config.epochs:,} steps {samples}"


def _pace(config: TrainConfig) -> str:
    schedule = "constant" if config.schedule == "none" else config.schedule
    return f"{config.optimizer}, learning rate {config.lr:g}, {schedule}"
