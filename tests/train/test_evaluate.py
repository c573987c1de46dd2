"""``crossbias.evaluate``: the normalization is known or chosen, the alignment known or left out."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import crossbias
from crossbias import BiasedDataset, CrossbiasError, Network, TrainConfig, evaluate, load
from crossbias.data.images.decoding import IMAGENET_MEAN, IMAGENET_STD

CONFIG = TrainConfig(epochs=1, batch_size=16, device="cpu")


class Seen(nn.Module):
    """A stranger's model that remembers what it was given; it answers by the first channel."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.inputs: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.inputs.append(inputs)
        return self.scale * inputs[:, 0].mean((1, 2))[:, None]


@pytest.fixture
def named(data: BiasedDataset) -> BiasedDataset:
    """Data as a named source gives it, with a normalization that nobody asked for."""
    return replace(data, origin={"version": 1}, mean=IMAGENET_MEAN, std=IMAGENET_STD)


def seen(data: BiasedDataset, **arguments: object) -> Tensor:
    model = Seen()
    evaluate(model, data, **arguments)
    return torch.cat(model.inputs)


def test_a_model_from_elsewhere_must_say_how_it_was_normalized(named: BiasedDataset) -> None:
    with pytest.raises(
        CrossbiasError, match=r"did not train this Seen .* images .* of tiny"
    ) as said:
        evaluate(Seen(), named)
    for choice in ("'none'", "'data'", "'imagenet'", "(mean, std)"):
        assert choice in str(said.value)
    with pytest.raises(CrossbiasError, match="did not train this"):
        evaluate(Seen(), replace(named, origin={}, mean=(0.0,), std=(1.0,)))


def test_each_choice_normalizes_as_it_says(named: BiasedDataset) -> None:
    images = named.inputs / 255
    data = replace(named, mean=(0.5, 0.4, 0.3), std=(0.2, 0.1, 0.3))
    channel = (1, 3, 1, 1)
    mean, std = (torch.tensor(part).view(channel) for part in (data.mean, data.std))
    imagenet = [torch.tensor(part).view(channel) for part in (IMAGENET_MEAN, IMAGENET_STD)]
    torch.testing.assert_close(seen(data, normalize="none"), images)
    torch.testing.assert_close(seen(data, normalize="data"), (images - mean) / std)
    torch.testing.assert_close(
        seen(data, normalize="imagenet"), (images - imagenet[0]) / imagenet[1]
    )
    torch.testing.assert_close(seen(data, normalize=([0.5], [0.25])), (images - 0.5) / 0.25)
    gray = replace(data, inputs=data.inputs[:, :1])
    average = (images[:, :1] - sum(IMAGENET_MEAN) / 3) / (sum(IMAGENET_STD) / 3)
    torch.testing.assert_close(seen(gray, normalize="imagenet"), average)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("cifar", "normalize is 'cifar'; pass normalize='none'"),
        (0.5, "normalize is 0.5; pass"),
        (((0.5, 0.5), (1.0, 1.0)), "the images of tiny have 3 channels"),
        (((0.5,), (0.0,)), "std above 0"),
    ],
)
def test_wrong_choices_are_refused(named: BiasedDataset, wrong: object, said: str) -> None:
    with pytest.raises(CrossbiasError, match=said.replace("(", r"\(")):
        evaluate(Seen(), named, normalize=wrong)


def test_a_data_set_that_was_given_a_normalization_states_it(data: BiasedDataset) -> None:
    torch.testing.assert_close(seen(data), (data.inputs / 255 - 0.5) / 0.5)
    vectors = replace(data, inputs=torch.rand(48, 3), mean=(0.0,), std=(1.0,))
    assert evaluate(nn.Linear(3, 3), vectors).overall.n == 48  # nothing is normalized there


def test_a_network_of_fit_keeps_the_normalization_of_its_training(
    data: BiasedDataset, network: Network
) -> None:
    train = replace(data, mean=(0.3,), std=(0.1,))
    result = crossbias.fit(crossbias.create("erm"), train, network=network, config=CONFIG)
    assert network.normalization is None
    found = evaluate(result.network, train, training=train)
    for other in (replace(train, mean=(0.0,), std=(1.0,)), replace(train, mean=IMAGENET_MEAN)):
        assert evaluate(result.network, other, training=train) == found
        assert result.evaluate(replace(other, split="test"))["test"] == found
    assert evaluate(result.network, train, normalize="none", training=train) != found


