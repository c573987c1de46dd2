"""A data set larger than the memory a process may have trains from its map."""

import pytest
import torch

from crossbias import BiasedDataset
from crossbias.data import memory_maps
from crossbias.errors import CrossbiasError

PROGRAM = """
import resource, sys
from pathlib import Path
import torch
from torch import nn
import crossbias
from crossbias.data import memory_maps
from crossbias.data.images.cache_entry import CacheEntry, hashed
from crossbias.methods import ERM

images = 4000
folder = Path(sys.argv[1])
entry = CacheEntry.of(folder, hashed([str(number) for number in range(images)]), (3, 224, 224))
entry.folder.mkdir()
entry.stored.touch()
with open(entry.stored, "r+b") as file:
    file.truncate(entry.bytes)  # 602 MB of zeros that take no space on the disk
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

def allow(more):
    status = Path("/proc/self/status").read_text().splitlines()
    used = next(int(line.split()[1]) for line in status if line.startswith("VmData")) * 1024
    allowed = used + more * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))

train(1, 1)  # loads everything that is loaded lazily
allow(400)
try:
    data.inputs.clone()
except RuntimeError:
    print("does not fit")
for workers in (0, 1):
    trained = train(12, workers).network
    print(workers, all(p.isfinite().all() for p in trained.parameters()))

memory_maps.LARGEST_COPY = 2**20
allow(100)
quarter = torch.arange(0, images, 4)  # 151 MB
try:
    data.inputs[quarter]
except RuntimeError:
    print("does not fit")
part = data.subset(quarter)
print(len(part), part.inputs.shape)
"""


def test_data_larger_than_the_memory_allowed_trains(program, tmp_path):
    """Linux limits memory that a process may write to (RLIMIT_DATA), not read-only maps."""
    environment = {"CROSSBIAS_CACHE": str(tmp_path / "cache")}
    found = program.run(PROGRAM, ["-c", str(tmp_path)], environment=environment)
    trained = ["does not fit", "0 True", "1 True"]
    chosen = ["does not fit", "1000 torch.Size([1000, 3, 224, 224])"]
    assert found.stdout.splitlines() == trained + chosen, found.stderr


@pytest.mark.parametrize("rows", [torch.tensor([4, 0, 4]), torch.arange(9) % 2 == 0])
def test_a_large_selection_is_the_same_from_a_file_that_leaves_nothing(rows, tmp_path, monkeypatch):
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))
    inputs = torch.arange(9 * 12).to(torch.uint8).view(9, 3, 2, 2)
    data = BiasedDataset(inputs=inputs, targets=torch.arange(9))
    in_memory = data.subset(rows)
    monkeypatch.setattr(memory_maps, "LARGEST_COPY", 10)
    monkeypatch.setattr(memory_maps, "_CHUNK", 24)
    in_file = data.subset(rows)
    assert torch.equal(in_file.inputs, inputs[rows])
    assert in_file.hash == in_memory.hash
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_selection_that_cannot_be_written_says_where_and_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(memory_maps, "LARGEST_COPY", 10)
    data = BiasedDataset(inputs=torch.zeros(9, 3, 2, 2, dtype=torch.uint8), targets=torch.arange(9))
    with pytest.raises(CrossbiasError, match=r"chosen images to .*file: .*CROSSBIAS_CACHE"):
        data.subset(torch.arange(9))
