"""FinishedRun: a finished run, read from its folder and from nowhere else."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.parameters import unknown
from crossbias.runs.agreement import agree, lie_within
from crossbias.runs.config_file import check_is_run, read_config
from crossbias.runs.files import load_torch, read_json
from crossbias.runs.folder import RunFolder, as_record, check_finished
from crossbias.runs.health import Symptom, load_health
from crossbias.runs.stored import TrainingLabels, Views, load_labels, load_predictions, load_views
from crossbias.types import UNKNOWN
from crossbias.verify import Metrics, Positive, Predictions, judged_split
from crossbias.verify.detection import detect


class Epoch(NamedTuple):
    """One line of ``log.jsonl``."""

    stage: str
    epoch: int
    seconds: float
    losses: Mapping[str, float]
    validation: Mapping[str, float | None]  # empty where nothing was validated


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FinishedRun:
    """What one run left behind.

    Args:
        path: The folder.
        config: The content of ``config.json``.
        log: The epochs of ``log.jsonl``, in the order in which they ran.
        metrics: For each split, its metrics.
        predictions: For each split, the model's answers.
        views: For each split that has them, features and maps of the model.
        labels: Targets and attributes of the training samples, where the run kept them.
        health: What went wrong in the training, if anything.
        chosen_split: The split to judge by, where the caller asked for another than the usual.
    """

    path: Path
    config: Mapping[str, Any]
    log: tuple[Epoch, ...]
    metrics: Mapping[str, Metrics]
    predictions: Mapping[str, Predictions]
    views: Mapping[str, Views] = field(default_factory=dict)
    labels: TrainingLabels | None = None
    health: tuple[Symptom, ...] = ()
    chosen_split: str | None = None

    def __repr__(self) -> str:
        return f"<{self.path}: {self.method} on {self.config['data']['name']}, seed {self.seed}>"

    @property
    def method(self) -> str:
        """The method's name, such as ``end``."""
        return str(self.config["method"]["name"])

    @property
    def title(self) -> str:
        """The method as a reader knows it: by its paper, or by its name where none is given."""
        if self.method == "erm":
            return "Plain training (ERM)"
        paper = str(self.config.get("paper") or "")
        title = f"{paper[0].upper()}{paper[1:]}" if paper else self.method
        inner = self.config["method"].get("inner")
        return f"{title}, then {inner.get('name')}" if isinstance(inner, dict) else title

    @property
    def seed(self) -> int:
        """The seed of the training."""
        return int(self.config["train"]["seed"])

    @property
    def bias(self) -> str | None:
        """The name of the bias attribute, if the run names one."""
        name: str | None = self.config["data"].get("bias")
        return name

    @property
    def split(self) -> str:
        """The split the run is judged on: ``test``, or else the first that is not trained on."""
        split = self.chosen_split or judged_split(self.metrics)
        assert split is not None  # reading refuses a run without one
        return split

    @property
    def test(self) -> Metrics:
        """The metrics the run is judged by."""
        return self.metrics[self.split]

    @property
    def judged(self) -> Predictions:
        """The answers the run is judged by."""
        if self.split not in self.predictions:
            raise CrossbiasError(
                f"{self.path} has no predictions for its split {self.split!r}, so it cannot be "
                f"compared with others; train the run again"
            )
        return self.predictions[self.split]

    def judged_on(self, split: str) -> "FinishedRun":
        """The same run, judged on another of its splits."""
        if split not in self.metrics:
            raise unknown(f"{self.path} has no split", split, self.metrics, "it was judged on")
        return replace(self, chosen_split=split)

    def finding(self, positive: str) -> "FinishedRun":
        """The same run, with the rates of a positive class on the split it is judged on."""
        answers, wanted = self.judged, Positive(positive)

        def of(metrics: Metrics, attribute: str | None) -> Metrics:
            found = detect(
                answers.target, answers.attribute(attribute), answers.answers,
                answers.probabilities, positive=wanted, classes=metrics.classes,
                values=metrics.biases, cluster=answers.cluster,
            )  # fmt: skip
            return replace(metrics, detection=found)

        others = {
            name: of(part, name) if name in answers.attributes else part
            for name, part in self.test.attributes.items()
        }
        test = replace(of(self.test, self.bias), attributes=others)
        return replace(self, metrics={**self.metrics, self.split: test})

    def hash_of(self, split: str) -> str | None:
        """The content hash of a split, if the run recorded it."""
        hashes: Mapping[str, str] = self.config["data"].get("hashes") or {}
        return hashes.get(split)

    @property
    def curves(self) -> Mapping[str, tuple[str, str]]:
        """The logged losses that have an axis of their own: its title, and the curve's label."""
        declared = self.config["page"].get("curves", {})
        return {name: (title, label) for name, (title, label) in declared.items()}

    def stages_of(self, figure: str, count: int) -> list[Tensor] | None:
        """What so many stages computed that the method declared for a figure of the report.

        The figure is a key of ``page.figures`` in ``config.json``. None where the method declares
        no such figure or the run lacks a stage.
        """
        names = self.config["page"].get("figures", {}).get(figure)
        if names is None:
            return None
        if len(names) != count:
            raise CrossbiasError(
                f"{self.path / 'config.json'} names {len(names)} stages for the figure {figure!r}, "
                f"which reads {count}; train the run again"
            )
        found = [stage for stage in map(self._stage, names) if stage is not None]
        return found if len(found) == count else None

    def _stage(self, name: str) -> Tensor | None:
        folder = self.path / "stages"
        path = folder / f"{name}.pt"
        if not path.resolve().is_relative_to(folder.resolve()):
            raise CrossbiasError(f"{self.path}: the stage {name!r} lies outside of {folder}")
        RunFolder(self.path).check(path)
        found = load_torch(path) if path.exists() else None
        return found if isinstance(found, Tensor) else None


