"""What a run folder costs where an epoch takes no longer than a checkpoint: ResNet-18, few images.

The same training without a folder, with one, and with one and a checkpoint after every epoch, which
is how it was before. Wall time: writing waits for the disk. A folder also gets the final weights,
hashes and some small files.

    python -m benchmarks.checkpointing [cpu | cuda]
"""

import statistics
import tempfile
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import crossbias
from benchmarks.measure import alternate, device_named, keep, ratio
from crossbias import Recipe, TrainConfig, load
from crossbias.methods import ERM
from crossbias.progress import Progress
from crossbias.train.checkpoint_rhythm import CheckpointRhythm

REPEATS = 5


def main() -> None:
    device = device_named()
    data = load("glyphs", "train", size=128, image_size=16)
    config = TrainConfig(epochs=15, batch_size=64, device=device)

    def fit(folder: Path | None, *, every_epoch: bool = False) -> None:
        always = patch.object(CheckpointRhythm, "is_due", lambda rhythm: True)
        with always if every_epoch else nullcontext():
            crossbias.fit(
                ERM(), data, network=Recipe("resnet18"), config=config, progress=Progress(),
                folder=folder,
            )  # fmt: skip

    with tempfile.TemporaryDirectory() as home:
        names = (str(number) for number in range(2 * REPEATS))
        ways = {
            "without a folder": lambda: fit(None),
            "with a folder": lambda: fit(Path(home, next(names))),
            "with every epoch": lambda: fit(Path(home, next(names)), every_epoch=True),
        }
        ways["without a folder"]()  # imports and kernels
        times = alternate(ways, REPEATS)
    found = {name: round(statistics.median(values), 3) for name, values in times.items()}
    first, *others = ways
    ratios = {f"ratio {name}": round(ratio(times, name, first), 3) for name in others}
    keep("checkpointing", found | ratios, device)


if __name__ == "__main__":
    main()
