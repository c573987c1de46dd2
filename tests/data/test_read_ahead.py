"""Rows are read ahead in order, errors arrive as they are, and nobody reads on unasked."""

import threading

import pytest
import torch

from crossbias.data.images.stored_images import PixelShard, StoredImages
from crossbias.data.read_ahead import read_ahead
from crossbias.errors import CrossbiasError

CPU = torch.device("cpu")


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("batches", [0, 1, 40])
def test_rows_come_in_order(workers, batches):
    inputs = torch.arange(120).reshape(40, 3)
    cut = list(torch.randperm(40)[: 40 if batches else 0].tensor_split(max(batches, 1)))[:batches]
    found = list(read_ahead(inputs, cut, workers=workers, device=CPU))
    assert len(found) == batches
    for rows, positions in zip(found, cut, strict=True):
        assert torch.equal(rows, inputs[positions])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_missing_shard_is_one_line(tmp_path, workers):
    images = StoredImages([PixelShard(tmp_path / "absent", (4, 1, 2, 2))], (1, 2, 2))
    with pytest.raises(CrossbiasError, match=r"cannot read .*absent of the cache") as bad:
        list(read_ahead(images, [torch.arange(2)] * 9, workers=workers, device=CPU))
    assert "\n" not in str(bad.value)


def test_nobody_reads_on_after_a_loop_is_left():
    before = threading.active_count()
    read = read_ahead(torch.zeros(1000, 2), [torch.arange(2)] * 500, workers=2, device=CPU)
    next(read)
    assert threading.active_count() > before
    read.close()
    assert threading.active_count() == before


def test_threads_share_images_of_more_shards_than_are_open(tmp_path, monkeypatch):
    from crossbias.data.images import stored_images

    monkeypatch.setattr(stored_images, "MOST_OPEN", 2)
    shards = []
    for number in range(8):
        path = tmp_path / str(number)
        path.write_bytes(bytes([number] * 8))
        shards.append(PixelShard(path, (2, 1, 2, 2)))
    images = StoredImages(shards, (1, 2, 2))
    cut = [torch.randperm(16) for _ in range(200)]
    found = read_ahead(images, cut, workers=4, device=CPU)
    for rows, positions in zip(found, cut, strict=True):
        assert torch.equal(rows[:, 0, 0, 0].long(), positions // 2)
