"""RunFolder: a finished run, read from its folder and from nowhere else."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.explain import Labels, Views
from crossbias.parameters import closest
from crossbias.tensors import load_torch
from crossbias.verify import Estimate, Metrics, Predictions, judged_split


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
        measures: Further numbers of the judged split, by name.
        views: What was kept of a look into the model, by split.
        labels: Targets and attributes of the training samples, where the run kept them.
        chosen_split: The split to judge by, where somebody asked for another than the usual.
    """

    path: Path
    config: Mapping[str, Any]
    log: tuple[Epoch, ...]
    metrics: Mapping[str, Metrics]
    predictions: Mapping[str, Predictions]
    measures: Mapping[str, Estimate] = field(default_factory=dict)
    views: Mapping[str, Views] = field(default_factory=dict)
    labels: Labels | None = None
    chosen_split: str | None = None

    @property
    def method(self) -> str:
        """The method's name, such as ``end``."""
        return str(self.config["method"]["name"])

    @property
    def title(self) -> str:
        """The method as a reader knows it: by its paper, or by its name where none is given."""
        if self.method == "erm":
            return "Plain training (ERM)"
        title = str(self.config.get("paper") or self.method)
        inner = self.config["method"].get("inner")
        return f"{title}, then {inner.get('name')}" if isinstance(inner, dict) else title

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

    def judged_on(self, split: str) -> "RunFolder":
        """The same run, judged on another of its splits.

        Raises:
            CrossbiasError: The run has no numbers of such a split.
        """
        if split not in self.metrics:
            raise CrossbiasError(
                f"{self.path} has no split {split!r}{closest(split, self.metrics)}; "
                f"it was judged on: {', '.join(self.metrics)}"
            )
        return replace(self, chosen_split=split)

    def hash_of(self, split: str) -> str | None:
        """The content hash of a split, if the run recorded it."""
        hashes: Mapping[str, str] = self.config["data"].get("hashes") or {}
        return hashes.get(split)

    def stage(self, name: str) -> Tensor | None:
        """What a stage of the run computed, if the run kept it.

        Raises:
            CrossbiasError: The file is damaged.
        """
        path = self.path / "stages" / f"{name}.pt"
        found = load_torch(path) if path.exists() else None
        return found if isinstance(found, Tensor) else None
