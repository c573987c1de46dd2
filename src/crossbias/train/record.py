"""What a run is: enough to judge it and to do it again, and to refuse resuming another."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.networks import Network, Recipe
from crossbias.registry import described
from crossbias.train.config import TrainConfig
from crossbias.train.environment import (
    command_line,
    crossbias_version,
    environment,
    source_commit,
)
from crossbias.train.method import Method

_MAY_DIFFER = {
    *("device", "processes", "workers", "resident_bytes", "cuda_graphs", "compile"),
    *("root", "hashes"),
}


def record_of(
    method: Method,
    train: BiasedDataset,
    validation: BiasedDataset | None,
    *,
    network: Network | Recipe,
    config: TrainConfig,
    device: torch.device,
) -> dict[str, Any]:
    """The content of ``config.json``."""
    hashes = {data.split: data.hash for data in (train, validation) if data is not None}
    return {
        "version": crossbias_version(),
        "command": command_line(),
        "commit": source_commit(),
        "method": described(method),
        "paper": method.paper,
        "supervision": method.supervision,
        "selection": config.selection,
        "data": {"name": train.name} | dict(train.origin) | {"bias": train.bias, "hashes": hashes},
        "network": _described(network),
        "train": asdict(config),
        "environment": environment(device),
    }


def check_same_run(saved: dict[str, Any], own: dict[str, Any], path: Path) -> None:
    """Refuse to resume another run; where it runs may differ."""
    own = json.loads(json.dumps(own))  # tuples become lists, as in the file
    for split, digest in own["data"]["hashes"].items():
        if saved["data"]["hashes"].get(split) != digest:
            raise CrossbiasError(f"the run in {path} was started with other {split} data")
    for part in ("method", "data", "network", "train"):
        for name in sorted({*saved[part], *own[part]} - _MAY_DIFFER):
            before, now = saved[part].get(name), own[part].get(name)
            if before != now:
                raise CrossbiasError(
                    f"the run in {path} was started with {part} {name} = {before!r}, not {now!r}; "
                    f"resume it as it was, or start another in a new folder"
                )


def _described(network: Network | Recipe) -> dict[str, Any]:
    if isinstance(network, Recipe):
        return {"name": network.name} | dict(network.options)
    size = sum(parameter.numel() for parameter in network.parameters())
    return {"name": None, "body": type(network.body).__name__, "parameters": size}
