"""Any callable is a model: what it may return, how it is found by name, what is refused."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import crossbias
from crossbias import BiasedDataset, CrossbiasError
from crossbias.networks.outside import with_features

LOGITS = torch.tensor([[2.0, -1.0], [0.5, 3.0], [-1.0, 1.5]])


@pytest.fixture
def inputs() -> Tensor:
    return torch.rand(3, 1, 2, 2, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def data() -> BiasedDataset:
    return BiasedDataset(
        inputs=torch.arange(48, dtype=torch.uint8).view(3, 1, 4, 4),
        targets=torch.tensor([0, 1, 0]),
        attributes={"place": torch.tensor([0, 1, 1])},
        bias="place",
    )


@pytest.mark.parametrize(
    "given",
    [
        LOGITS,
        LOGITS.numpy(),
        LOGITS.double().tolist(),
        SimpleNamespace(logits=LOGITS),
        {"logits": LOGITS.numpy()},
        LOGITS.softmax(1),
        {"probabilities": LOGITS.softmax(1)},
    ],
    ids=["tensor", "array", "lists", "object", "dictionary", "probabilities", "named"],
)
def test_logits_and_probabilities_come_in_many_forms(inputs, given):
    model = crossbias.load_model(lambda images: given)
    torch.testing.assert_close(model(inputs).softmax(1), LOGITS.softmax(1))


def test_features_come_as_a_pair_or_by_name(inputs):
    features = torch.rand(3, 5)
    for given in ((LOGITS, features.numpy()), {"logits": LOGITS, "features": features}):
        output = crossbias.load_model(lambda images, given=given: given)(inputs)
        torch.testing.assert_close(output.features, features)
    maps = crossbias.load_model(lambda images: (LOGITS, torch.rand(3, 5, 2, 2)))
    assert isinstance(maps(inputs), Tensor)  # which numbers describe an image is not known


def test_one_number_is_about_the_second_of_two_classes(inputs):
    second = LOGITS.softmax(1)[:, 1]
    for given in (second, second[:, None]):
        model = crossbias.load_model(lambda images, g=given: g, outputs="probabilities")
        torch.testing.assert_close(model(inputs).softmax(1), LOGITS.softmax(1))
    model = crossbias.load_model(lambda images: second.logit(), outputs="logits")
    torch.testing.assert_close(model(inputs).softmax(1), LOGITS.softmax(1))
    with pytest.raises(CrossbiasError, match="one number for each sample; say whether"):
        crossbias.load_model(lambda images: second)(inputs)


@pytest.mark.parametrize(
    ("given", "outputs", "said"),
    [
        (torch.tensor([[0.9, 0.9]] * 3), None, "from 0 to 1 that do not sum to 1"),
        (torch.tensor([[0.9, 0.9]] * 3), "probabilities", "a row that sums to 1.8"),
        (torch.tensor([[-0.1, 1.1]] * 3), "probabilities", "a negative one, -0.1"),
        (torch.tensor([[np.nan, 1.0]] * 3), None, "not finite for 3 of 3 samples"),
        (torch.zeros(2, 2), None, r"gives 2 x 2 for a batch of 3"),
        (torch.zeros(3, 2, 2), None, r"gives 3 x 2 x 2 for a batch of 3"),
        ("cat", None, "gives a str; it must give an array"),
        ({"scores": LOGITS}, None, "gives a dict; it must give an array"),
    ],
)
def test_answers_that_mean_nothing_are_refused(inputs, given, outputs, said):
    with pytest.raises(CrossbiasError, match=said):
        crossbias.load_model(lambda images: given, outputs=outputs)(inputs)


def test_what_the_first_batch_tells_holds_for_the_others(inputs):
    given = iter([LOGITS.softmax(1), LOGITS])
    model = crossbias.load_model(lambda images: next(given))
    model(inputs)
    with pytest.raises(CrossbiasError, match="taken to give probabilities, but gives a negative"):
        model(inputs)


def test_a_failing_model_is_named_with_its_error(inputs):
    def broken(images):
        raise KeyError("weights")

    with pytest.raises(CrossbiasError, match=r"broken fails on a batch of 3 x 1 x 2 x 2 \(KeyErr"):
        crossbias.load_model(broken)(inputs)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    found = ModuleType("somebodys_models")
    monkeypatch.setitem(sys.modules, "somebodys_models", found)
    return found


def test_a_name_stands_for_the_model_or_for_what_returns_it(module, inputs):
    module.model = lambda images: LOGITS
    module.load = lambda: module.model
    module.load_with = lambda size=3: module.model
    module.torch_model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    for name in ("model", "load", "load_with"):
        found = crossbias.load_model(f"somebodys_models:{name}")
        torch.testing.assert_close(found(inputs), LOGITS)
    found = crossbias.load_model("somebodys_models:torch_model", outputs="logits")
    torch.testing.assert_close(found(inputs), module.torch_model(inputs).detach())


def test_names_that_give_no_model_are_refused(module):
    module.number = 3
    module.fails = lambda: 1 / 0
    module.nothing = lambda: None
    said = {"number": "gives a int", "fails": "fails .ZeroDivisionError", "nothing": "NoneType"}
    for name, text in said.items():
        with pytest.raises(CrossbiasError, match=text):
            crossbias.load_model(f"somebodys_models:{name}")
    with pytest.raises(CrossbiasError, match="cannot be imported"):
        crossbias.load_model("somebodys_models:absent")


def test_a_callable_may_name_its_classes(inputs, data):
    class Model:
        classes = ("1", "0")

        def __call__(self, images):
            return LOGITS

    found = crossbias.evaluate(Model(), data, normalize="none")
    assert found.classes == ("0", "1")  # a plain callable is taken in the order of the data
    found = crossbias.evaluate(crossbias.load_model(Model()), data, normalize="none")
    # Answers are 1, 0, 0 in the names of the classes, against 0, 1, 0.
    assert found.classes == ("1", "0")
    assert found.overall.value == pytest.approx(1 / 3)


def test_a_function_may_return_a_loaded_model(module):
    module.load = lambda: crossbias.load_model(lambda images: LOGITS, classes=["0", "1"])
    found = crossbias.load_model("somebodys_models:load", outputs="logits")
    assert (found.classes, found.answered) == (("0", "1"), "logits")
    assert crossbias.load_model("somebodys_models:load", classes=["1", "0"]).classes == ("1", "0")


def test_alignments_follow_the_order_of_the_classes(data):
    turned = crossbias.load_model(lambda images: LOGITS.flip(1), classes=["1", "0"])
    aligned = torch.tensor([[True, False], [False, True]])  # in the order of the data's classes
    plain = crossbias.evaluate(lambda images: LOGITS, data, normalize="none", alignment=aligned)
    found = crossbias.evaluate(turned, data, normalize="none", alignment=aligned)
    assert (found.aligned, found.conflicting) == (plain.aligned, plain.conflicting)
    found = crossbias.evaluate(turned, data, normalize="none", training=data)
    plain = crossbias.evaluate(lambda images: LOGITS, data, normalize="none", training=data)
    assert (found.aligned, found.conflicting) == (plain.aligned, plain.conflicting)


def test_what_is_no_model_is_refused(data):
    with pytest.raises(CrossbiasError, match=r"got a str; pass crossbias.load_model\(file\)"):
        crossbias.evaluate("model.onnx", data)


def test_a_torch_model_is_split_for_its_features(inputs):
    plain = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    split = with_features(crossbias.load_model(plain, outputs="logits"), (1, 2, 2))
    output = split(inputs)
    torch.testing.assert_close(output.features, plain[:3](inputs).detach())
    torch.testing.assert_close(output.logits, plain(inputs).detach())
    ending = nn.Sequential(plain, nn.Softmax(1))  # which cannot be split
    assert with_features(ending, (1, 2, 2)) is ending
