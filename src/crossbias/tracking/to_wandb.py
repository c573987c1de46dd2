"""Weights & Biases: a run at its server, or on disk with ``WANDB_MODE=offline``."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from crossbias.tracking.tracker import Outcome, Started, numbers_of

_EXIT_CODES: Final[dict[Outcome, int]] = {"finished": 0, "stopped": 130, "failed": 1}


class WandbTracker:
    """Logs to a run of the project ``WANDB_PROJECT``, or ``crossbias``.

    Args:
        title: Name of the run.
        folder: The run folder, part of the configuration there.
    """

    def __init__(self, title: str, folder: Path | None) -> None:
        import wandb

        self._wandb, self._title, self._folder = wandb, title, folder
        # Silent also means that it never asks for a key at the keyboard: it fails without one.
        self._settings = wandb.Settings(silent=True, console="off")
        wandb.setup(self._settings)

    def start(self, config: Mapping[str, Any], known: str | None) -> Started:
        """Begin a run, or continue it under the same id."""
        self._run: Any = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", "crossbias"),
            id=known,
            resume=None if known is None else "allow",
            name=self._title,
            config={**config, "folder": str(self._folder)} if self._folder else dict(config),
            settings=self._settings,
        )
        path = Path(self._run.dir).parent
        offline = f"wandb offline run; send it with: wandb sync {path}"
        return Started(self._run.id, f"wandb {self._run.url}" if self._run.url else offline)

    def stage(self, name: str) -> None:
        """Set the summary, and give the stage an axis of its own."""
        self._run.summary["stage"] = name
        self._run.define_metric(f"{name}/epoch", hidden=True)
        self._run.define_metric(f"{name}/*", step_metric=f"{name}/epoch")

    def epoch(self, record: Mapping[str, Any], before: int) -> None:
        """Log numbers over the epochs of the stage; W&B's own steps rise over all stages."""
        numbers = numbers_of(record) | {f"{record['stage']}/epoch": record["epoch"]}
        self._run.log(numbers, step=before)

    def results(self, split: str, numbers: Mapping[str, float]) -> None:
        """Add numbers to the summary."""
        self._run.summary.update({f"{split}/{name}": value for name, value in numbers.items()})

    def end(self, outcome: Outcome, reason: str) -> None:
        """Finish the run with an exit code, and the error message in the summary."""
        self._run.summary["reason"] = reason
        self._run.finish(exit_code=_EXIT_CODES[outcome])
