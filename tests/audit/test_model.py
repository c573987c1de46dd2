"""A network made by hand, which answers by red against blue, and some that learned a cue."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from crossbias import BiasedDataset, Network, TrainConfig, create, fit, load_model
from crossbias.audit.counterfactual import flip_rates, gray, without_border
from crossbias.audit.model import audit_model
from crossbias.audit.verdict import untested_data, untested_findings, verdict_of
from crossbias.data.planting.planting import replant
from crossbias.verify import wilson


def color_follower() -> Network:
    """Features are the mean colors; class 0 is red, class 1 blue."""
    network = Network(nn.Identity(), nn.Linear(3, 2))
    with torch.no_grad():
        network.head.weight.copy_(torch.tensor([[50.0, 0.0, -50.0], [-50.0, 0.0, 50.0]]))
        network.head.bias.copy_(torch.tensor([0.01, 0.0]))  # gray is class 0
    return network


def colored(samples: int = 200) -> BiasedDataset:
    """Every group equally large: half of the samples conflict."""
    generator = torch.Generator().manual_seed(0)
    targets, color = torch.arange(samples) % 2, torch.arange(samples) // 2 % 2
    images = torch.randint(90, 110, (samples, 3, 16, 16), generator=generator)
    images[torch.arange(samples), 2 * color] += 100
    coin = torch.arange(samples) // 4 % 2  # in each group heads as often as tails
    return BiasedDataset(
        inputs=images.to(torch.uint8),
        targets=targets,
        attributes={"color": color, "coin": coin, "unknown": torch.full((samples,), -1)},
        values={"color": ("red", "blue"), "unknown": ("a", "b")},
        classes=("cat", "dog"),
        bias="color",
    )


@pytest.fixture(scope="module")
def found():
    return audit_model(color_follower(), colored(), name="by hand", seed=0)


def test_features_that_carry_an_attribute_are_told_from_those_that_do_not(found):
    color, coin, unknown = found.features
    assert color.balanced_accuracy == 1
    assert color.control == pytest.approx(0.5, abs=0.03)
    assert color.p_corrected == pytest.approx(2 / 200)
    assert coin.p > 0.05
    assert unknown.balanced_accuracy is None
    assert unknown.reason.startswith("fewer than two of its values have")


def test_answers_flip_with_the_cue_the_network_follows_and_with_no_other(found):
    rates = {flip.change: flip.rate.value for flip in found.flips}
    assert rates["color removed"] == pytest.approx(0.5)  # the blue half turns to class 0
    assert rates["color changed"] > 0.9
    assert rates["texture changed"] == 0
    assert rates["brightness changed"] == 0
    assert rates["border covered"] == 0


def test_a_model_of_somebody_else_is_found_out_alike(found):
    network = color_follower()

    def answers(images):
        output = network(images)
        return output.logits.softmax(1).detach().numpy(), output.features.detach().numpy()

    assert audit_model(load_model(answers), colored(), name="by hand", seed=0) == found


def test_a_model_without_features_is_tested_for_the_rest_and_the_audit_says_so(found):
    network = color_follower()
    other = load_model(lambda images: network(images).logits.detach())
    without = audit_model(other, colored(), name="by hand", seed=0)
    assert {feature.reason for feature in without.features} == {"the model gives no features"}
    assert (without.flips, without.confident_errors) == (found.flips, found.confident_errors)
    said = list(untested_findings([], [], without))
    assert "reveal about 'color', because the model gives no features." in said[0]


@pytest.mark.parametrize("cue", ["color", "texture"])
def test_a_network_that_learned_a_planted_cue_flips_with_it_and_hardly_with_others(cue, blank):
    targets = torch.arange(400) % 2
    plain = blank(targets, seed=0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        small = [nn.Conv2d(3, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1), nn.ReLU()]
        network = Network(nn.Sequential(*small), nn.Linear(16, 2))
    config = TrainConfig(epochs=15, batch_size=50, lr=0.01, device="cpu")
    planted = replant(plain, targets, bias=cue)
    trained = fit(create("erm"), planted, network=network, config=config, fresh=False).network
    rates = {flip.change: flip.rate.value for flip in flip_rates(trained, plain, seed=0)}
    assert rates.pop(f"{cue} changed") > 0.95
    assert len(rates) == 6
    assert max(rates.values()) < 0.25


def test_confident_errors_are_counted_in_the_groups_they_are_in(found):
    groups = {
        (group.target, group.bias): group.errors
        for group in found.confident_errors
        if group.attribute == "color"
    }
    assert groups["cat", "blue"].value == groups["dog", "red"].value == 1
    assert groups["cat", "red"].value == groups["dog", "blue"].value == 0
    assert groups["cat", "red"].n == 50
    assert found.overall_errors.value == 0.5


def test_the_verdict_names_what_the_model_follows(found):
    verdict = verdict_of(
        [], [], found, list(untested_data(colored(), audited=200, with_files=False))
    )
    assert "The model's features reveal 'color'" in verdict.sentence
    names = {finding.name for finding in verdict.findings}
    assert {"color", "color changed", "color removed", "confident errors"} <= names
    assert "coin" not in names
    assert "texture changed" not in names


def test_the_network_stays_as_it_was():
    network = color_follower().train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    audit_model(network, colored(40), name="by hand", seed=0)
    assert network.training
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_without_attributes_errors_are_counted_by_class_and_constant_features_do_not_count():
    data = colored(40)
    plain = BiasedDataset(inputs=data.inputs, targets=data.targets)
    found = audit_model(color_follower(), plain, name="by hand", seed=0)
    assert [(g.attribute, g.target, g.errors.value) for g in found.confident_errors] == [
        (None, "0", 0.5),
        (None, "1", 0.5),
    ]
    constant = Network(nn.Sequential(nn.Flatten(), nn.Linear(768, 3)), nn.Linear(3, 2))
    for parameter in constant.parameters():
        nn.init.zeros_(parameter)
    (color, *_) = audit_model(constant, data, name="zero", seed=0).features
    assert color.reason == "the features are the same for every sample"


def test_removals_do_what_they_say():
    images = torch.arange(3 * 32 * 32).view(1, 3, 32, 32).remainder(251).to(torch.uint8)
    assert torch.equal(gray(images)[0, 0], gray(images)[0, 2])
    assert torch.equal(gray(gray(images)), gray(images))
    covered = without_border(images)
    assert torch.equal(covered[..., 2:-2, 2:-2], images[..., 2:-2, 2:-2])
    assert torch.equal(covered[..., 0, 0], images[..., 2, 2])
    assert torch.equal(covered[..., -1, 5], images[..., -3, 5])


def test_answers_that_flip_are_counted_over_patients() -> None:
    """Twenty patients have ten images of one color each; without color, the blue ones flip."""
    data = colored()
    patient = torch.arange(200) // 20 + 100 * (torch.arange(200) // 2 % 2)
    alone, together = (
        {flip.change: flip.rate for flip in flip_rates(color_follower(), each, seed=0)}
        for each in (data, replace(data, cluster=patient))
    )
    change = "color removed"
    assert alone[change] == wilson(100, 200)
    assert together[change].value == 0.5
    few = wilson(10, 20)
    assert together[change].low == pytest.approx(few.low, abs=0.03)
