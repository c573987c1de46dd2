"""What a run is: enough to judge it and to repeat it, and to refuse resuming another one."""

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from crossbias.data.dataset import BiasedDataset
from crossbias.data.matching import matched
from crossbias.errors import CrossbiasError
from crossbias.networks.network import Network, Normalization
from crossbias.networks.recipe import Recipe
from crossbias.train.config import TrainConfig
from crossbias.train.environment import command_line, environment, package_version, source_commit
from crossbias.train.method import Method, Supervision, described
from crossbias.trust import names_of_code
from crossbias.verify.cells import Alignment, aligned_names

_CIRCUMSTANCES = ("version", "command", "commit", "environment")
_PARTS = ("method", "data", "network", "train")
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
    fresh: bool,
    config: TrainConfig,
    device: torch.device,
) -> dict[str, Any]:
    """The content of ``config.json``."""
    hashes = {data.split: data.hash for data in (train, validation) if data is not None}
    return {
        "version": package_version(),
        "command": command_line(),
        "commit": source_commit(),
        "method": described(method),
        "paper": method.paper,
        "supervision": supervision_of(method, config),
        "selection": config.selection,
        "page": method.page(),
        "data": {
            "name": train.name,
            **train.origin,
            "bias": train.bias,
            "hashes": hashes,
            **_facts(train),
        },
        "network": _described(network, fresh),
        "train": asdict(config),
        "environment": environment(device),
    }


def supervision_of(method: Method, config: TrainConfig) -> Supervision:
    """What a training must know about the bias: the method, and the way samples are drawn."""
    return "bias labels" if config.sampling == "group-balanced" else method.supervision


def check_same_run(saved: dict[str, Any], own: dict[str, Any], path: Path) -> None:
    """Refuse to resume another run; where it runs may differ."""
    own = json.loads(json.dumps(own))  # tuples become lists, as in the file
    for split, digest in own["data"]["hashes"].items():
        if saved["data"]["hashes"].get(split) != digest:
            raise CrossbiasError(f"the run in {path} was started with other {split} data")
    for part in _PARTS:
        names = {*saved[part], *own[part]} - _MAY_DIFFER
        for name in sorted(names, key=lambda each: (each != "name", each)):  # it decides the others
            before, now = saved[part].get(name), own[part].get(name)
            if before != now:
                was, would = ("unset" if value is None else repr(value) for value in (before, now))
                raise CrossbiasError(
                    f"the run in {path} was started with {part} {name} = {was}, not {would}; "
                    f"resume it as it was, or start another in a new folder"
                )


def with_resume(saved: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """What a resumed run records: what it was started with, and a list of how it went on."""
    first = {name: saved.get(name) for name in _CIRCUMSTANCES}
    again = {name: own[name] for name in _CIRCUMSTANCES}
    return first | {"resumes": [*saved.get("resumes", []), again]}


def names_code(record: dict[str, Any]) -> bool:
    """Whether a run names code that needs the user's trust."""
    return any(names_of_code(part, record[part]) for part in ("method", "data", "network"))


def identity_of(record: dict[str, Any]) -> str:
    """Hash of what a run must keep from its start to its end: what ``check_same_run`` compares."""
    kept = {
        part: {name: value for name, value in record[part].items() if name not in _MAY_DIFFER}
        for part in _PARTS
    }
    hashes = {split: record["data"]["hashes"].get(split) for split in ("train", "validation")}
    text = json.dumps([kept, hashes], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _facts(train: BiasedDataset) -> dict[str, Any]:
    """What it takes to use the trained network without the training data.

    ``aligned`` lists, for each attribute and each class, the values that go along with the class.
    ``pixels`` says how images are cut and normalized.
    """
    aligned = {}
    for name, values in train.values.items():
        table = train.with_bias(name).alignment()
        aligned[name] = [list(names) for names in aligned_names(table, values)]
    return {
        "shape": list(train.inputs.shape[1:]),
        "classes": list(train.classes),
        "values": {name: list(values) for name, values in train.values.items()},
        "aligned": aligned,
        "pixels": {"crop": train.crop, "mean": list(train.mean), "std": list(train.std)},
    }


def as_in_training(
    data: BiasedDataset, facts: dict[str, Any], *, any_size: bool = False
) -> BiasedDataset:
    """Other data as the trained network must see it.

    Classes and values are numbered by name as in the training, and images are cut and normalized
    as in the training.

    Args:
        data: The data to judge the network on.
        facts: What ``config.json`` records of the training data.
        any_size: Accept images of another height and width than those of the training.
    """
    data = matched(data, facts["classes"], facts["values"])
    shape, trained = list(data.inputs.shape[1:]), facts["shape"]
    crop = facts["pixels"]["crop"]
    cut = [*trained[:-2], crop, crop]  # images that were published as cut as a network sees them
    if shape not in (trained, cut) and not (
        any_size and (len(shape), shape[0]) == (len(trained), trained[0])
    ):
        found, wanted = (" x ".join(map(str, sizes)) for sizes in (shape, trained))
        raise CrossbiasError(
            f"{data.name} {data.split} has inputs of {found}, but the model was trained on "
            f"{wanted}; load the data with the size and channels of the training"
        )
    mean, std = normalization_of(facts)
    if (data.crop, data.mean, data.std) == (crop, mean, std):
        return data
    return replace(data, crop=crop, mean=mean, std=std)


def normalization_of(facts: dict[str, Any]) -> Normalization:
    """Mean and standard deviation of the training images."""
    return tuple(facts["pixels"]["mean"]), tuple(facts["pixels"]["std"])


def alignments_in(facts: dict[str, Any]) -> dict[str, Alignment]:
    """For every attribute of the training data, which values go along with which class."""
    tables = {}
    for name, by_class in facts["aligned"].items():
        values = tuple(facts["values"][name])
        flags = [[value in listed for value in values] for listed in by_class]
        table = torch.tensor(flags, dtype=torch.bool).view(len(by_class), len(values))
        tables[name] = Alignment(values, table)
    return tables


def _described(network: Network | Recipe, fresh: bool) -> dict[str, Any]:
    if isinstance(network, Recipe):
        return {"name": network.name} | dict(network.options)
    size = sum(parameter.numel() for parameter in network.parameters())
    body = type(network.body).__name__
    return {"name": None, "body": body, "parameters": size, "fresh": fresh}
