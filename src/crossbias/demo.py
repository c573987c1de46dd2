"""The demo: what a shortcut does to plain training, and what three methods do about it."""

from pathlib import Path
from typing import Any, Final

from torch import nn

from crossbias.experiment import Experiment
from crossbias.networks.network import Network
from crossbias.parameters import Count
from crossbias.train.progress import Progress
from crossbias.train.result import Result

DATA: Final[dict[str, Any]] = {"name": "glyphs", "size": 3000, "image_size": 20, "rho": 0.94}
NETWORK: Final[dict[str, Any]] = {"name": "simple-convnet-1", "dropout": 0.0}
TRAIN: Final[dict[str, Any]] = {
    "epochs": 12,
    "lr": 0.003,
    "schedule": "milestones",
    "milestones": (0.75,),
}
METHODS: Final[dict[str, dict[str, Any]]] = {
    "erm": {},
    "end": {"variant": "paper", "alpha": 5.0, "beta": 2.0},
    "rebias": {"biased": "crossbias.demo:color_network", "lambda_f": 30.0, "lambda_g": 10.0},
    "pgd": {"biased_epochs": 2, "from_biased": False},
}


def color_network(*, num_classes: Count, in_channels: Count = 3) -> Network:
    """A network that sees color and no shape: the g of ReBias, small enough for two cores."""
    body = nn.Sequential(
        nn.Conv2d(in_channels, 16, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
    )  # fmt: skip
    return Network(body, nn.Linear(32, num_classes))


def run_demo(out: Path, *, seed: int = 0, progress: Progress | None = None) -> dict[str, Result]:
    """Train the four methods, each in its own folder under ``out``, and write the report.

    Args:
        out: Folder of the runs and of ``report.html``.
        seed: Of the drawings and of the trainings.
        progress: Who hears about it.
    """
    from crossbias.report import write_report

    results = {}
    for name, hyperparameters in METHODS.items():
        if progress is not None:
            progress.note(f"{name}:")
        experiment = Experiment(
            method={"name": name} | hyperparameters,
            data=DATA | {"seed": seed},
            network=NETWORK,
            train=TRAIN | {"seed": seed},
        )
        results[name] = experiment.run(out / name, progress=progress)
    write_report([out / name for name in METHODS], out / "report.html")
    return results
