"""RunFolder: a finished run, read from its folder and from nowhere else."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.storage import read_json
from crossbias.types import UNKNOWN
from crossbias.verify import Metrics, Predictions, load_predictions

REQUIRED = ("method.name", "supervision", "selection", "data.name", "train.seed")
"""What the report needs of ``config.json``; everything else in it is shown as it is."""


class Epoch(NamedTuple):
    """One line of ``log.jsonl``."""

    stage: str
    epoch: int
    seconds: float
    losses: Mapping[str, float]
    validation: Mapping[str, float | None]  # empty where nothing was validated


@dataclass(frozen=True, eq=False, kw_only=True)
class RunFolder:
    """What one run left behind.

    Args:
        path: The folder.
        config: The content of ``config.json``.
        log: The epochs of ``log.jsonl``, in the order they ran.
        metrics: For each split, its metrics.
        predictions: For each split, the model's answers.
    """

    path: Path
    config: Mapping[str, Any]
    log: tuple[Epoch, ...]
    metrics: Mapping[str, Metrics]
    predictions: Mapping[str, Predictions]

    @property
    def method(self) -> str:
        """The method's name, such as ``end``."""
        return str(self.config["method"]["name"])

    @property
    def title(self) -> str:
        """The method as a reader knows it: by its paper, or by its name where none is given."""
        if self.method == "erm":
            return "Plain training (ERM)"
        return str(self.config.get("paper") or self.method)

    @property
    def bias(self) -> str | None:
        """The name of the bias attribute, if the run names one."""
        name: str | None = self.config["data"].get("bias")
        return name

    @property
    def split(self) -> str:
        """The split the run is judged on: ``test``, or else the first that is not trained on."""
        judged = [split for split in self.metrics if split not in ("train", "validation")]
        return "test" if "test" in judged else judged[0]

    @property
    def test(self) -> Metrics:
        """The metrics the run is judged by."""
        return self.metrics[self.split]

    def hash_of(self, split: str) -> str | None:
        """The content hash of a split, if the run recorded it."""
        hashes: Mapping[str, str] = self.config["data"].get("hashes") or {}
        return hashes.get(split)


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
    if not (folder / "done").exists():
        raise CrossbiasError(
            f"the run in {folder} is not finished; "
            f"finish it with: crossbias train --resume --out {folder}"
        )
    run = RunFolder(
        path=folder,
        config=_read_config(folder / "config.json"),
        log=_read_log(folder / "log.jsonl"),
        metrics=_read_metrics(folder / "metrics.json"),
        predictions=load_predictions(folder / "predictions.npz"),
    )
    for split, predictions in run.predictions.items():
        _check_fits(run, split, predictions)
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
    except FileNotFoundError:
        raise CrossbiasError(f"{path} does not exist") from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CrossbiasError(f"{path} is damaged, it is not a training log: {error!r}") from error


def _epoch(line: Mapping[str, Any]) -> Epoch:
    seconds, losses = float(line["seconds"]), dict(line["losses"])
    return Epoch(line["stage"], line["epoch"], seconds, losses, dict(line["validation"] or {}))


def _read_metrics(path: Path) -> dict[str, Metrics]:
    try:
        metrics = {split: Metrics.from_json(value) for split, value in read_json(path).items()}
    except (CrossbiasError, AttributeError) as error:
        raise CrossbiasError(f"{path} is damaged: {error}") from error
    if not set(metrics) - {"train", "validation"}:
        raise CrossbiasError(f"{path} has no test split, only: {', '.join(metrics) or 'nothing'}")
    return metrics


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
