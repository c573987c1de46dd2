"""How long the page of 20 runs takes, and how large it is.

Each run is as large as a page gets with ten classes: 100 groups, 100 epochs, sixteen pictures of
224 pixels with maps, features of 300 samples, scores of 60,000 training samples.

python -m benchmarks.reporting
"""

import tempfile
import time
from pathlib import Path

import torch

from benchmarks.measure import keep, seconds
from crossbias.report import report
from crossbias.runs.files import write_json
from crossbias.runs.folder import RunFolder, as_line
from crossbias.runs.stored import TrainingLabels, Views, save_labels, save_predictions, save_views
from crossbias.verify import Predictions

RUNS, CLASSES, EPOCHS, TRAINING = 20, 10, 100, 60_000
NAMES = tuple(f"value {number}" for number in range(CLASSES))


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        folders = [write_run(Path(root) / str(seed), seed) for seed in range(RUNS)]
        page = Path(root) / "report.html"
        start = time.process_time()
        taken = seconds(lambda: report(folders, page))
        processor = time.process_time() - start  # on a busy machine, far less than the wall's
        megabytes = page.stat().st_size / 2**20
    found = {
        "runs": RUNS,
        "seconds": round(taken, 1),
        "processor_seconds": round(processor, 1),
        "megabytes": round(megabytes, 2),
    }
    keep("reporting", found, "cpu")


def write_run(folder: Path, seed: int) -> Path:
    """A made-up run: answers at random."""
    folder.mkdir()
    draw = torch.Generator().manual_seed(seed)
    test = answers(draw)
    table = torch.eye(CLASSES, dtype=torch.bool)
    metrics = test.metrics(bias="color", alignment=table, classes=NAMES, values=NAMES)
    save_predictions(folder / "predictions.npz", {"test": test})
    write_json(folder / "metrics.json", {"test": metrics.to_json()})
    write_json(folder / "config.json", config(seed))
    (folder / "log.jsonl").write_text("".join(map(as_line, log())))
    rows = torch.linspace(0, len(test.target) - 1, 300).long()
    views = Views(
        rows=rows,
        features=torch.randn(300, 512, generator=draw).half(),
        maps=torch.rand(16, 7, 7, generator=draw).half(),
    )
    save_views(folder / "views.npz", {"test": views})
    targets = torch.arange(TRAINING) % CLASSES
    labels = TrainingLabels(
        index=torch.arange(TRAINING), target=targets, attributes={"color": targets}
    )
    save_labels(folder / "labels.npz", labels)
    (folder / "stages").mkdir()
    torch.save(torch.rand(TRAINING, generator=draw), folder / "stages" / "scores.pt")
    RunFolder(folder).finish()
    return folder


def answers(draw: torch.Generator) -> Predictions:
    samples = torch.arange(CLASSES * CLASSES * 100)
    return Predictions(
        index=samples,
        target=samples % CLASSES,
        probabilities=torch.rand(len(samples), CLASSES, generator=draw).softmax(1),
        attributes={"color": samples // CLASSES % CLASSES},
        pictures=torch.randint(0, 256, (16, 3, 224, 224), generator=draw, dtype=torch.uint8),
        picture_rows=samples[:16] * 7,
    )


def facts() -> dict[str, object]:
    names = list(NAMES)
    return {
        "shape": [3, 224, 224],
        "classes": names,
        "values": {"color": names},
        "aligned": {"color": [[name] for name in names]},
        "pixels": {"crop": 0, "mean": [0.5] * 3, "std": [0.5] * 3},
    }


def config(seed: int) -> dict[str, object]:
    return {
        **dict.fromkeys(("version", "command"), "made up"),
        "commit": None,
        "paper": None,
        "environment": {"torch": "2.15.0", "device": "cpu"},
        "network": {"name": "made up"},
        "method": {"name": f"method{seed}"},
        "supervision": "none",
        "selection": "last",
        "data": {"name": "made up", "bias": "color", "hashes": {}} | facts(),
        "train": {"seed": seed},
        "page": {"figures": {"sampling": ["scores"]}, "curves": {"hsic": ["HSIC", "hsic"]}},
    }


def log() -> list[dict[str, object]]:
    losses = {"loss": 1.0, "task": 0.5, "hsic": 0.01}
    validation = dict.fromkeys(("accuracy", "aligned", "conflicting", "unbiased"), 0.5)
    return [
        {"stage": "final", "epoch": n, "seconds": 1.0, "losses": losses, "validation": validation}
        for n in range(1, EPOCHS + 1)
    ]


if __name__ == "__main__":
    main()
