"""Reading a run folder, and refusing one that is not whole."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.explain import Views, load_labels, load_views
from crossbias.finished import check_finished
from crossbias.report.runs import Epoch, RunFolder
from crossbias.storage import read_json
from crossbias.types import UNKNOWN
from crossbias.verify import Estimate, Metrics, Predictions, judged_split, load_predictions

REQUIRED = ("method.name", "supervision", "selection", "data.name", "train.seed")
"""What the report needs of ``config.json``; everything else in it is shown as it is."""


def read_run(folder: Path) -> RunFolder:
    """Read one finished run.

    Raises:
        CrossbiasError: The folder is not a run, the run is not finished, or a file is damaged.
    """
    if not (folder / "config.json").is_file():
        raise CrossbiasError(
            f"{folder} is not a run folder: it has no config.json; "
            f"name folders that `crossbias train --out FOLDER` wrote"
        )
    check_finished(folder)
    for name in ("log.jsonl", "metrics.json", "predictions.npz"):
        if not (folder / name).exists():
            raise CrossbiasError(
                f"{folder / name} does not exist, though the run is finished; put the file back, "
                f"or train the run again"
            )
    run = RunFolder(
        path=folder,
        config=_read_config(folder / "config.json"),
        log=_read_log(folder / "log.jsonl"),
        metrics=_read_metrics(folder / "metrics.json"),
        predictions=load_predictions(folder / "predictions.npz"),
        **_read_optional(folder),
    )
    for split, predictions in run.predictions.items():
        _check_fits(run, split, predictions)
    for split, views in run.views.items():
        _check_views(run, split, views)
    return run


def _read_config(path: Path) -> dict[str, Any]:
    config = read_json(path)
    for name in REQUIRED:
        value = config
        for key in name.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is None:
            raise CrossbiasError(f"{path} is damaged: it lacks {name}")
    return dict(config)


def _read_log(path: Path) -> tuple[Epoch, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return tuple(_epoch(json.loads(line)) for line in lines)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CrossbiasError(f"{path} is damaged, it is not a training log: {error!r}") from error


def _epoch(line: Mapping[str, Any]) -> Epoch:
    seconds, losses = float(line["seconds"]), dict(line["losses"])
    return Epoch(line["stage"], line["epoch"], seconds, losses, dict(line["validation"] or {}))


def _read_metrics(path: Path) -> dict[str, Metrics]:
    stored = read_json(path)
    try:
        metrics = {split: Metrics.from_json(value) for split, value in stored.items()}
    except (CrossbiasError, AttributeError) as error:
        raise CrossbiasError(f"{path} is damaged: {error}") from error
    if not set(metrics) - {"train", "validation"}:
        raise CrossbiasError(f"{path} has no test split, only: {', '.join(metrics) or 'nothing'}")
    return metrics


def _read_optional(folder: Path) -> dict[str, Any]:
    """What older runs lack."""
    metrics, views, labels = (folder / name for name in ("metrics.json", "views.npz", "labels.npz"))
    splits = read_json(metrics)
    judged = splits[judged_split(splits) or ""]
    return {
        "measures": _measures(judged),
        "views": load_views(views) if views.exists() else {},
        "labels": load_labels(labels) if labels.exists() else None,
    }


def _measures(judged: Mapping[str, Any]) -> dict[str, Estimate]:
    """Numbers with intervals that have no place of their own in the report."""
    shown = {"overall", "aligned", "conflicting", "unbiased", "worst_group"}
    return {
        name: Estimate.from_json(value)
        for name, value in judged.items()
        if name not in shown
        and isinstance(value, dict)
        and {"value", "low", "high", "n"} <= set(value)
    }


def _check_fits(run: RunFolder, split: str, predictions: Predictions) -> None:
    """Refuse predictions that are not the ones the metrics were computed from."""
    metrics, bias = run.metrics.get(split), predictions.attributes.get(run.bias or "")
    fits = metrics is not None and (
        tuple(predictions.probabilities.shape) == (metrics.overall.n, len(metrics.classes))
        and _lie_within(predictions.target, 0, len(metrics.classes))
        and (bias is None or _lie_within(bias, UNKNOWN, len(metrics.biases)))
    )
    if not fits:
        raise CrossbiasError(
            f"{run.path}: predictions.npz and metrics.json do not belong together, "
            f"they differ in split {split!r}; train the run again"
        )


def _lie_within(numbers: Tensor, low: int, high: int) -> bool:
    return bool(((numbers >= low) & (numbers < high)).all())


def _check_views(run: RunFolder, split: str, views: Views) -> None:
    """Refuse views that are not of the stored predictions."""
    found = run.predictions.get(split)
    pictures = None if found is None or found.picture_rows is None else len(found.picture_rows)
    fits = found is not None and (
        _lie_within(views.rows, 0, len(found.target))
        and (views.maps is None or len(views.maps) == pictures)
    )
    if not fits:
        raise CrossbiasError(
            f"{run.path}: views.npz and predictions.npz do not belong together, "
            f"they differ in split {split!r}; train the run again"
        )
