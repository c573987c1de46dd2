"""MLflow: a run at the server or in the database that ``MLFLOW_TRACKING_URI`` names."""

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from crossbias.tracking.tracker import Outcome, Started, flattened, numbers_of

_STATUS: Final[dict[Outcome, str]] = {
    "finished": "FINISHED",
    "stopped": "KILLED",
    "failed": "FAILED",
}
_LONGEST: Final = 500  # letters of a parameter or tag that every server takes
_MOST: Final = 100  # parameters in one request
_FORBIDDEN: Final = re.compile(r"[^\w\-. /]", re.ASCII)  # in the name of a metric


class MLflowTracker:
    """Logs parameters, metrics and tags with MLflow's client; no run is active in the process.

    The experiment is that of ``MLFLOW_EXPERIMENT_NAME``, or ``crossbias``.

    Args:
        title: Name of the run.
        folder: The run folder, noted as a tag.
    """

    def __init__(self, title: str, folder: Path | None) -> None:
        from mlflow import MlflowClient

        self._make, self._title, self._folder, self._id = MlflowClient, title, folder, ""

    def start(self, config: Mapping[str, Any], known: str | None) -> Started:
        """Create a run with the configuration as parameters, or set it running again."""
        from mlflow.entities import Param

        self._client: Any = self._make()
        if known is not None:
            self._id = known
            self._client.update_run(known, status="RUNNING")
        else:
            tags = {"crossbias.folder": str(self._folder)} if self._folder else {}
            created = self._client.create_run(self._experiment(), run_name=self._title, tags=tags)
            self._id = created.info.run_id
            texts = flattened(config).items()
            params = [Param(_named(name), text[:_LONGEST]) for name, text in texts]
            for first in range(0, len(params), _MOST):
                self._client.log_batch(self._id, params=params[first : first + _MOST])
        return Started(self._id, f"mlflow run {self._id} at {self._client.tracking_uri}")

    def stage(self, name: str) -> None:
        """Set a tag."""
        self._client.set_tag(self._id, "stage", name)

    def epoch(self, record: Mapping[str, Any], before: int) -> None:
        """Log metrics over the epochs of the stage."""
        self._log(numbers_of(record), record["epoch"])

    def results(self, split: str, numbers: Mapping[str, float]) -> None:
        """Log metrics without an axis."""
        self._log({f"{split}/{name}": value for name, value in numbers.items()}, 0)

    def end(self, outcome: Outcome, reason: str) -> None:
        """Set the status, and the error message as a tag."""
        self._client.set_tag(self._id, "reason", reason[:_LONGEST])
        self._client.set_terminated(self._id, status=_STATUS[outcome])

    def _log(self, numbers: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(_named(name), value, now, step) for name, value in numbers.items()]
        self._client.log_batch(self._id, metrics=metrics)

    def _experiment(self) -> str:
        from mlflow.exceptions import MlflowException

        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "crossbias")
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name))
            except MlflowException:  # another run may have been faster
                found = self._client.get_experiment_by_name(name)
                if found is None:
                    raise
        return str(found.experiment_id)


def _named(name: str) -> str:
    """A name with the letters that MLflow allows.

    >>> _named("final/loss/[x]")
    'final/loss/_x_'
    """
    return _FORBIDDEN.sub("_", name)
