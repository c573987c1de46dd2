"""TensorBoard: event files in the run folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crossbias.tracking.tracker import Outcome, Started, numbers_of


class TensorBoardTracker:
    """Writes event files. A resume adds a file to the same folder, which TensorBoard joins.

    Args:
        title: Name of the run; TensorBoard takes that of the folder.
        folder: The run folder.
    """

    def __init__(self, title: str, folder: Path | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        assert folder is not None, f"{title} has no folder"
        self._make, self._path = SummaryWriter, folder / "tensorboard"

    def start(self, config: Mapping[str, Any], known: str | None) -> Started:
        """Open an event file; the configuration is a text."""
        self._writer: Any = self._make(str(self._path))
        if known is None:
            lines = json.dumps(config, indent=2, default=str).splitlines()
            self._writer.add_text("config", "\n".join(f"    {line}" for line in lines))
        self._writer.flush()
        return Started(str(self._path), f"tensorboard --logdir {self._path}")

    def stage(self, name: str) -> None:
        """Write a text."""
        self._writer.add_text(f"stage/{name}", "begun")
        self._writer.flush()

    def epoch(self, record: Mapping[str, Any], before: int) -> None:
        """Write scalars over the epochs of the stage."""
        for name, value in numbers_of(record).items():
            self._writer.add_scalar(name, value, record["epoch"])
        self._writer.flush()

    def results(self, split: str, numbers: Mapping[str, float]) -> None:
        """Write scalars without an axis."""
        for name, value in numbers.items():
            self._writer.add_scalar(f"{split}/{name}", value, 0)
        self._writer.flush()

    def end(self, outcome: Outcome, reason: str) -> None:
        """Write a text and close the file."""
        self._writer.add_text("end", f"{outcome}: {reason}" if reason else outcome)
        self._writer.close()
