"""Somebody's ONNX file gives the numbers that NumPy gives, in any layout, or one clear line."""

import numpy as np
import pytest
import torch
from tests.onnx_files import WEIGHTS, answers

import crossbias
from crossbias import BiasedDataset, CrossbiasError
from crossbias.models.answered_tables import about
from crossbias.models.data_for_models import sizes_for
from crossbias.models.onnx_metadata import OnnxMetadata

SAMPLES = 7


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (SAMPLES, 3, 4, 4)).astype(np.uint8)


def data_of(images: np.ndarray, **options: object) -> BiasedDataset:
    return BiasedDataset(
        inputs=torch.from_numpy(images),
        targets=torch.arange(len(images)) % 2,
        classes=("cat", "dog"),
        **options,
    )


def close(found: object, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-6)


def test_logits_and_probabilities_are_told_apart(onnx_file, images):
    inputs = images / np.float32(255)
    logits = crossbias.load_model(onnx_file())(torch.from_numpy(inputs))
    close(logits, answers(inputs))
    model = crossbias.load_model(onnx_file(softmax=True))
    exponents = np.exp(answers(inputs))
    close(model(torch.from_numpy(inputs)).softmax(1), exponents / exponents.sum(1, keepdims=True))
    assert model.answered == "probabilities"


@pytest.mark.parametrize(
    "options",
    [
        {"shape": (1, 3, 4, 4)},  # one image at a time
        {"shape": (3, 3, 4, 4)},  # the last batch is filled up
        {"shape": ("batch", 4, 4, 3), "channels_last": True},
        {"kind": "DOUBLE"},
        {"shape": ("batch", 3, "height", "width")},
    ],
)
def test_fixed_batches_layouts_and_types_give_the_same_answers(onnx_file, images, options):
    inputs = torch.from_numpy(images / np.float32(255))
    close(crossbias.load_model(onnx_file(**options))(inputs), answers(inputs.numpy()))


def test_half_precision_gives_nearly_the_same_answers(onnx_file, images):
    inputs = torch.from_numpy(images / np.float32(255))
    found = crossbias.load_model(onnx_file(kind="FLOAT16"))(inputs)
    # A number in [0, 1] is rounded by at most 2^-12, and the weights of a class sum to at most 10.
    np.testing.assert_allclose(found, answers(inputs.numpy()), atol=10 * 2**-12)


def test_a_file_that_takes_bytes_gets_the_pixels_of_the_images(onnx_file, images):
    model = crossbias.load_model(onnx_file(kind="UINT8"))
    close(model(torch.from_numpy(images) / 255), answers(images.astype(np.float32)))
    crossbias.evaluate(model, data_of(images))  # its normalization is known


def test_a_second_output_is_taken_as_features(onnx_file, images):
    inputs = torch.from_numpy(images / np.float32(255))
    output = crossbias.load_model(onnx_file(features=True))(inputs)
    close(output.features, inputs.numpy().mean((2, 3)))
    close(output.logits, answers(inputs.numpy()))


def test_evaluate_gives_the_accuracy_of_numpy_in_the_order_of_the_named_classes(onnx_file, images):
    path, data = onnx_file(), data_of(images)
    right = answers(images / np.float32(255)).argmax(1) == data.targets.numpy()
    found = crossbias.evaluate(crossbias.load_model(path), data, normalize="none")
    assert found.overall.value == pytest.approx(right.mean())
    turned = crossbias.load_model(path, classes=["dog", "cat"])
    found = crossbias.evaluate(turned, data, normalize="none")
    assert found.overall.value == pytest.approx(1 - right.mean())
    assert found.classes == ("dog", "cat")


def test_normalization_is_asked_for_and_used(onnx_file, images):
    data = data_of(images)
    model = crossbias.load_model(onnx_file())
    with pytest.raises(CrossbiasError, match=r"did not train .*model.onnx .*; pass normalize="):
        crossbias.evaluate(model, data)
    mean, std = np.array([0.1, 0.5, 0.9]), np.array([0.2, 0.3, 0.4])
    scaled = (images / 255 - mean[None, :, None, None]) / std[None, :, None, None]
    right = (scaled.mean((2, 3)) @ WEIGHTS).argmax(1) == data.targets.numpy()
    found = crossbias.evaluate(model, data, normalize=(tuple(mean), tuple(std)))
    assert found.overall.value == pytest.approx(right.mean())
    right = answers(images.astype(np.float32)).argmax(1) == data.targets.numpy()
    found = crossbias.evaluate(model, data, normalize="bytes")
    assert found.overall.value == pytest.approx(right.mean())


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (("batch", 3, 8, 8), r"takes inputs of 3 x 8 x 8, .* has 3 x 4 x 4; .*--set size=8"),
        (("batch", 1, 4, 4), r"takes inputs of 1 x 4 x 4, .*--set channels=1"),
        (("batch", 1, 8, 8), r"--set channels=1 --set size=8"),
        (("batch", 3, 4, 8), r"takes inputs of 3 x 4 x 8"),
    ],
)
def test_another_size_or_number_of_channels_is_one_line_with_the_remedy(
    onnx_file, images, shape, said
):
    model = crossbias.load_model(onnx_file(shape))
    with pytest.raises(CrossbiasError, match=said) as error:
        crossbias.evaluate(model, data_of(images), normalize="none")
    assert "\n" not in str(error.value)


