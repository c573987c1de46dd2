"""What the hashes of a finished run cost, against a minute of its training.

A run is trained for some steps with a small and with a common network. The sizes of its files do
not depend on how long it was trained, but for some bytes of the log. Times are processor time, so
that a busy machine does not change them.

    python -m benchmarks.hashing
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import crossbias
from benchmarks.measure import keep
from crossbias import TrainConfig, load
from crossbias.methods import ERM
from crossbias.runs import RunFolder

NETWORKS = ("small-convnet", "resnet18")
CONFIG = TrainConfig(steps=4, batch_size=64, device="cpu")
REPEATS = 5
MINUTE = 60.0


def main() -> None:
    found = {}
    train, test = (load("glyphs", split, size=512, test_size=2_000) for split in ("train", "test"))
    for network in NETWORKS:
        with tempfile.TemporaryDirectory() as home:
            folder = RunFolder(Path(home) / "run")
            result = crossbias.fit(
                ERM(), train, network=network, config=CONFIG, folder=folder.path, progress=False
            )
            result.evaluate(test)
            files = [path for path in folder.path.iterdir() if path != folder.done]
            hashed = processor_seconds(folder.finish)
            checked = processor_seconds(partial(folder.check, *files))
            found[network] = {
                "megabytes": round(sum(path.stat().st_size for path in files) / 1e6, 1),
                "hashing_seconds": round(hashed, 4),
                "checking_seconds": round(checked, 4),
                "percent_of_a_minute": round(100 * hashed / MINUTE, 3),
            }
    keep("hashing", found, "cpu")


def processor_seconds(action: Callable[[], object]) -> float:
    """The median processor time of an action."""
    times = []
    for _ in range(REPEATS):
        begin = time.process_time()
        action()
        times.append(time.process_time() - begin)
    return statistics.median(times)


if __name__ == "__main__":
    main()
