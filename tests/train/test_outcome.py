"""A finished network that learned nothing, or that follows the bias, is named; others are not."""

import dataclasses
from typing import ClassVar

import pytest
import torch
from scipy.stats import binomtest, fisher_exact
from torch import Tensor, nn

import crossbias
from crossbias import BiasedDataset, Method, TrainConfig
from crossbias.methods import DFR, ERM, LNL, AFLite, ClassBalanced, Denoised, GroupBalanced
from crossbias.networks import Network
from crossbias.testing import tiny_data, tiny_network
from crossbias.train.outcome import (
    _chance_of,
    following_symptoms,
    learning_symptoms,
    unlearning_symptoms,
)
from crossbias.verify import Metrics, Predictions
from crossbias.verify.cells import Alignment

TRAIN, VALIDATION = tiny_data(480), tiny_data(240, seed=1, split="validation")
CONFIG = TrainConfig(epochs=3, batch_size=32, device="cpu", lr=0.01)
DIAGONAL = Alignment(("red", "green"), torch.eye(2) > 0)


class Blind(nn.Module):
    """Features that are the same for all images."""

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.zeros(len(inputs), 4, device=inputs.device)


def answers_of(counts: list[tuple[int, int, int, int]], cluster: Tensor | None = None):
    """Answers with so many aligned, right, conflicting and right samples in each of two classes."""
    target, bias, answer = [], [], []
    for own, (aligned, right, against, right_against) in enumerate(counts):
        target += [own] * (aligned + against)
        bias += [own] * aligned + [1 - own] * against
        for number, correct in ((aligned, right), (against, right_against)):
            answer += [own] * correct + [1 - own] * (number - correct)
    probabilities = torch.eye(2)[torch.tensor(answer)]
    return Predictions(
        index=torch.arange(len(target)), target=torch.tensor(target), probabilities=probabilities,
        attributes={"color": torch.tensor(bias)}, cluster=cluster,
    )  # fmt: skip


def followed(*arguments) -> bool:
    return bool(list(following_symptoms(answers_of(*arguments), "color", DIAGONAL, method="end")))


def trained(
    method: Method, data: BiasedDataset = TRAIN, validation=VALIDATION, network=None, **changes
) -> set[str]:
    result = crossbias.fit(
        method, data, validation, network=network or tiny_network(dropout=0.0),
        config=dataclasses.replace(CONFIG, **changes), progress=False,
    )  # fmt: skip
    return {symptom.name for symptom in result.health}


def noisy_classes(data: BiasedDataset) -> BiasedDataset:
    """Images in which only the bias can be seen."""
    inputs = data.inputs.clone()
    draw = torch.Generator().manual_seed(0)
    shape = inputs[:, 0].shape
    inputs[:, 0] = torch.randint(0, 255, shape, dtype=inputs.dtype, generator=draw)
    return dataclasses.replace(data, inputs=inputs)


def test_a_network_that_follows_the_bias_is_named_with_its_numbers():
    answers = answers_of([(50, 49, 5, 1), (50, 50, 5, 2)])
    (found,) = following_symptoms(answers, "color", DIAGONAL, method="end")
    assert found.name == "final network follows the bias"
    assert "right on 30.0% of the 10 validation samples that conflict with color" in found.sentence
    assert "99.0% of the others of their classes" in found.sentence
    assert "take group-balanced" in found.remedy
    (balanced,) = following_symptoms(answers, "color", DIAGONAL, method="group-balanced")
    assert "group-balanced" not in balanced.remedy


def test_a_small_difference_or_one_by_chance_is_not_named():
    assert not followed([(500, 480, 500, 400), (500, 480, 500, 400)])  # 16 points
    assert not followed([(50, 30, 2, 0), (50, 30, 0, 0)])  # p is .16
    assert followed([(50, 30, 6, 0), (50, 30, 0, 0)])
    assert not followed([(50, 10, 50, 40), (50, 10, 50, 40)])  # the other way round


def test_a_hard_class_is_no_bias():
    """The second class is hard and conflicts more often (Simpson's paradox)."""
    assert not followed([(90, 88, 10, 10), (10, 1, 90, 9)])
    assert followed([(90, 88, 40, 4), (10, 1, 60, 6)])


