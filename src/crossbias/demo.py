"""The demo: what a shortcut does to plain training, and what three methods do about it."""

from pathlib import Path
from typing import Any, Final

from crossbias.experiment import Experiment
from crossbias.train.progress import Progress
from crossbias.train.result import Result

DATA: Final[dict[str, Any]] = {"name": "glyphs", "size": 4000, "rho": 0.97}
METHODS: Final[dict[str, dict[str, Any]]] = {
    "erm": {},
    "end": {"alpha": 1.0, "beta": 1.0},
    "rebias": {},
    "pgd": {},
}
TRAIN: Final[dict[str, Any]] = {"epochs": 5}


def run_demo(out: Path, *, seed: int = 0, progress: Progress | None = None) -> dict[str, Result]:
    """Train the four methods, each in its own folder under ``out``, and write the report."""
    from crossbias.report import write_report

    results = {}
    for name, hyperparameters in METHODS.items():
        if progress is not None:
            progress.note(f"{name}:")
        experiment = Experiment(
            method={"name": name} | hyperparameters, data=DATA, train=TRAIN | {"seed": seed}
        )
        results[name] = experiment.run(out / name, progress=progress)
    write_report([out / name for name in METHODS], out / "report.html")
    return results
