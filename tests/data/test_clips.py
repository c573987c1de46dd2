"""Clips: (n, C, T, H, W) through the data set, the loader and a training."""

import pytest
import torch

import crossbias
from crossbias import BiasedDataset, TrainConfig
from crossbias.data.augment.augment import augmentation
from crossbias.data.loader import Loader
from crossbias.errors import CrossbiasError
from crossbias.methods import ReBias

CPU = torch.device("cpu")


def make_clips(samples: int = 24, *, side: int = 8, crop: int = 0) -> BiasedDataset:
    generator = torch.Generator().manual_seed(0)
    clips = torch.randint(0, 256, (samples, 3, 4, side, side), generator=generator)
    return BiasedDataset(
        inputs=clips.to(torch.uint8),
        targets=torch.arange(samples) % 2,
        name="clips",
        crop=crop,
        mean=(0.1, 0.2, 0.3),
        std=(0.4, 0.5, 0.6),
    )


def first_batch(data: BiasedDataset, rows: torch.Tensor, *names: str) -> torch.Tensor:
    loader = Loader(data, CPU, resident_bytes=0, workers=0)
    augment = augmentation(names) if names else None
    return next(iter(loader.batches([rows], augment=augment, seed=3))).inputs


def test_each_channel_of_each_frame_is_normalized_by_its_own_numbers():
    data, rows = make_clips(), torch.tensor([5, 2])
    found = first_batch(data, rows)
    for channel in range(3):
        for frame in range(4):
            pixels = data.inputs[rows, channel, frame].float() / 255
            expected = (pixels - data.mean[channel]) / data.std[channel]
            torch.testing.assert_close(found[:, channel, frame], expected)


def test_clips_are_cut_to_the_middle_square():
    rows = torch.tensor([5, 2])
    whole, cut = first_batch(make_clips(), rows), first_batch(make_clips(crop=4), rows)
    assert torch.equal(cut, whole[..., 2:6, 2:6])


@pytest.mark.parametrize("name", ["flip", "crop"])
def test_all_frames_of_a_clip_are_augmented_alike(name):
    """A clip of equal frames has equal frames afterwards; each frame is treated like an image."""
    data = make_clips()
    still = data.inputs[:, :, :1].expand_as(data.inputs).contiguous()
    frozen = BiasedDataset(inputs=still, targets=data.targets)
    images = BiasedDataset(inputs=still[:, :, 0].contiguous(), targets=data.targets)
    rows = torch.arange(24)
    found = first_batch(frozen, rows, name)
    assert not torch.equal(found, first_batch(frozen, rows))
    for frame in range(4):
        assert torch.equal(found[:, :, frame], first_batch(images, rows, name))


def test_rebias_trains_on_clips_with_the_networks_of_table_a2():
    """As in the paper: logits are compared, with median widths."""
    config = TrainConfig(steps=2, batch_size=8, device="cpu")
    method = ReBias(biased="resnet18-2d", position="logits", sigma="median")
    data = make_clips(16, side=16)
    result = crossbias.fit(method, data, network="resnet18-3d", config=config)
    assert all(value.isfinite().all() for value in result.network.state_dict().values())
    assert result.network(torch.rand(2, 3, 4, 16, 16)).maps.shape == (2, 256, 4, 1, 1)
    metrics = result.evaluate(make_clips(16, side=16))
    assert metrics["train"].overall.n == 16


def test_rebias_takes_single_frames_for_the_bias_of_clips():
    """The network of the paper, if none is named; one for images is refused in one line."""
    config = TrainConfig(steps=1, batch_size=8, device="cpu")
    method = ReBias()
    crossbias.fit(method, make_clips(8, side=16), network="resnet18-3d", config=config)
    assert method.names == ("resnet18-2d",)
    message = r"'convnet-1x1' takes images, but the samples of clips are clips; .*resnet18-2d"
    method = ReBias(biased="convnet-1x1")
    with pytest.raises(CrossbiasError, match=message):
        crossbias.fit(method, make_clips(8, side=16), network="resnet18-3d", config=config)