def test_the_training_data_tells_the_order_of_the_logits(data: BiasedDataset) -> None:
    """A test set made by itself may number classes and values in another order."""
    train = replace(data, classes=("a", "b", "c"), values={"color": ("x", "y", "z")})
    other = replace(
        train,
        targets=2 - train.targets,
        classes=("c", "b", "a"),
        attributes={"color": 2 - train.attributes["color"]},
        values={"color": ("z", "y", "x")},
        alignments={},
    )
    model = nn.Sequential(nn.Flatten(), nn.Linear(108, 3))
    assert evaluate(model, other, training=train) == evaluate(model, train, training=train)
    strange = replace(other, classes=("c", "b", "d"))
    with pytest.raises(CrossbiasError, match="has the class 'd'"):
        evaluate(model, strange, training=train)


def test_a_model_without_parameters_is_judged_on_the_cpu(data: BiasedDataset) -> None:
    """By the class that the first channel shows."""

    class Rule(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            level = 255 * inputs[:, 0].mean((1, 2)) - 30
            return -(level[:, None] - 60 * torch.arange(3)).abs()

    assert evaluate(Rule(), data, normalize="none").overall.value == 1.0


def test_a_model_of_other_logits_is_refused(data: BiasedDataset) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(108, 1000))
    with pytest.raises(CrossbiasError, match=r"gives \(48, 1000\) for .* each of the 3 classes"):
        evaluate(model, data)


def test_a_soft_max_at_the_end_of_a_model_is_not_taken_twice(data: BiasedDataset) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(108, 3))
    expected = evaluate(model, data, normalize="none", positive="0")
    found = evaluate(nn.Sequential(model, nn.Softmax(1)), data, normalize="none", positive="0")
    assert found.calibration == pytest.approx(expected.calibration, abs=1e-5)
    assert found.detection is not None
    assert expected.detection is not None
    assert found.detection.overall.brier == pytest.approx(expected.detection.overall.brier)


def test_a_class_that_a_model_rules_out_has_no_probability(data: BiasedDataset) -> None:
    class Masked(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            logits = inputs.mean((2, 3))
            return logits.masked_fill(torch.arange(3) == 1, -torch.inf)

    assert evaluate(Masked(), data, normalize="none").per_class[1].value == 0


def test_without_the_training_groups_are_reported_and_alignment_is_not(network: Network) -> None:
    """A balanced split says nothing about what the training data had."""
    data = load("glyphs", "test", size=10, test_size=100, image_size=16)
    balanced = replace(data, alignments={})
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 10))
    metrics = evaluate(model, balanced, normalize="none")
    assert metrics.aligned is metrics.conflicting is None
    assert metrics.aligned_groups == ()
    assert metrics.worst_group is not None
    assert metrics.unbiased is not None
    for text in (repr(metrics), metrics._repr_html_(), str(metrics.to_json())):
        assert "nan" not in text
        assert "NaN" not in text
    assert "conflicting" not in metrics._repr_html_()
    known = evaluate(model, balanced, normalize="none", training=data)
    assert known.aligned is not None
    assert known.aligned.n == int(data.alignment()[data.targets, data.biases].sum())


def test_a_threshold_is_chosen_on_validation_data_of_the_same_model(data: BiasedDataset) -> None:
    model, name = nn.Sequential(nn.Flatten(), nn.LazyLinear(data.num_classes)), data.classes[1]
    with torch.no_grad():
        model(torch.zeros(1, *data.inputs.shape[1:]))
    held = replace(data, split="validation")
    given = {"normalize": "none", "positive": name, "threshold": "sensitivity>=.8"}
    found = evaluate(model, data, **given, validation=held).detection
    assert found is not None
    assert found.positive.threshold is not None
    assert "sensitivity>=0.8 on the validation split, " in found.positive.threshold.origin
    assert found.overall.sensitivity.value >= 0.8  # the same samples under another name
    with pytest.raises(CrossbiasError, match="cannot be chosen on 'test', where it would look bet"):
        evaluate(model, data, **given, validation=replace(data, split="test"))
    with pytest.raises(CrossbiasError, match="split that is judged; choose a threshold on other"):
        evaluate(model, data, **given, validation=data)
    with pytest.raises(CrossbiasError, match="a validation split, and there is none"):
        evaluate(model, data, **given)