@pytest.mark.parametrize("against", [1, 4, 8, 12])
def test_the_test_is_that_of_fisher_where_there_is_one_class(against):
    from crossbias.train.outcome import _Counts

    answers = answers_of([(40, 30, 12, against)])
    right = answers.answers == answers.target
    counts = _Counts.of(right, answers.target, answers.attribute("color") == 0, cluster=None)
    table = [[against, 12 - against], [30, 10]]
    expected = fisher_exact(table, alternative="less").pvalue
    assert counts.p_value() == pytest.approx(expected, rel=1e-9)


def test_strata_are_added_as_in_a_simulation():
    from crossbias.train.outcome import _Counts

    counts = _Counts(*torch.tensor([[20, 9.0], [15, 3], [8, 6], [4, 1]]).double())
    draw, right = torch.Generator().manual_seed(0), torch.zeros(20_000)
    for aligned, correct, against, correct_against in ((20, 15, 8, 4), (9, 3, 6, 1)):
        order = torch.rand(20_000, aligned + against, generator=draw).argsort(1)
        right += (order < correct + correct_against)[:, :against].sum(1)
    assert counts.p_value() == pytest.approx(float((right <= 5).float().mean()), abs=0.01)


def test_images_of_a_patient_count_once():
    """All 12 conflicting images are wrong, but they show one patient."""
    counts = [(60, 58, 12, 0), (60, 59, 0, 0)]
    images = torch.arange(132)
    assert followed(counts, images)
    assert not followed(counts, torch.where((images >= 60) & (images < 72), 60, images // 3 * 3))


def test_unknown_values_and_data_without_association_say_nothing():
    answers = answers_of([(50, 50, 5, 0), (50, 50, 5, 0)])
    unassociated = Alignment(("red", "green"), torch.zeros(2, 2) > 0)
    assert not list(following_symptoms(answers, "color", unassociated, method="end"))
    unknown = dataclasses.replace(answers, attributes={"color": torch.full((110,), -1)})
    assert not list(following_symptoms(unknown, "color", DIAGONAL, method="end"))


@pytest.mark.parametrize(("right", "named"), [(0.41, False), (0.39, True)])
def test_a_network_at_chance_is_named(right, named):
    target = torch.arange(300) % 3
    answers = torch.where(torch.arange(300) // 3 < 100 * right, target, (target + 1) % 3)
    metrics = Metrics.from_answers(
        target, torch.full((300,), -1), answers, alignment=None, classes=("a", "b", "c"), values=()
    )
    found = list(learning_symptoms(metrics))
    assert bool(found) == named
    if named:
        assert "39.0% of the validation samples" in found[0].sentence
        assert "would give 33.3%" in found[0].sentence
        assert "If it does not, train longer" in found[0].remedy  # may be said of plain training


def test_one_class_alone_has_no_chance_level():
    metrics = Metrics.from_answers(
        torch.zeros(9).long(), torch.full((9,), -1), torch.ones(9).long(), alignment=None,
        classes=("a", "b"), values=(),
    )  # fmt: skip
    assert not list(learning_symptoms(metrics))


def test_a_method_that_keeps_the_shortcut_is_named_and_plain_training_is_not():
    data, validation = noisy_classes(TRAIN), noisy_classes(VALIDATION)
    assert "final network follows the bias" in trained(ClassBalanced(), data, validation)
    assert "final network follows the bias" not in trained(ERM(), data, validation)


def test_a_method_that_removes_the_shortcut_is_not_named():
    assert "final network follows the bias" not in trained(GroupBalanced(), epochs=20)


def test_a_method_that_ends_without_a_training_is_judged_too():
    """DFR's last step is a regression."""
    blind = Network(Blind(), nn.Linear(4, 3))
    assert "final network learned nothing" in trained(DFR(), network=blind)


def unlearned(now, before, cluster: Tensor | None = None, bias: Tensor | None = None):
    """The warning about the first network of two; each has (right aligned, right conflicting).

    There are 100 aligned and 20 conflicting samples of one class, the right ones first.
    """
    answers, plain = (
        answers_of([(100, aligned, 20, conflicting)], cluster)
        for aligned, conflicting in (now, before)
    )
    if bias is not None:
        answers = dataclasses.replace(answers, attributes={"color": bias})
    return list(unlearning_symptoms(answers, plain, "color", DIAGONAL))


def test_a_network_that_lost_more_than_it_gained_is_named_with_its_numbers():
    (found,) = unlearned((60, 6), (98, 4))
    assert found.name == "final network is worse than plain training"
    assert (
        "right on 60.0% of the validation samples that go along with color and on 30.0% of those "
        "that conflict with it; the plain training that the method began with has 98.0% and 20.0%"
    ) in found.sentence
    assert "Keep plain training" in found.remedy


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ((90, 14), (98, 4)),  # 8 points for 50
        ((94, 4), (98, 4)),  # 2 points on the average of both
        ((60, 12), (98, 4)),  # 38 points for 40
        ((98, 4), (98, 4)),
        ((98, 3), (98, 5)),  # two samples of 20 may be chance
    ],
)
def test_a_fair_price_and_chance_are_not_named(now, before):
    assert not unlearned(now, before)


def test_images_of_a_patient_are_lost_once():
    """The 38 lost images show two patients, or 38; then also conflicting images of these two."""
    patients = torch.arange(120)
    assert unlearned((60, 4), (98, 4), patients)
    assert not unlearned((60, 4), (98, 4), torch.where(patients < 100, patients // 50, patients))
    assert not unlearned((60, 4), (98, 8), torch.where(patients < 100, patients // 50, 0))


def test_data_of_one_kind_alone_says_nothing():
    assert not unlearned((60, 4), (98, 4), bias=torch.zeros(120).long())  # all are aligned
    assert not unlearned((60, 4), (98, 4), bias=torch.full((120,), -1))


@pytest.mark.parametrize("entries", [2**24, 1])
def test_with_one_kind_the_test_is_that_of_mcnemar(entries, monkeypatch):
    monkeypatch.setattr("crossbias.train.outcome._ENTRIES", entries)
    changes = torch.cat([torch.ones(5), -torch.ones(15), torch.zeros(20)]).double() / 40
    expected = binomtest(5, 20, alternative="less").pvalue
    assert _chance_of(changes, None) == pytest.approx(expected, abs=0.006)


def test_with_two_kinds_all_signs_are_as_likely():
    changes = torch.tensor([0.2, 0.1, -0.1, -0.1, -0.3, -0.3]).double()
    signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 6).double()
    share = (signs @ changes <= changes.sum() + 1e-9).double().mean()
    assert _chance_of(changes, None) == pytest.approx(float(share), abs=0.015)
    together = torch.tensor([0, 1, 2, 3, 4, 4])  # .1 less is left of the last two, which is .6
    merged = torch.tensor([0.2, 0.1, -0.1, -0.1, -0.6]).double()
    assert _chance_of(changes, together) == _chance_of(merged, None)


def compared(monkeypatch, method: Method) -> bool:
    """Whether a training looks back at its plain one."""
    seen: list[object] = []

    def look(*arguments):
        seen.append(arguments)
        return iter(())

    monkeypatch.setattr("crossbias.train.result.unlearning_symptoms", look)
    trained(method, epochs=1)
    return bool(seen)


@pytest.mark.parametrize(
    "method",
    [
        AFLite(), LNL(), Denoised(inner=GroupBalanced()),
        Denoised(inner=AFLite(), noise_epochs=2),
    ],
    ids=str,
)  # fmt: skip
def test_methods_that_begin_with_plain_training_are_compared_with_it(method, monkeypatch):
    assert compared(monkeypatch, method)


@pytest.mark.parametrize(
    "method",
    [
        ERM(), GroupBalanced(), LNL(from_biased=False), LNL(biased_epochs=2),
        AFLite(feature_epochs=2), Denoised(inner=GroupBalanced(), noise_epochs=2),
    ],
    ids=str,
)  # fmt: skip
def test_others_and_plain_trainings_of_another_length_are_not(method, monkeypatch):
    assert not compared(monkeypatch, method)


@dataclasses.dataclass(kw_only=True)
class PlainThenAnother(Method):
    """A plain training, and another of so many updates."""

    paper: ClassVar[str] = "none"
    steps: int = 1

    def fit(self, run):
        run.plain = run.train(ERM(), name="plain")
        return run.train(ERM(), steps=self.steps)


def test_a_final_training_that_learned_less_is_named():
    name = "final network is worse than plain training"
    assert name in trained(PlainThenAnother(steps=1), epochs=8)
    assert name not in trained(PlainThenAnother(steps=120), epochs=8)
