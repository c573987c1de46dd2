"""Draw the picture of the README from the runs of `crossbias demo`.

python docs/images/draw.py runs/demo
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure

from crossbias.runs.files import read_json
from crossbias.runs.stored import load_predictions
from crossbias.verify import Metrics

NAMES = {"erm": "plain training", "end": "EnD", "rebias": "ReBias", "pgd": "PGD"}
BLUE, RED = "#1b6ca8", "#c1440e"


def main() -> None:
    """Pictures on the left, accuracies on the right."""
    demo = Path(sys.argv[1])
    figure = Figure(figsize=(9, 2.7), dpi=130, layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.25])
    pictures = load_predictions(demo / "erm" / "predictions.npz")["test"].pictures
    axes = left.subplots(2, 6)
    for row, (name, start) in enumerate({"aligned": 0, "conflicting": 8}.items()):
        for column, axis in enumerate(axes[row]):
            axis.imshow(pictures[start + column].permute(1, 2, 0))
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
        axes[row][0].set_ylabel(name, color=(BLUE, RED)[row])
    axis = right.subplots()
    for row, folder in enumerate(reversed(NAMES)):
        metrics = Metrics.from_json(read_json(demo / folder / "metrics.json")["test"])
        values = 100 * metrics.aligned.value, 100 * metrics.conflicting.value
        axis.plot(values, [row, row], color="#cccccc", lw=3, zorder=1)
        axis.scatter(values[0], row, color=BLUE, marker="o", zorder=2)
        axis.scatter(values[1], row, color=RED, marker="D", zorder=3)
        axis.text(values[1] - 3, row, f"{values[1]:.0f}%", ha="right", va="center", color=RED)
    axis.set_yticks(range(len(NAMES)), list(reversed(NAMES.values())))
    axis.set(xlim=(-12, 104), xlabel="accuracy in % on test images: aligned ●, conflicting ◆")
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(left=False)
    figure.savefig(Path(__file__).with_name("demo.png"))


if __name__ == "__main__":
    main()
