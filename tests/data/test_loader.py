"""Batches: both ways of feeding give the same ones."""

import dataclasses

import pytest
import torch

from crossbias.data.augment.augment import augmentation
from crossbias.data.loader import Loader
from crossbias.data.order import batches, epoch_order
from crossbias.seeds import generator_for

CPU = torch.device("cpu")


def loaded(data, *, resident, workers=0, share=(0, 1), start=0, names=("flip", "crop")):
    loader = Loader(
        data, CPU, resident_bytes=10**9 if resident else 0, workers=workers, share=share
    )
    assert loader.resident == resident
    cut = batches(epoch_order(len(data), 0, 0), 16)
    return list(loader.batches(cut, augment=augmentation(names), seed=5, start=start))


EVERYTHING = (
    "flip", "crop(2)", "random-resized-crop(0.5,1)", "rotate(20)", "jitter(0.2,0.2,0.1)",
    "grey(0.3)",
)  # fmt: skip


@pytest.mark.parametrize("workers", [0, 2])
def test_worker_fed_batches_equal_resident_ones_bit_for_bit(data, workers):
    for fed, resident in zip(
        loaded(data, resident=False, workers=workers, names=EVERYTHING),
        loaded(data, resident=True, names=EVERYTHING),
        strict=True,
    ):
        for one, other in zip(fed, resident, strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("batches_in_block", [1, 2, 100])
def test_batches_that_are_prepared_together_are_those_prepared_alone(
    data, batches_in_block, monkeypatch
):
    """The odd last batch included, whatever the size of a block; on CUDA it is not one batch."""
    alone = loaded(data, resident=True, names=EVERYTHING)
    image = 4 * data.inputs[0].numel()
    original = Loader.__init__

    def in_blocks(self, *arguments, **named):
        original(self, *arguments, **named)
        self.block_bytes = 16 * batches_in_block * image

    monkeypatch.setattr(Loader, "__init__", in_blocks)
    for start in (0, 1):
        together = loaded(data, resident=True, names=EVERYTHING, start=start)
        for one, other in zip(alone[start:], together, strict=True):
            for expected, found in zip(one, other, strict=True):
                torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_a_block_has_as_many_batches_as_fit(data):
    loader = Loader(data, CPU, resident_bytes=10**9, workers=0)
    assert loader._blocks([16, 16, 7]) == [[16], [16], [7]]
    loader.block_bytes = 35 * loader.row_bytes
    assert loader._blocks([16, 16, 7]) == [[16, 16], [7]]
    assert loader._blocks([50, 16, 7, 12]) == [[50], [16, 7, 12]]


def test_a_batch_carries_the_rows_it_names(data):
    for batch in loaded(data, resident=True, names=()):
        rows = batch.index
        expected = (data.inputs[rows].float() / 255 - 0.5) / 0.5
        torch.testing.assert_close(batch.inputs, expected)
        assert torch.equal(batch.target, data.targets[rows])
        assert torch.equal(batch.bias, data.biases[rows])


def test_batches_after_an_interruption_are_those_that_would_have_come(data):
    whole, rest = loaded(data, resident=True), loaded(data, resident=True, start=1)
    assert len(rest) == len(whole) - 1
    for one, other in zip(whole[1:], rest, strict=True):
        assert torch.equal(one.inputs, other.inputs)


def test_processes_share_every_batch_without_overlap(data):
    whole = loaded(data, resident=True, names=())
    shares = [loaded(data, resident=True, share=(rank, 2), names=()) for rank in range(2)]
    for batch, first, second in zip(whole, *shares, strict=True):
        together = torch.cat([first.index, second.index])
        assert together.sort().values.tolist() == batch.index.sort().values.tolist()


def test_a_subset_keeps_the_rows_of_the_full_set(data):
    subset = data.subset(data.targets == 1)
    rows = torch.cat([batch.index for batch in loaded(subset, resident=True)])
    assert (data.targets[rows] == 1).all()


@pytest.mark.parametrize("resident", [True, False])
def test_fetched_rows_are_made_as_those_of_a_batch(data, resident):
    """Rows are those of the full set, in any order and number; a subset knows where they are."""
    subset = dataclasses.replace(data.subset(torch.arange(47, 7, -1)), crop=4)
    loader = Loader(subset, CPU, resident_bytes=10**9 * resident, workers=0)
    rows = torch.tensor([30, 9, 47, 9])
    plain = (data.inputs[rows].float() / 255)[:, :, 1:5, 1:5]
    torch.testing.assert_close(loader.fetch(rows), (plain - 0.5) / 0.5)


def test_fetched_rows_have_their_own_augmentation_by_seed(data):
    loader = Loader(data, CPU, resident_bytes=10**9, workers=0)
    rows, augment = torch.arange(48), augmentation(("flip", "crop"))
    first, again, other = (loader.fetch(rows, augment=augment, seed=s) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    images = augment(data.inputs.float() / 255, generator_for(1, "fetch"))
    torch.testing.assert_close(first, (images - 0.5) / 0.5)


def test_vectors_are_fed_as_they_are(data):
    vectors = dataclasses.replace(data, inputs=torch.randn(len(data), 4))
    batch = next(Loader(vectors, CPU, resident_bytes=0, workers=0).batches([torch.tensor([3, 1])]))
    assert torch.equal(batch.inputs, vectors.inputs[[3, 1]])


def test_loading_leaves_the_global_generator_alone(data):
    before = torch.get_rng_state()
    loaded(data, resident=False, workers=2)
    assert torch.equal(before, torch.get_rng_state())


def test_batches_are_cut_to_the_middle_square(data):
    cropped = dataclasses.replace(data, crop=4)
    for batch, whole in zip(
        loaded(cropped, resident=True, names=()), loaded(data, resident=True, names=()), strict=True
    ):
        assert torch.equal(batch.inputs, whole.inputs[:, :, 1:5, 1:5])
    assert cropped.hash == data.hash
