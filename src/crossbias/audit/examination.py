"""The whole audit in one call: data, cues, suspects and, if given, a trained network."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from crossbias.audit.evidence import evidence_of
from crossbias.audit.exports import SliceMember, members_of
from crossbias.audit.findings import Audit
from crossbias.audit.folds import FOLDS, num_present
from crossbias.audit.model import audit_model
from crossbias.audit.near_duplicates import near_duplicates
from crossbias.audit.permutation import ALARM
from crossbias.audit.suspect_sheet import SuspectPicture, slice_pictures, suspect_pictures
from crossbias.audit.suspects import find_suspects
from crossbias.audit.verdict import (
    untested_columns,
    untested_data,
    untested_findings,
    verdict_of,
)
from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.networks.outside import OutsideModel, as_module, with_features
from crossbias.progress import Progress
from crossbias.seeds import generator_for
from crossbias.train.evaluation import predict, prepared
from crossbias.train.normalization import Normalize

PERMUTATIONS: Final = 999  # shuffles behind each p-value

LIMIT: Final = 10_000  # samples in which cues are tested


def audit(
    data: BiasedDataset,
    *,
    files: Sequence[Path | str] | None = None,
    network: nn.Module | Callable[[Tensor], Any] | None = None,
    network_name: str = "network",
    normalize: Normalize | None = None,
    judged: BiasedDataset | None = None,
    judged_files: Sequence[Path | str] | None = None,
    other_columns: Sequence[str] = (),
    permutations: int = PERMUTATIONS,
    limit: int = LIMIT,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
) -> Audit:
    """Test whether a shortcut alone would solve a task, and whether a network follows one.

    Args:
        data: The training data.
        files: The image file of each sample, if there are files.
        network: A trained network to audit as well: one that ``fit`` trained, or a model of
            ``load_model`` or any callable, as ``evaluate`` takes them. What its features reveal is
            tested if it gives features.
        network_name: What to call the network.
        normalize: How images are normalized for the network, as for ``evaluate``. If left out, by
            ``mean`` and ``std`` of the data.
        judged: The split on which the network is audited; ``data`` if left out.
        judged_files: The image file of each sample of that split, if there are files.
        other_columns: Columns of the table of labels that are no attributes of the data. They are
            listed among what was not tested.
        permutations: Number of shuffles of the labels behind each p-value. More are made if there
            are so many attributes that this number could never give a significant p-value.
        limit: Cues are tested in at most this many samples, drawn at random; attributes are
            compared with the target in all samples.
        seed: Seed of everything random in the audit.
        device: Where the briefly trained network runs, as in ``TrainConfig``.
        progress: Receives progress reports.

    Raises:
        CrossbiasError: The data has fewer than two classes, or the files do not fit the samples.
    """
    progress = progress or Progress()
    _check(data, files)
    rows = _drawn(len(data), limit, seed)
    some = _subset(data, rows)
    some_files, tried = _chosen(files, rows), None
    if network is not None:
        shown, shown_files = some, some_files
        if judged is not None:
            _check_files(judged, judged_files)
            chosen = _drawn(len(judged), limit, seed)
            shown, shown_files = _subset(judged, chosen), _chosen(judged_files, chosen)
        tried = _tried(network, shown, normalize)
    attributes, cues = evidence_of(
        data, some, files=some_files, permutations=permutations, seed=seed, progress=progress
    )
    alike = near_duplicates(some, files=some_files, seed=seed)
    suspects = None
    if data.inputs.ndim == 4:
        progress.note(
            "training a small network briefly, to find samples that conflict with easy rules"
        )
        suspects = find_suspects(some, files=some_files, seed=seed, device=device)
    model, members, sheets = None, tuple[SliceMember, ...](), tuple[SuspectPicture, ...]()
    if tried is not None:
        progress.note(f"auditing the model {network_name}")
        model = audit_model(*tried, name=network_name, seed=seed)
        members = tuple(members_of(model.slices, model.answers, shown, shown_files))
        if shown.inputs.ndim == 4:
            sheets = tuple(slice_pictures(shown, model.slices, model.answers))
    not_tested = [
        *untested_columns(other_columns),
        *untested_data(data, audited=len(some), with_files=files is not None),
        *untested_findings(attributes, cues, model),
    ]
    return Audit(
        data=_about(data, some),
        settings={
            "seed": seed, "permutations": permutations, "folds": FOLDS, "confidence": 1 - ALARM,
        },
        attributes=tuple(attributes),
        cues=tuple(cues),
        near_duplicates=alike,
        suspects=suspects,
        model=model,
        verdict=verdict_of(attributes, cues, model, not_tested, alike, _clusters(data)),
        slice_members=members,
        pictures=(*(() if suspects is None else suspect_pictures(some, suspects)), *sheets),
    )  # fmt: skip


def _tried(
    network: nn.Module | Callable[[Tensor], Any], data: BiasedDataset, normalize: Normalize | None
) -> tuple[nn.Module, BiasedDataset]:
    """A model that gives features if it can, and the data as it takes it.

    A model of somebody else answers two samples now: what it does not take is found before the
    long work.
    """
    found = with_features(as_module(network), data.seen_shape)
    if normalize is not None or isinstance(found, OutsideModel):
        data = prepared(found, data, normalize)
        predict(found, data.subset(torch.arange(min(2, len(data)))))
    return found, data


def _check(data: BiasedDataset, files: Sequence[Path | str] | None) -> None:
    present = num_present(data.targets)
    if present < 2:
        raise CrossbiasError(
            f"{data.name} {data.split} has samples of {present} class only; an audit asks what "
            f"tells classes apart, so add samples of another class"
        )
    _check_files(data, files)


def _check_files(data: BiasedDataset, files: Sequence[Path | str] | None) -> None:
    if files is not None and len(files) != len(data):
        raise CrossbiasError(
            f"{data.name} has {len(data)} samples but {len(files)} files; name one for each sample"
        )


def _chosen(files: Sequence[Path | str] | None, rows: Tensor) -> list[Path] | None:
    return None if files is None else [Path(files[row]) for row in rows.tolist()]


def _drawn(n: int, limit: int, seed: int) -> Tensor:
    if n <= limit:
        return torch.arange(n)
    return torch.randperm(n, generator=generator_for(seed, "audited"))[:limit].sort().values


def _subset(data: BiasedDataset, rows: Tensor) -> BiasedDataset:
    return data if len(rows) == len(data) else data.subset(rows)


def _clusters(data: BiasedDataset) -> str:
    """What was done about samples that belong together, as a paragraph of the verdict."""
    if data.cluster is None:
        return ""
    number = len(torch.unique(data.cluster))
    return (
        f"The {len(data):,} samples are in {number:,} clusters. Samples of a cluster stay together "
        f"in all tests, and intervals are over clusters."
    )


def _about(data: BiasedDataset, some: BiasedDataset) -> dict[str, Any]:
    counts = torch.bincount(data.targets, minlength=data.num_classes).tolist()
    classes = [{"name": name, "n": n} for name, n in zip(data.classes, counts, strict=True)]
    return {
        "name": data.name, "split": data.split, "hash": data.hash, "samples": len(data),
        "audited": len(some), "classes": classes,
        "clusters": None if data.cluster is None else len(torch.unique(data.cluster)),
    }  # fmt: skip
