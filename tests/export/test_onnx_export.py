"""An exported file gives the numbers of torch, for any batch, and says what it takes."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

import crossbias
from crossbias import BiasedDataset, CrossbiasError, TrainedRun
from crossbias.export import export_onnx, onnx_export
from crossbias.export.onnx_export import Deployed
from crossbias.models.onnx_model import OnnxModel
from crossbias.train.evaluation import predict

from .conftest import MEAN, STD

SHAPE = (3, 12, 12)
# Both sum some thousand products of float32 in another order, in some twenty layers one after
# the other: about 20 * sqrt(5000) * 6e-8 of the largest number.
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def run(trained) -> TrainedRun:
    return trained("convnet-1x1", SHAPE)


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("export") / "model.onnx"
    export_onnx(run, path)
    return path


def images(samples: int, shape: tuple[int, ...] = SHAPE) -> Tensor:
    generator = torch.Generator().manual_seed(samples)
    return torch.randint(256, (samples, *shape), dtype=torch.uint8, generator=generator)


def by_hand(run: TrainedRun, pixels: Tensor) -> Iterator[np.ndarray]:
    """Logits and features by torch, normalized here."""
    by_channel = (1, 3, *(1 for _ in pixels.shape[2:]))
    mean, std = (torch.tensor(part).view(by_channel) for part in (MEAN, STD))
    with torch.no_grad():
        output = run.network((pixels / 255 - mean) / std)
    yield from (output.logits.numpy(), output.features.numpy())


def assert_same(path: Path, run: TrainedRun, pixels: Tensor, *, as_bytes: bool = False) -> None:
    """Compare ONNX Runtime itself with torch itself."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = pixels.numpy() if as_bytes else (pixels / 255).numpy()
    found = session.run(["logits", "features"], {"images": given})
    for one, other in zip(found, by_hand(run, pixels), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE * np.abs(other).max())


@pytest.mark.parametrize("samples", [1, 2, 5])
def test_onnx_runtime_equals_torch_for_any_batch(exported, run, samples):
    assert_same(exported, run, images(samples))


def test_a_file_names_its_classes_size_and_normalization(exported):
    model = OnnxModel(exported)
    assert model.metadata.classes == ("duck", "gull", "crow, hooded")
    assert (model.metadata.shape, model.metadata.pixels) == (SHAPE, "float")
    assert model.metadata.normalization == (MEAN, STD)
    assert model.metadata.origin["data"] == "birds"
    assert model.metadata.reading == {"fit": "squash"}
    assert (model.input.batch, model.input.shape) == (None, SHAPE)
    assert b"/home/somebody" not in exported.read_bytes()


def test_a_file_that_is_loaded_again_answers_as_the_run(exported, run):
    pixels = images(9)
    classes = ("gull", "duck", "crow, hooded")  # another order than that of the file
    data = BiasedDataset(inputs=pixels, targets=torch.arange(9) % 3, classes=classes)
    model = crossbias.load_model(exported)
    found = crossbias.evaluate(model, data)  # nothing needs to be said
    assert found.classes == run.classes
    assert found.per_class == run.evaluate(data).per_class
    own = predict(model, data).probabilities
    torch.testing.assert_close(own, run.predict(pixels).probabilities, atol=1e-5, rtol=0)


def test_bytes_and_floats_are_the_same_to_the_network(run):
    pixels = images(4)
    options = {"normalization": (MEAN, STD), "shape": SHAPE}
    with torch.no_grad():
        of_bytes = Deployed(run.network, pixels="uint8", **options)(pixels)
        of_floats = Deployed(run.network, pixels="float", **options)(pixels / 255)
    for one, other in zip(of_bytes, of_floats, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    for one, other in zip(of_bytes, by_hand(run, pixels), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_file_that_differs_from_torch_is_not_written(run, exported):
    model = Deployed(run.network, pixels="float", normalization=((0.0,), (1.0,)), shape=SHAPE)
    with pytest.raises(CrossbiasError, match=r"gives other numbers than torch .*nothing was writ"):
        onnx_export._check_same(model, images(2) / 255, OnnxModel(exported))


def test_what_cannot_be_exported_is_refused_before_the_work(run, tmp_path, monkeypatch):
    with pytest.raises(CrossbiasError, match=r"ends in .onnx, got .*model.pt"):
        export_onnx(run, tmp_path / "model.pt")
    monkeypatch.setattr(torch, "__version__", "2.8.1")
    with pytest.raises(CrossbiasError, match=r"needs torch 2.9 or newer, this is 2.8.1"):
        export_onnx(run, tmp_path / "model.onnx")
    monkeypatch.undo()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CrossbiasError, match=r"pip install 'crossbias\[onnx\]'"):
        export_onnx(run, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


FAMILIES = {
    "small-convnet": (3, 28, 28),
    "simple-convnet-1": (3, 28, 28),
    "bagnet18": (3, 64, 64),
    "mlp": (3, 8, 8),
    "resnet18": (3, 64, 64),  # timm
    "vit_tiny_patch16_224": (3, 224, 224),  # timm
    "torchvision.models:mobilenet_v3_small": (3, 64, 64),
    "resnet18-2d": (3, 4, 32, 32),  # clips
}


@pytest.mark.slow
@pytest.mark.parametrize("pixels", ["float", "uint8"])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_of_networks_equals_torch(trained, tmp_path, name, pixels):
    run = trained(name, FAMILIES[name])
    export_onnx(run, tmp_path / "model.onnx", pixels=pixels)
    for samples in (1, 5):
        given = images(samples, FAMILIES[name])
        assert_same(tmp_path / "model.onnx", run, given, as_bytes=pixels == "uint8")


@pytest.mark.slow
def test_images_that_a_batch_cuts_are_taken_as_they_are_cut(trained, tmp_path):
    run = trained("small-convnet", (3, 32, 32), crop=24)
    assert export_onnx(run, tmp_path / "model.onnx").shape == (3, 24, 24)
    whole = BiasedDataset(
        inputs=images(6, (3, 32, 32)), targets=torch.arange(6) % 3, classes=run.classes, crop=24
    )
    found = predict(crossbias.load_model(tmp_path / "model.onnx"), whole).probabilities
    wanted = run.predict(whole.inputs).probabilities
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