def test_files_that_are_no_classifier_are_refused(onnx_file, tmp_path):
    from onnx import TensorProto, helper, load, save

    with pytest.raises(CrossbiasError, match=r"there is no file .*absent.onnx"):
        crossbias.load_model(tmp_path / "absent.onnx")
    path = tmp_path / "noise.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(
        CrossbiasError, match=r"cannot load .*noise.onnx .*check that it is an ONNX"
    ):
        crossbias.load_model(path)
    with pytest.raises(CrossbiasError, match=r"model.pt' is no model: name an ONNX file"):
        crossbias.load_model("model.pt")
    whole = onnx_file()
    whole.write_bytes(whole.read_bytes()[:-40])
    with pytest.raises(CrossbiasError, match="cannot load"):
        crossbias.load_model(whole)
    model = load(onnx_file(name="two.onnx"))
    model.graph.input.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1]))
    save(model, tmp_path / "two.onnx")
    with pytest.raises(CrossbiasError, match=r"has 2 inputs \(images, mask\)"):
        crossbias.load_model(tmp_path / "two.onnx")
    with pytest.raises(CrossbiasError, match=r"takes tensor\(int64\) of 4 dimensions"):
        crossbias.load_model(onnx_file(kind="INT64", name="whole.onnx"))


def test_classes_of_another_number_are_refused(onnx_file, images):
    model = crossbias.load_model(onnx_file(), classes=["cat", "dog", "fox"])
    with pytest.raises(CrossbiasError, match=r"gives 2 numbers .* but 3 classes are named"):
        crossbias.evaluate(model, data_of(images), normalize="none")
    model = crossbias.load_model(onnx_file(), classes=["cat", "fox"])
    with pytest.raises(CrossbiasError, match=r"has the class 'dog', which the model was not"):
        crossbias.evaluate(model, data_of(images), normalize="none")


def own_file(onnx_file, **options):
    """A file with the metadata of ``crossbias export``."""
    metadata = OnnxMetadata(
        classes=("cat", "dog"),
        shape=(3, 4, 4),
        pixels="float",
        normalization=((0.0,), (1.0,)),
        reading={"fit": "squash", "depth": 12},
        origin={},
    )
    return onnx_file(metadata=metadata.to_properties(), **options)


def test_what_a_file_says_is_not_contradicted(onnx_file, images):
    path = own_file(onnx_file)
    with pytest.raises(CrossbiasError, match=r"are cat, dog, as the file says, and not dog, cat"):
        crossbias.load_model(path, classes=["dog", "cat"])
    model = crossbias.load_model(path, classes=["cat", "dog"])
    with pytest.raises(CrossbiasError, match=r"normalizes images itself, so 'imagenet' would do"):
        crossbias.evaluate(model, data_of(images), normalize="imagenet")
    plain = crossbias.evaluate(model, data_of(images))
    assert plain == crossbias.evaluate(model, data_of(images), normalize="none")


def test_images_are_read_as_a_file_takes_them(onnx_file):
    model = crossbias.load_model(own_file(onnx_file))
    wanted = {"fit": "squash", "depth": 12, "size": 4, "channels": 3}
    assert sizes_for(model, "folder:images") == wanted
    assert sizes_for(model, "glyphs") == {"image_size": 4}
    assert sizes_for(crossbias.load_model(onnx_file(("n", 3, "h", "w"))), "glyphs") == {}


def test_more_outputs_than_classes_of_the_data_ask_for_names(onnx_file, images):
    one = data_of(images[:1])
    lone = BiasedDataset(inputs=one.inputs, targets=one.targets, classes=("cat",))
    model = crossbias.load_model(onnx_file())
    with pytest.raises(CrossbiasError, match=r"gives \(1, 2\) .* name all in the order"):
        crossbias.evaluate(model, lone, normalize="none")


def test_a_note_has_the_size_that_the_model_sees(images):
    data = data_of(images, crop=3)
    model = crossbias.load_model(lambda batch: batch.flatten(1)[:, :2], outputs="logits")
    assert "it takes 3 x 3 x 3, pixels from 0 to 1" in about(model, data, "none", named=False)


def test_damaged_metadata_is_refused(onnx_file):
    with pytest.raises(CrossbiasError, match=r"metadata of .* is damaged"):
        crossbias.load_model(onnx_file(metadata={"crossbias.format": "1"}))
    with pytest.raises(CrossbiasError, match="metadata of format 9"):
        crossbias.load_model(onnx_file(metadata={"crossbias.format": "9"}))


def test_without_onnx_runtime_the_extra_is_named(onnx_file, monkeypatch):
    path = onnx_file()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CrossbiasError, match=r"pip install 'crossbias\[onnx\]'"):
        crossbias.load_model(path)
