"""``crossbias.load_run``: a trained model from its folder alone."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import crossbias
from crossbias import BiasedDataset, CrossbiasError, Network, TrainConfig, TrainedRun, load_run
from crossbias.networks import Recipe
from crossbias.runs.folder import RunFolder
from crossbias.runs.read import read_run
from crossbias.testing import tiny_data
from crossbias.train.evaluation import predict
from crossbias.train.fit import train_run
from crossbias.verify import Metrics

CONFIG = TrainConfig(epochs=2, batch_size=16, lr=0.005, device="cpu")


def animals(split: str = "train") -> BiasedDataset:
    """Data with names; images of 6 x 6 pixels."""
    values = {"color": ("red", "green", "blue")}
    names = {"classes": ("cat", "dog", "fox"), "values": values, "name": "animals"}
    return replace(tiny_data(split=split), **names)


@pytest.fixture
def test() -> BiasedDataset:
    return animals("test")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    train_run(
        crossbias.create("erm"), animals(), None, network=Recipe("small-convnet"),
        config=CONFIG, folder=path, tests=[animals("test")],
    )  # fmt: skip
    return path


@pytest.fixture
def run(folder: Path) -> TrainedRun:
    return load_run(str(folder))


def recorded(folder: Path) -> Metrics:
    """The metrics of the test split when the run was trained."""
    return read_run(folder).test


def test_a_run_is_loaded_and_says_in_a_line_what_it_is(run: TrainedRun, folder: Path) -> None:
    assert run.classes == ("cat", "dog", "fox")
    assert run.bias == "color"
    assert not run.network.training
    assert run.network.normalization == ((0.5,) * 3, (0.5,) * 3)
    assert repr(run) == f"<{folder}: erm on animals, 3 x 6 x 6, classes cat, dog, fox>"


def test_it_is_judged_with_the_alignment_of_the_training(
    run: TrainedRun, folder: Path, test: BiasedDataset
) -> None:
    before = recorded(folder)
    assert run.evaluate(test) == before
    undeclared = replace(test, alignments={}, mean=(0.0,), std=(1.0,))
    assert run.evaluate(undeclared) == before


def test_names_in_another_order_are_matched(
    run: TrainedRun, folder: Path, test: BiasedDataset
) -> None:
    other = replace(
        test,
        targets=2 - test.targets,
        classes=("fox", "dog", "cat"),
        attributes={"color": (test.attributes["color"] + 1) % 3},
        values={"color": ("blue", "red", "green")},
        alignments={},
    )
    assert run.evaluate(other) == recorded(folder)


def test_names_and_sizes_that_the_training_did_not_have_are_refused(
    run: TrainedRun, test: BiasedDataset
) -> None:
    with pytest.raises(CrossbiasError, match=r"has the class 'cow'.* the model knows: cat, dog"):
        run.evaluate(replace(test, classes=("cat", "dog", "cow")))
    with pytest.raises(CrossbiasError, match=r"has the color value 'pink'.* knows: red, green"):
        run.evaluate(replace(test, values={"color": ("red", "green", "pink")}))
    large = replace(test, inputs=test.inputs.repeat(1, 1, 2, 2))
    with pytest.raises(CrossbiasError, match=r"inputs of 3 x 12 x 12, but .* on 3 x 6 x 6"):
        run.evaluate(large)
    assert run.evaluate(large, any_size=True).overall.n == len(test)
    with pytest.raises(CrossbiasError, match="inputs of 1 x 6 x 6"):
        run.evaluate(replace(test, inputs=test.inputs[:, :1]), any_size=True)


def test_another_attribute_with_new_values_is_reported_by_group_only(
    run: TrainedRun, test: BiasedDataset
) -> None:
    found = run.evaluate(replace(test, values={"color": ("a", "b", "c")}, bias=None))
    assert found.aligned is None
    by_color = found.attributes["color"]
    assert by_color.aligned is by_color.conflicting is None
    assert by_color.worst_group is not None


def test_tensors_arrays_pictures_and_files_get_the_same_answers(
    run: TrainedRun, test: BiasedDataset, tmp_path: Path
) -> None:
    images = test.inputs[:5]
    rows = images.permute(0, 2, 3, 1).numpy()
    pictures = [Image.fromarray(row) for row in rows]
    files = [tmp_path / f"{number}.png" for number in range(5)]
    for picture, file in zip(pictures, files, strict=True):
        picture.save(file)
    names, probabilities = run.predict(images)
    expected = predict(run.network, test).probabilities[:5]
    torch.testing.assert_close(probabilities, expected)
    assert names == [run.classes[at] for at in expected.argmax(1)]
    for given in (
        *(images.numpy(), rows, list(images), list(rows), pictures),
        *(files, list(map(str, files))),
    ):
        assert torch.equal(run.predict(given).probabilities, probabilities)
    for single in (files[0], str(files[0]), pictures[0], rows[0], images[0]):
        torch.testing.assert_close(run.predict(single).probabilities, probabilities[:1])


def test_images_are_fitted_to_the_training(run: TrainedRun, tmp_path: Path) -> None:
    """Other sizes, gray and transparent images, whatever PIL has."""
    pixels = np.random.default_rng(0).integers(0, 255, (18, 12, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    file = run.predict(tmp_path / "a.png").probabilities
    middle = Image.fromarray(pixels).resize((6, 9), Image.Resampling.BILINEAR).crop((0, 2, 6, 8))
    torch.testing.assert_close(file, run.predict(middle).probabilities)
    assert torch.equal(run.predict(pixels).probabilities, file)
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)
    assert torch.equal(run.predict(tensor[None]).probabilities, file)
    kinds = [Image.fromarray(pixels).convert(mode) for mode in ("L", "RGBA", "CMYK", "P", "1")]
    assert len(run.predict([*kinds, pixels[..., 0]]).classes) == 6


def test_what_is_no_image_is_refused(run: TrainedRun, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no image")
    for given, said in (
        (tmp_path / "none.png", r"none.png is missing"),
        ([tmp_path / "text.png"], r"text.png is not an image"),
        (torch.rand(2, 3, 6, 6), r"image 0 is a Tensor \(3, 6, 6\) torch.float32; pass a file"),
        ([np.zeros((6, 6, 2), np.uint8)], r"image 0 has the shape \(6, 6, 2\)"),
        (torch.zeros(2, 6, 6, 3, dtype=torch.uint8), r"shape \(6, 6, 3\); it must be \(C, H, W\)"),
        ([], "no images to predict"),
        (7, "images are a int; pass files"),
    ):
        with pytest.raises(CrossbiasError, match=said):
            run.predict(given)


def test_vectors_are_predicted_too(tmp_path: Path) -> None:
    data = crossbias.load("toy-2d", "train")
    crossbias.fit(
        crossbias.create("erm"), data, network="mlp", config=CONFIG, folder=tmp_path / "run"
    )
    run = load_run(tmp_path / "run")
    assert len(run.predict(data.inputs[:4]).classes) == 4
    assert torch.equal(
        run.predict(data.inputs[:4].numpy()).probabilities,
        run.predict(data.inputs[:4]).probabilities,
    )
    with pytest.raises(CrossbiasError, match=r"takes inputs of 2, got a str; pass one tensor"):
        run.predict("a.png")


def test_a_network_made_in_python_is_passed_again(network: Network, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    method = crossbias.create("erm")
    result = crossbias.fit(method, animals(), network=network, config=CONFIG, folder=folder)
    with pytest.raises(CrossbiasError, match=r"made in Python.*load_run\('.*own', network=model\)"):
        load_run(folder)
    before = [parameter.clone() for parameter in network.parameters()]
    run = load_run(folder, network=network)
    assert all(map(torch.equal, before, network.parameters()))
    trained = result.network.state_dict()
    assert all(torch.equal(value, trained[k]) for k, value in run.network.state_dict().items())
    other = crossbias.create("small-convnet", num_classes=3)
    with pytest.raises(CrossbiasError, match=r"does not fit the network; pass network="):
        load_run(folder, network=other)


def test_an_unfinished_or_foreign_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CrossbiasError, match=r"is not a run folder: it has no config.json"):
        load_run(tmp_path / "nothing")
    copy = shutil.copytree(folder, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text())
    del config["data"]["pixels"]
    (copy / "config.json").write_text(json.dumps(config))
    RunFolder(copy).finish()
    with pytest.raises(CrossbiasError, match=r"it lacks data.pixels; .* train the run again"):
        load_run(copy)
    (copy / "done").unlink()
    with pytest.raises(CrossbiasError, match="is not finished"):
        load_run(copy)
