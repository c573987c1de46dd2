"""judge: the model of a run on its own test splits, or on other data that is read alike."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crossbias.data import DATASETS, BiasedDataset, Source, create_source, find_source
from crossbias.data.matching import matched
from crossbias.data.own.columns import chosen_columns
from crossbias.data.own.table_source import TableSource
from crossbias.errors import CrossbiasError
from crossbias.experiment import Experiment, data_options
from crossbias.parameters import parameters_of
from crossbias.progress import Progress
from crossbias.train.record import as_in_training
from crossbias.trained_run import TrainedRun
from crossbias.trust import check_trusted, names_of_code
from crossbias.verify import Metrics, Positive

_WHOLE = {"validation": 0.0, "test": 1.0}  # how data without a column of splits is split
_COLUMNS = ("target", "bias", "split_by", "group_by", "cluster")  # options that name columns
_SIZES = {"size", "image_size"}  # options that set height and width


def judge(
    trained: TrainedRun,
    given: Mapping[str, Any],
    splits: Sequence[str] | None = None,
    *,
    positive: Positive | None = None,
    progress: Progress | None = None,
    trust: bool = False,
) -> dict[str, Metrics]:
    """The metrics of a trained model by split.

    The options of the run's data hold for other data too, unless they are given anew. Other data
    without splits is judged whole.

    Args:
        trained: The run.
        given: Options of the data. Another ``name`` or ``labels`` means other data.
        splits: Names of splits; by default all test splits.
        positive: The class to be found, as ``TrainedRun.positive`` makes it.
        progress: Receives progress reports and notes.
        trust: Import a data source of somebody's own that the run names.
    """
    progress = progress or Progress()
    own = data_options(trained.config)
    if not trust:
        typed = names_of_code("data", given)
        check_trusted({"data": {**own, **given}}, trained.folder / "config.json", typed)
    is_own = _place(own) == _place({**own, **given})
    if is_own and ("planted" in own or not _is_source(own["name"])):
        raise CrossbiasError(
            f"the data of {trained.folder} was made in Python; name other data with --data, or "
            f"judge it there: crossbias.load_run({str(trained.folder)!r}).evaluate(data)"
        )
    experiment = Experiment(data={**(own if is_own else _elsewhere(trained, own, given)), **given})
    experiment.source.progress, experiment.source.judged_only = progress, True
    if not is_own:
        _note_whole(experiment.source, progress)
    found = {}
    names = splits or _test_splits(experiment.source)
    if isinstance(experiment.source, TableSource):  # before any image is decoded
        for name in names:
            matched(experiment.labels(name), trained.facts["classes"], trained.facts["values"])
    for name in names:
        data = experiment.split(name)
        any_size = bool(_SIZES & given.keys())
        found[name] = trained.evaluate(data, any_size=any_size, positive=positive)
        alike = is_own and not given.keys() - {"root"}
        _note_differences(trained, data, alike=alike, progress=progress)
        if positive and positive.threshold and f" the {name} split," in positive.threshold.origin:
            progress.note(
                f"the threshold was chosen on this {name} split, so its rates here are too good"
            )
    return found


def _place(data: Mapping[str, Any]) -> tuple[str, str, str]:
    """Where data is: kind of source, absolute path, and table of labels."""
    kind, _, path = str(data["name"]).partition(":")
    labels = Path(data.get("labels") or "")
    beside = Path(path) / labels
    table = beside if beside.exists() and not labels.exists() else labels
    return kind, os.path.abspath(path), os.path.abspath(table)


def _is_source(name: str) -> bool:
    """Whether data can be loaded by its name; a data set made in Python may have any name."""
    return ":" in name or name in DATASETS


def _elsewhere(
    trained: TrainedRun, own: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The options under which other data is read as the run read its own."""
    name = str(given.get("name", own["name"]))
    kept = {"name": name} | {key: own[key] for key in ("root",) if key in own}
    kind, own_kind = find_source(name), DATASETS.get(str(own["name"]).partition(":")[0])
    if "image_size" in parameters_of(kind) and len(trained.facts["shape"]) == 3:
        kept["image_size"] = trained.facts["shape"][-1]
    if not issubclass(kind, TableSource):
        return kept
    kept |= _WHOLE
    if len(trained.facts["shape"]) == 3:
        kept |= {"size": trained.fit.size, "fit": trained.fit.how, "channels": trained.fit.channels}
    if own_kind is not None and issubclass(own_kind, TableSource):
        known = parameters_of(kind).keys() - {"labels", *_WHOLE}
        kept |= {key: value for key, value in own.items() if key in known}
        table = Path(name.partition(":")[2]) / Path(own.get("labels") or "").name
        if own.get("labels") and "labels" in parameters_of(kind) and table.is_file():
            kept["labels"] = str(table)
    return _without_absent_columns({**kept, **given}, kept)


def _without_absent_columns(data: dict[str, Any], kept: dict[str, Any]) -> dict[str, Any]:
    """The options without those that name a column which the other data does not have."""
    needed = {key: data[key] for key in ("labels", "file") if key in data}
    source = create_source(data["name"], **needed)
    assert isinstance(source, TableSource)
    source.judged_only = True
    kept = {key: value for key, value in kept.items() if key not in _COLUMNS or _has(source, value)}
    if kept.get("attributes"):
        kept["attributes"] = [spec for spec in kept["attributes"] if _has(source, spec)]
    return kept


def _has(source: TableSource, columns: str | None) -> bool:
    """Whether a table has all columns of an option, such as ``age:30,40``."""
    chosen = chosen_columns(columns or "", source.table)
    return all(column.column in source.table.columns for column in chosen)


def _test_splits(source: Source) -> tuple[str, ...]:
    if not source.test_splits:
        raise CrossbiasError(
            f"{source.name} has no test split, only {', '.join(source.available_splits)}; name one "
            f"to judge on (--split), or judge all samples of a table: --set split_by="
        )
    return source.test_splits


def _note_whole(source: Source, progress: Progress) -> None:
    """Say so where data without splits is judged whole."""
    if not isinstance(source, TableSource) or source.split_by in source.table.columns:
        return
    if source.test == 1:
        size = len(source.table.where)
        progress.note(f"{source.title} has no splits: all {size:,} samples are judged")


def _note_differences(
    trained: TrainedRun, data: BiasedDataset, *, alike: bool, progress: Progress
) -> None:
    """Say what cannot be reported, and where data that should be the same is not."""
    if trained.bias is not None and not data.has_bias_labels:
        progress.note(
            f"{data.name} {data.split} has no labels of {trained.bias}, the bias of the run: it is "
            f"judged by class only"
        )
    elif data.bias is not None and data.bias not in trained.facts["values"]:
        progress.note(
            f"the run was trained without the attribute {data.bias}: its groups are reported, but "
            f"none of them is known to be aligned or conflicting"
        )
    recorded = trained.config["data"]["hashes"].get(data.split)
    if alike and recorded not in (None, as_in_training(data, trained.facts).hash):
        progress.note(
            f"{data.name} {data.split} has changed since the run was trained; drawn splits may now "
            f"hold samples of the training"
        )
