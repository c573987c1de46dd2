"""What a run keeps of a look into its model, against the model itself."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from crossbias import BiasedDataset, Network, TrainConfig, fit
from crossbias.data.loader import Loader
from crossbias.errors import CrossbiasError
from crossbias.methods import ERM
from crossbias.networks.grad_cam import grad_cam
from crossbias.runs.stored import load_labels, load_views, save_views
from crossbias.train.evaluation import predict
from crossbias.train.explanations import views_of
from crossbias.types import UNKNOWN


def test_features_and_maps_are_those_of_the_network(network: Network, data: BiasedDataset) -> None:
    answers = predict(network, data, pictures=True)
    views = views_of(network, data, answers)
    loader = Loader(data, torch.device("cpu"), resident_bytes=0, workers=0)
    (batch,) = loader.batches([torch.arange(len(data))])
    with torch.no_grad():
        features = network.eval()(batch.inputs).features
    assert views.rows.tolist() == list(range(48))
    torch.testing.assert_close(views.features.float(), features, rtol=2e-3, atol=2e-3)
    rows = answers.picture_rows
    assert rows is not None
    maps = grad_cam(network, batch.inputs[rows], batch.target[rows])
    assert views.maps is not None
    torch.testing.assert_close(views.maps.float(), maps, rtol=2e-3, atol=2e-3)
    assert views.boundary is None


def test_of_many_samples_some_are_kept_evenly(network: Network) -> None:
    data = BiasedDataset(
        inputs=torch.zeros(1801, 3, 2, 2, dtype=torch.uint8),
        targets=torch.arange(1801) % 3,
    )
    rows = views_of(network, data, predict(network, data)).rows
    assert len(rows) == 300
    assert (rows[0], rows[-1]) == (0, 1800)
    assert set(rows.diff().tolist()) <= {6, 7}


def test_the_boundary_of_a_line_is_a_line() -> None:
    """The network answers 1 where x + 2 y > 1."""
    network = Network(nn.Identity(), nn.Linear(2, 2))
    with torch.no_grad():
        network.head.weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 2.0]]))
        network.head.bias.copy_(torch.tensor([1.0, 0.0]))
    points = torch.tensor([[0.0, -1.0], [4.0, 1.0], [2.0, 0.5]])
    data = BiasedDataset(inputs=points, targets=torch.tensor([0, 1, 1]))
    boundary = views_of(network, data, predict(network, data)).boundary
    assert boundary is not None
    assert torch.equal(boundary.points, points)
    torch.testing.assert_close(boundary.limits, torch.tensor([-0.4, 4.4, -1.2, 1.2]))
    x = torch.linspace(-0.4, 4.4, 120)
    y = torch.linspace(-1.2, 1.2, 120)
    expected = (x[None, :] + 2 * y[:, None] > 1).long()
    assert (boundary.answers != expected).float().mean() < 1e-3  # rounding on the line itself


def test_views_come_back_as_they_were(
    network: Network, data: BiasedDataset, tmp_path: Path
) -> None:
    views = views_of(network, data, predict(network, data, pictures=True))
    save_views(tmp_path / "views.npz", {"test": views, "unseen": replace(views, maps=None)})
    loaded = load_views(tmp_path / "views.npz")
    assert set(loaded) == {"test", "unseen"}
    assert torch.equal(loaded["test"].features, views.features)
    assert torch.equal(loaded["test"].maps, views.maps)
    assert loaded["unseen"].maps is None


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"{}"])
@pytest.mark.parametrize("load", [load_views, load_labels])
def test_damaged_files_are_named(tmp_path: Path, content: bytes, load) -> None:
    path = tmp_path / "damaged.npz"
    path.write_bytes(content)
    with pytest.raises(CrossbiasError, match=r"damaged\.npz is damaged"):
        load(path)
    with pytest.raises(CrossbiasError, match="does not exist"):
        load(tmp_path / "missing.npz")


def test_a_run_keeps_the_views_of_the_split_it_is_judged_by_and_the_labels(
    network: Network, data: BiasedDataset, validation: BiasedDataset, tmp_path: Path
) -> None:
    part = data.subset(torch.arange(10, 40))
    config = TrainConfig(epochs=1, device="cpu")
    result = fit(ERM(), part, validation, network=network, config=config, folder=tmp_path / "run")
    assert not (tmp_path / "run" / "views.npz").exists()  # nothing is judged yet
    other, test = replace(validation, split="other"), replace(validation, split="test")
    result.evaluate(other, test)
    assert list(load_views(tmp_path / "run" / "views.npz")) == ["test"]
    labels = load_labels(tmp_path / "run" / "labels.npz")
    assert torch.equal(labels.index, torch.arange(10, 40))
    assert torch.equal(labels.target, data.targets[10:40])
    assert torch.equal(labels.bias("color"), data.attributes["color"][10:40])
    assert set(labels.bias(None).tolist()) == {UNKNOWN}


def test_pictures_and_maps_show_what_the_network_sees(network: Network) -> None:
    images = torch.arange(64, dtype=torch.uint8).view(1, 1, 8, 8).repeat(4, 3, 1, 1)
    data = BiasedDataset(inputs=images, targets=torch.tensor([0, 1, 2, 0]), crop=4)
    answers = predict(network, data, pictures=True)
    assert answers.pictures is not None
    assert torch.equal(answers.pictures, images[:, :, 2:6, 2:6])
