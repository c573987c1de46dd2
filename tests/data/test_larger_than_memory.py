"""A data set larger than the memory a process may have trains from its map."""

import subprocess
import sys

PROGRAM = """
import resource, sys
from pathlib import Path
import torch
from torch import nn
import crossbias
from crossbias.data.cache_entry import Entry
from crossbias.methods import ERM

images = 4000
folder = Path(sys.argv[1])
entry = Entry.of(folder, [str(number) for number in range(images)], (3, 224, 224))
entry.folder.mkdir()
entry.pixels.touch()
with open(entry.pixels, "r+b") as file:
    file.truncate(images * entry.row_bytes)  # 602 MB of zeros that take no room on the disk
data = crossbias.BiasedDataset(
    inputs=entry.tensor(), targets=torch.arange(images) % 2, digest="known"
)
body = nn.Sequential(nn.AvgPool2d(16), nn.Conv2d(3, 4, 3), nn.ReLU())
network = crossbias.Network(body, nn.Linear(4, 2))

def train(steps, workers):
    config = crossbias.TrainConfig(
        steps=steps, batch_size=64, device="cpu", resident_bytes=0 if workers else 2**40,
        workers=workers,
    )
    return crossbias.fit(ERM(), data, network=network, config=config)

train(1, 1)  # so that all that is loaded late is there
status = Path("/proc/self/status").read_text().splitlines()
used = next(int(line.split()[1]) for line in status if line.startswith("VmData")) * 1024
allowed = used + 400 * 2**20
resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
try:
    data.inputs.clone()
except RuntimeError:
    print("does not fit")
for workers in (0, 1):
    trained = train(12, workers).network
    print(workers, all(p.isfinite().all() for p in trained.parameters()))
"""


def test_data_larger_than_the_memory_allowed_trains(tmp_path):
    """Linux counts what a process may write to (RLIMIT_DATA), and not a map it only reads."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.stdout.splitlines() == ["does not fit", "0 True", "1 True"], found.stderr
