"""write_features: what a frozen network computes for every sample, written once to a folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from crossbias.data import BiasedDataset
from crossbias.data.own.feature_folder import ABOUT, described, files_of, write_labels
from crossbias.defaults import is_pretrained
from crossbias.errors import CrossbiasError
from crossbias.experiment import Experiment, load_trained
from crossbias.networks import Network
from crossbias.progress import Progress
from crossbias.runs.files import hash_of, whole_folder, write_atomically, write_json
from crossbias.train.evaluation import batches_for, evaluation_pass


def features_of_run(
    run: Path, out: Path, *, device: str = "auto", trust: bool = False,
    progress: Progress | None = None,
) -> int:  # fmt: skip
    """Write the features of a finished run's network for all splits of its data.

    Args:
        run: Folder of the run.
        out: The new folder, a data source ``features:OUT``.
        device: Where to compute, as in ``TrainConfig``.
        trust: Whether code that the run names may be imported.
        progress: Receives reports.

    Returns:
        The number of features of a sample.
    """
    experiment, network = load_trained(run, trust=trust)
    about = {"run": str(run)}
    return write_features(experiment, network, out, about, device=device, progress=progress)


def features_of_network(
    experiment: Experiment, out: Path, *, device: str = "auto", progress: Progress | None = None
) -> int:
    """Write the features of a pretrained network for all splits of a data set.

    Args:
        experiment: Names the data and the network.
        out: The new folder, a data source ``features:OUT``.
        device: Where to compute, as in ``TrainConfig``.
        progress: Receives reports.

    Returns:
        The number of features of a sample.
    """
    recipe = experiment.chosen_recipe()
    if not is_pretrained(recipe):
        raise CrossbiasError(
            f"the network {recipe.name} has random weights, whose features say little; add --set "
            f"network.pretrained=true or --set network.weights=FILE, or name a finished run"
        )
    data = experiment.split(experiment.source.available_splits[0], progress)
    network = recipe.build(num_classes=data.num_classes, shape=data.inputs.shape[1:])
    about = {"network": {"name": recipe.name, **recipe.options}}
    return write_features(experiment, network, out, about, device=device, progress=progress)


def write_features(
    experiment: Experiment,
    network: Network,
    out: Path,
    about: Mapping[str, Any],
    *,
    device: str = "auto",
    progress: Progress | None = None,
) -> int:
    """Write features and labels of every split; the folder is whole or absent.

    Args:
        experiment: Names the data.
        network: Computes the features, in evaluation mode.
        out: The new folder.
        about: Where the network is from, for the record.
        device: Where to compute.
        progress: Receives reports.

    Returns:
        The number of features of a sample.
    """
    from crossbias.train.devices import find_device  # brings Fabric

    if out.exists():
        raise CrossbiasError(f"{out} exists; choose another folder with --out")
    progress, network = progress or Progress(), network.to(find_device(device))
    hashes: dict[str, list[str]] = {}
    width = 0
    with whole_folder(out) as folder:
        for split in experiment.source.available_splits:
            progress.note(f"features of {split}")
            data = experiment.split(split, progress)
            width = _write_split(folder, split, network, data)
            hashes[split] = [hash_of(folder / name) for name in files_of(split)]
        found = {"data": dict(experiment.data), **about, **described(data, hashes)}
        write_json(folder / ABOUT, found)
    return width


def _write_split(folder: Path, split: str, network: Network, data: BiasedDataset) -> int:
    """Write the features of a split batch by batch; how many a sample has."""
    widths: list[int] = []

    def write(file: BinaryIO) -> None:
        for _, output in evaluation_pass(network, batches_for(network, data)):
            features = output.features.flatten(1).to("cpu", torch.float32)
            if not widths:
                shape = (len(data), features.shape[1])
                header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
            widths.append(features.shape[1])
            file.write(features.contiguous().numpy().tobytes())

    features, labels = files_of(split)
    write_atomically(folder / features, write)
    write_labels(folder / labels, data)
    return widths[0]
