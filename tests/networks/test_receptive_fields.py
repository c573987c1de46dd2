"""What a place of the maps can see, measured by the gradient with respect to the input."""

import pytest
import torch

from crossbias.networks import create_network


def extents(name: str, shape: tuple[int, ...], **options: int) -> list[int]:
    """Sizes of the box of inputs that the middle place of the maps depends on."""
    torch.manual_seed(0)
    network = create_network(name, num_classes=10, **options).eval()
    inputs = torch.rand(1, 3, *shape, requires_grad=True)
    maps = network(inputs).maps
    middle = tuple(size // 2 for size in maps.shape[2:])
    maps[(0, slice(None), *middle)].sum().backward()
    places = (inputs.grad[0].abs().sum(0) > 0).nonzero()
    return (places.max(0).values - places.min(0).values + 1).tolist()


@pytest.mark.parametrize("side", [5, 9, 17, 33])
def test_bagnet_sees_the_patch_it_is_asked_for(side):
    assert extents("bagnet18", (120, 120), receptive_field=side) == [side, side]


def test_the_released_bagnet_sees_five_pixels():
    assert extents("bagnet18-released", (64, 64)) == [5, 5]


@pytest.mark.parametrize(("name", "frames"), [("resnet18-3d", 19), ("resnet18-2d", 1)])
def test_clip_networks_see_the_frames_the_paper_states(name, frames):
    assert extents(name, (25, 32, 32))[0] == frames


@pytest.mark.parametrize("name", ["resnet18-3d", "resnet18-2d"])
def test_clip_networks_have_the_sizes_of_table_a2(name):
    network = create_network(name, num_classes=10).eval()
    clip, sizes = torch.rand(1, 3, 8, 224, 224), []
    for layer in network.body:
        clip = layer(clip)
        sizes.append(tuple(clip.shape[1:]))
    expected = [(32, 8, 112, 112), (32, 8, 56, 56)]  # conv1, pool1; then T stays and
    expected += [(32 * 2**stage, 8, 56 // 2**stage, 56 // 2**stage) for stage in range(4)]
    assert list(dict.fromkeys(sizes)) == list(dict.fromkeys(expected))
    assert network(torch.rand(2, 3, 8, 32, 32)).features.shape == (2, 256)


def test_bagnet_has_the_width_of_resnet18_and_adds_aligned_places():
    """The shortcut of an unpadded kernel is cut at the bottom and the right, as released."""
    torch.manual_seed(0)
    network = create_network("bagnet18", num_classes=10).eval()
    assert network(torch.rand(2, 3, 64, 64)).features.shape == (2, 512)
    block = network.body[4]
    maps = torch.rand(1, 64, 21, 21)
    residual, shortcut = block.residual(maps), block.shortcut(maps)
    assert residual.shape[2:] == (10, 10)
    assert shortcut.shape[2:] == (11, 11)
    for row, column in ((0, 0), (3, 7), (9, 9)):
        expected = residual[0, :, row, column] + shortcut[0, :, row, column]
        torch.testing.assert_close(block(maps)[0, :, row, column], expected.relu())