def read_run(folder: Path | str) -> FinishedRun:
    """Read one finished run.

    Raises:
        CrossbiasError: The folder is not a run, the run is not finished, or a file is damaged.
    """
    folder = Path(folder)
    files = RunFolder(folder)
    check_is_run(files.config)
    check_finished(folder)
    files.check(
        *(files.config, files.log, files.metrics, files.predictions),
        *(files.views, files.labels, files.health),
    )
    for path in (files.log, files.metrics, files.predictions):
        if not path.exists():
            raise CrossbiasError(
                f"{path} does not exist, though the run is finished; if it was not judged yet, "
                f"call evaluate(test) of what fit returned; else put the file back, or train the "
                f"run again"
            )
    log, damaged = _read_log(files.log)
    run = FinishedRun(
        path=folder,
        config=read_config(files.config),
        log=log,
        metrics=_read_metrics(files.metrics),
        predictions=load_predictions(files.predictions),
        views=load_views(files.views) if files.views.exists() else {},
        labels=load_labels(files.labels) if files.labels.exists() else None,
        health=(*load_health(files.health), *damaged),
    )
    for split, predictions in run.predictions.items():
        if not agree(predictions, run.metrics.get(split), run.bias):
            raise _mixed("predictions.npz and metrics.json", run, split)
    if run.labels is not None and not _are_of(run.labels, run.config["data"]):
        raise CrossbiasError(
            f"{files.labels} is damaged: it has classes or values that {files.config} does not "
            f"have; train the run again"
        )
    for split, views in run.views.items():
        if not _shows(views, run.predictions.get(split)):
            raise _mixed("views.npz and predictions.npz", run, split)
    return run


def _read_log(path: Path) -> tuple[tuple[Epoch, ...], list[Symptom]]:
    """The epochs, and a symptom if some lines are damaged, as after a power cut."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise CrossbiasError(f"cannot read {path}: {error.strerror or error}") from error
    epochs = [found for line in lines if (found := _epoch(line)) is not None]
    if lines and not epochs:
        raise CrossbiasError(f"{path} is damaged, it is not a training log; train the run again")
    damaged = len(lines) - len(epochs)
    sentence = f"{damaged} of {len(lines)} lines of log.jsonl are damaged and left out."
    remedy = "Curves and times lack these epochs; the results do not depend on them."
    return tuple(epochs), [Symptom("damaged log", sentence, remedy)] if damaged else []


def _epoch(line: str) -> Epoch | None:
    """One line of the log; None if it is damaged."""
    found = as_record(line)
    if found is None:
        return None
    try:
        parts = (dict(found["losses"]), dict(found["validation"] or {}))
        numbers = [float(found["seconds"]), *parts[0].values(), *parts[1].values()]
        whole = all(value is None or isinstance(value, int | float) for value in numbers)
        epoch = Epoch(found["stage"], found["epoch"], numbers[0], *parts)
    except (KeyError, TypeError, ValueError):
        return None
    return epoch if whole else None


def _read_metrics(path: Path) -> dict[str, Metrics]:
    stored = read_json(path)
    try:
        metrics = {split: Metrics.from_json(value) for split, value in stored.items()}
    except (CrossbiasError, AttributeError, OverflowError) as error:
        raise CrossbiasError(f"{path} is damaged: {error}; train the run again") from error
    if not set(metrics) - {"train", "validation"}:
        raise CrossbiasError(f"{path} has no test split, only: {', '.join(metrics) or 'nothing'}")
    return metrics


def _are_of(labels: TrainingLabels, data: Mapping[str, Any]) -> bool:
    """Whether the labels can be those of the training data."""
    known = {name: len(values) for name, values in data["values"].items()}
    return (
        lie_within(labels.target, 0, len(data["classes"]))
        and lie_within(labels.index, 0, 2**62)
        and all(
            lie_within(column, UNKNOWN, known.get(name, 2**62))
            for name, column in labels.attributes.items()
        )
    )


def _shows(views: Views, found: Predictions | None) -> bool:
    """Whether the views can be of these predictions."""
    pictures = None if found is None or found.picture_rows is None else len(found.picture_rows)
    return found is not None and (
        lie_within(views.rows, 0, len(found.target))
        and (views.maps is None or len(views.maps) == pictures)
    )


def _mixed(files: str, run: FinishedRun, split: str) -> CrossbiasError:
    return CrossbiasError(
        f"{run.path}: {files} do not belong together, "
        f"they differ in split {split!r}; train the run again"
    )
