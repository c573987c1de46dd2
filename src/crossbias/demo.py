"""The demo: plain training follows a shortcut, and three methods that reduce it."""

from pathlib import Path
from typing import Any, Final

from torch import nn

from crossbias.errors import CrossbiasError
from crossbias.experiment import Experiment
from crossbias.networks.network import Network
from crossbias.parameters import Count
from crossbias.progress import Progress
from crossbias.runs.config_file import read_config
from crossbias.runs.files import read_json
from crossbias.runs.folder import RunFolder
from crossbias.verify import Metrics

DATA: Final[dict[str, Any]] = {"name": "glyphs", "size": 3000, "image_size": 20, "rho": 0.94}
NETWORK: Final[dict[str, Any]] = {"name": "small-convnet", "dropout": 0.0}
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
    """A network that sees color but no shape: the biased network g of ReBias, for a CPU."""
    body = nn.Sequential(
        nn.Conv2d(in_channels, 16, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
    )  # fmt: skip
    return Network(body, nn.Linear(32, num_classes))


def run_demo(out: Path, *, seed: int = 0, progress: Progress | None = None) -> dict[str, Metrics]:
    """Train four methods, each in its own folder under ``out``, and write the report.

    An interrupted demo continues where it stopped. Finished trainings are not repeated. Returns
    the metrics of each method on the unbiased test split.
    """
    from crossbias.report import report

    progress = progress or Progress()
    for name, hyperparameters in METHODS.items():
        experiment = Experiment(
            method={"name": name} | hyperparameters,
            data=DATA | {"seed": seed},
            network=NETWORK,
            train=TRAIN | {"seed": seed},
        )
        _run_or_continue(experiment, RunFolder(out / name), progress)
    report([out / name for name in METHODS], out / "report.html")
    return {
        name: Metrics.from_json(read_json(RunFolder(out / name).metrics)["test"])
        for name in METHODS
    }


def _run_or_continue(experiment: Experiment, folder: RunFolder, progress: Progress) -> None:
    progress.note(f"{experiment.method['name']}:")
    started, seed = folder.config.exists(), experiment.train["seed"]
    if started and (other := read_config(folder.config)["train"]["seed"]) != seed:
        raise CrossbiasError(
            f"{folder.path} holds a demo with seed {other}, not {seed}; "
            f"choose another folder with --out"
        )
    if folder.done.exists():
        progress.note("already finished")
    else:
        experiment.run(folder.path, resume=started, progress=progress)
