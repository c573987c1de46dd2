"""IE: each step is the one Algorithm 1 asks for, and bad input is handled as documented."""

import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import crossbias
from crossbias import Network, TrainConfig
from crossbias.functional.difficulty import NOT_SEEN
from crossbias.methods import IE
from crossbias.methods.bias_ensemble import Division, divided
from crossbias.methods.ie.guidance_maps import intrinsic_maps
from crossbias.methods.ie.guided_training import GuidedTraining
from crossbias.testing import contract
from crossbias.train.run import Run

OTHER_VALUES = {
    "members": 1,
    "ensemble_length": 30,
    "q": 0.1,
    "confidence": 0.3,
    "class_balanced": True,
    "reference_start": 0.5,
    "guidance_start": 0.5,
    "alpha_loss": 0.9,
    "alpha_score": 0.9,
    "tau": 3.0,
    "lambda_sim": 0.9,
    "partners": "all",
    "empty": "candidates",
    "score_weights": False,
    "guidance_loss": False,
    "negative_loss": False,
    "detach": True,
    "exploitation_gradient": True,
    "explained": "prediction",
    "uniform": 0.9,
}
TOGETHER = {
    "members": {"ensemble_length": 10, "confidence": 0.3},
    "q": {"ensemble_length": 10, "confidence": 0.3},
    "confidence": {"ensemble_length": 10},
    "class_balanced": {"ensemble_length": 10, "confidence": 0.3},
    "reference_start": {"guidance_start": 0.5},
}


@pytest.mark.parametrize(
    "rule", contract(IE, other_values=OTHER_VALUES, together=TOGETHER), ids=str
)
def test_contract(rule):
    rule.check()


CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)
SGD = dataclasses.replace(CONFIG, batch_size=48, optimizer="sgd", momentum=0.0, lr=0.1, steps=5)


def smooth_network() -> Network:
    """Without batch statistics or dropout, so that a step can be written out."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Network(nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU()), nn.Linear(5, 3))


def halves(data) -> Division:
    """Every fourth sample a candidate, the others aligned."""
    candidates = torch.arange(data.full_size) % 4 == 0
    return Division(~candidates, candidates)


def prepared(method: IE, data, network=None, config=SGD, division=None) -> GuidedTraining:
    run = Run(data, network=network or smooth_network(), config=config)
    training = GuidedTraining(options=method, division=division or halves(data))
    training.setup(run)
    return training


def whole_batch(training: GuidedTraining):
    data = training.run.data
    return next(training.run.loader(data).batches([torch.arange(len(data))]))


def normalized(data, rows: Tensor) -> Tensor:
    return (data.inputs[rows].float() / 255 - 0.5) / 0.5


def updated(network: Network, loss: Tensor) -> Network:
    gradients = torch.autograd.grad(loss, list(network.parameters()))
    moved = copy.deepcopy(network)
    with torch.no_grad():
        for parameter, gradient in zip(moved.parameters(), gradients, strict=True):
            parameter.sub_(0.1 * gradient)
    return moved


def assert_same_weights(one: nn.Module, other: nn.Module) -> None:
    for key, value in other.state_dict().items():
        torch.testing.assert_close(one.state_dict()[key], value, rtol=1e-4, atol=1e-6, msg=key)


def grad_cam(network: Network, image: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Selvaraju et al. by autograd: maps weighted by their average gradient; and the maps."""
    maps = network.body(image[None]).detach().requires_grad_()
    logit = network.head(maps.mean((2, 3)))[0, number]
    (gradient,) = torch.autograd.grad(logit, maps)
    found = (gradient.mean((2, 3), keepdim=True) * maps).sum(1).relu()[0].detach().flatten()
    return found / found.max().clamp(min=1e-30), maps[0].detach().flatten(1).T


def naive_intrinsic(network: Network, image: Tensor, partner: Tensor, number: int, tau: float):
    """Eqs. 4 to 6, position by position."""
    used, z = grad_cam(network, image, number)
    partner_used, partner_z = grad_cam(network, partner, number)
    products = z @ partner_z.T  # (hw, hw): z_n . z_i^BN
    weight = torch.ones(len(z))
    for n in range(len(z)):
        best = int(products[n].argmax())
        common = products[n, best] / products.max() if products.max() > 0 else 0.0
        together = partner_used[best] + used[n]
        relative = (2 * partner_used[best] / together) ** tau if together > 0 else 0.0
        weight[n] = max(float(common * relative), 1.0)
    return weight


def test_two_classes_share_weights_evenly_and_leave_equation_12_out(data):
    two = dataclasses.replace(data, targets=data.targets.clamp(max=1), classes=("0", "1"))
    network = Network(nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU()), nn.Linear(5, 2))
    for found, even in ((prepared(IE(), two, network), 0.8), (prepared(IE(), data), 0.0)):
        assert found.even == even
        assert found.uses_negatives == (even == 0.0)
    as_in_the_paper = prepared(IE(uniform=0.0, negative_loss=True), two, network)
    assert as_in_the_paper.even == 0.0
    assert as_in_the_paper.uses_negatives


@pytest.mark.parametrize("uniform", [None, 0.25])
def test_a_guided_step_is_algorithm_1_written_out(uniform, data, monkeypatch):
    """Both networks after two steps before T2 and one guided step, by loops and autograd."""
    method = IE(
        reference_start=1, guidance_start=2, alpha_loss=0.4, alpha_score=0.6, tau=2.0, lambda_sim=3,
        uniform=uniform,
    )  # fmt: skip
    training = prepared(method, data)
    f, g = (copy.deepcopy(n.module) for n in (training.network, training.biased_network))
    drawn: list[tuple[Tensor, Tensor]] = []
    draw = training.negatives.draw
    monkeypatch.setattr(training.negatives, "draw", lambda *a: drawn.append(draw(*a)) or drawn[-1])
    batch, y = whole_batch(training), data.targets
    aligned, candidates = training.division

    def each(network: Network, inputs: Tensor = batch.inputs) -> Tensor:
        return F.cross_entropy(network(inputs).logits, y, reduction="none")

    l_b, l_d = torch.zeros(48), torch.zeros(48)
    l_ref, s = torch.zeros(48), torch.zeros(48)
    for t in range(3):
        training.step(batch)
        loss_b, loss_d = each(g), each(f)
        l_b = loss_b.detach() if t == 0 else 0.4 * loss_b.detach() + 0.6 * l_b  # eq. 1
        l_d = loss_d.detach() if t == 0 else 0.4 * loss_d.detach() + 0.6 * l_d
        if t == 1:
            l_ref = l_b.clone()
        if t >= 1:
            s = 0.6 * (l_b - l_ref) + 0.4 * s  # eq. 2
        w = torch.zeros(48)
        for i in range(48):
            own = y == y[i]
            hard_b, hard_d = l_b[i] / l_b[own].max(), l_d[i] / l_d[own].max()
            w[i] = hard_b / (hard_b + hard_d)
        if uniform:
            w = 0.75 * w + 0.25 * w.mean()
        loss = (w * loss_d).mean()  # eq. 8
        if t == 2:
            loss = guided_loss(f, each, batch.inputs, y, w, s, loss_d, drawn[0], data)
        f, g = updated(f, loss), updated(g, loss_b[aligned].mean())
        assert_same_weights(training.network.module, f)
        assert_same_weights(training.biased_network.module, g)
    torch.testing.assert_close(training.negatives.score, s, rtol=1e-4, atol=1e-6)
    rows, found = drawn[0]
    assert found.any()
    assert not found.all()  # both kinds of samples are tested here
    assert torch.equal(y[rows], y)
    assert (candidates & (s > 0))[rows[found]].all()  # eq. 3


def guided_loss(f, each, inputs, y, w, s, loss_d, drawn, data) -> Tensor:
    """Eqs. 7 and 9 to 13 at the first guided step, where lambda_main is 0."""
    rows, found = drawn
    partner_inputs = normalized(data, rows)
    maps = f(inputs).maps.flatten(2)  # (B, D, hw)
    score = s[rows].clamp(min=0)
    partner_each = each(f, partner_inputs)
    total = torch.zeros(())
    for i in range(48):
        if not found[i]:
            total = total + w[i] * loss_d[i]
            continue
        weight = naive_intrinsic(f, inputs[i], partner_inputs[i], int(y[i]), tau=2.0)
        guidance = (maps[i] * weight).mean(1)
        similar = (maps[i].mean(1) - guidance).abs().sum()
        guided = F.cross_entropy(f.head(guidance)[None], y[i : i + 1])
        total = total + 3 * score[i] * similar + w[i] * guided + score[i] * partner_each[i]
    return total / 48


@pytest.mark.parametrize(
    ("row", "keywords", "terms"),
    [
        (1, {"partners": "all", "score_weights": False}, {"similar": 0.1, "guided": 1}),
        (2, {"partners": "candidates", "score_weights": False}, {"similar": 0.1, "guided": 1}),
        (3, {"score_weights": False}, {"similar": 0.1, "guided": 1}),
        (4, {"guidance_loss": False}, {}),
        (5, {"negative_loss": False}, {"similar": 0.1, "guided": 1, "negative": 0}),
        (6, {}, {"similar": 0.1, "guided": 1}),
    ],
)
def test_every_row_of_table_3_is_a_choice_of_keywords(row, keywords, terms, data, monkeypatch):
    training = prepared(IE(reference_start=0, guidance_start=1, **keywords), data)
    batch = whole_batch(training)
    training.step(batch)
    score = torch.linspace(-1, 1, 48)
    training.negatives.score.copy_(score)
    monkeypatch.setattr(training.negatives, "update", lambda *_: None)
    drawn = []
    draw = training.negatives.draw
    monkeypatch.setattr(training.negatives, "draw", lambda *a: drawn.append(draw(*a)) or drawn[-1])
    f = copy.deepcopy(training.network.module)
    losses = training.step(batch)

    expected = losses["main"] + losses["negative"] * terms.pop("negative", 1)
    expected = expected + sum(factor * losses[name] for name, factor in terms.items())
    torch.testing.assert_close(losses["loss"], expected)
    rows, found = drawn[0]
    pool = {1: torch.ones(48).bool(), 2: training.division.candidates}.get(
        row, training.division.candidates & (score > 0)
    )
    assert pool[rows[found]].all()
    weight = torch.ones(48) if row <= 3 else score[rows].clamp(min=0)
    each = F.cross_entropy(f(normalized(data, rows)).logits, data.targets, reduction="none")
    torch.testing.assert_close(losses["negative"], (weight * found * each).mean())


def test_lambda_main_rises_from_zero_to_one_over_the_guided_steps(data):
    method = IE(reference_start=0, guidance_start=2, partners="all", alpha_loss=1.0)
    training = prepared(method, data, config=dataclasses.replace(SGD, lr=1e-12))
    found = [training.step(whole_batch(training))["main"] for _ in range(5)]
    ratios = [(main / found[0]).item() for main in found]
    assert ratios == pytest.approx([1, 1, 0, 0.5, 1], abs=1e-4)


def test_lengths_are_fractions_below_one_and_steps_from_one_on(data):
    config = dataclasses.replace(SGD, steps=50)
    training = prepared(IE(reference_start=0.1, guidance_start=0.5), data, config=config)
    assert (training.reference_step, training.guidance_step) == (5, 25)
    training = prepared(IE(reference_start=7, guidance_start=9.0), data, config=config)
    assert (training.reference_step, training.guidance_step) == (7, 9)


@pytest.mark.parametrize("detach", [True, False])
def test_the_target_of_the_distance_is_fixed_or_not(detach, data):
    """Fixed, eq. 9 pulls the average to a constant: its gradient is the sign of the gap."""
    training = prepared(IE(detach=detach, tau=3.0), data)
    batch = whole_batch(training)
    network = training.network.module
    own = network(batch.inputs)
    maps = own.maps.detach().requires_grad_()
    partner = network(batch.inputs.flip(2))
    own = own._replace(maps=maps)
    distance, _ = training._guidance(batch, own, partner)
    (gradient,) = torch.autograd.grad(distance.sum(), maps)
    weight = torch.stack(
        [
            naive_intrinsic(network, image, image.flip(1), int(number), 3.0).view(4, 4)
            for image, number in zip(batch.inputs, batch.target, strict=True)
        ]
    )
    gap = (maps - maps * weight[:, None]).mean((2, 3)).sign()[:, :, None, None] / 16
    expected = gap.expand_as(maps) if detach else gap * (1 - weight[:, None])
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


def pooled_differently(maps: Tensor, weight: Tensor, detach: bool) -> Tensor:
    """Eq. 9 for one sample, by loops, with gradient wherever its arguments have it."""
    target = maps.detach() if detach else maps
    gaps = [(m - t * weight).mean() for m, t in zip(maps, target, strict=True)]
    return torch.stack(gaps).abs().sum()


@pytest.mark.parametrize("detach", [True, False])
def test_the_gradient_flows_through_r_into_the_explanation_map(detach, data):
    """Eq. 9 with c, i* and the partner as constants and E(z) written out, by autograd."""
    method = IE(detach=detach, exploitation_gradient=True, tau=3.0)
    training = prepared(method, data)
    batch = whole_batch(training)
    network = training.network.module
    own, partner = network(batch.inputs), network(batch.inputs.flip(2))
    maps = own.maps.detach().requires_grad_()
    distance, _ = training._guidance(batch, own._replace(maps=maps), partner)
    head = network.head.weight
    gradients = torch.autograd.grad(distance.sum(), (maps, head))
    total = torch.zeros(())
    for z, other, number in zip(maps, partner.maps.detach(), batch.target, strict=True):
        evidence = (head[number][:, None, None] * z).sum(0).relu()
        used = (evidence / evidence.max().clamp(min=1e-30)).flatten()
        seen = (head[number].detach()[:, None, None] * other).sum(0).relu()
        partner_used = (seen / seen.max().clamp(min=1e-30)).flatten()
        products = z.detach().flatten(1).T @ other.flatten(1)
        best, star = products.max(1)
        rows = []
        for n in range(16):
            common = best[n] / products.max()
            relative = 2 * partner_used[star[n]] / (partner_used[star[n]] + used[n])
            enhanced = common * relative**3 if partner_used[star[n]] > 0 else torch.zeros(())
            rows.append(enhanced if enhanced > 1 else torch.ones(()))
        total = total + pooled_differently(z, torch.stack(rows).view(4, 4), detach)
    expected = torch.autograd.grad(total, (maps, head))
    torch.testing.assert_close(gradients, expected, rtol=1e-3, atol=1e-5)


def test_with_gradient_through_r_the_network_looks_where_it_is_told(data):
    """A step along eq. 9 alone raises E(z) where features were enhanced; without, it does not."""
    rises = {}
    for through in (True, False):
        training = prepared(IE(exploitation_gradient=through, tau=3.0), data)
        batch, network = whole_batch(training), training.network.module
        own, partner = network(batch.inputs), network(batch.inputs.flip(2))
        maps = own.maps.detach().requires_grad_()
        distance, _ = training._guidance(batch, own._replace(maps=maps), partner)
        (gradient,) = torch.autograd.grad(distance.sum(), maps)
        before, weight = intrinsic_maps(
            own._replace(maps=maps.detach()), partner, network.head.weight, batch.target, tau=3.0
        )
        moved = own._replace(maps=maps.detach() - 1e-2 * gradient)
        after, _ = intrinsic_maps(moved, partner, network.head.weight, batch.target, tau=3.0)
        rises[through] = float((after - before)[weight > 1].mean().detach())
    assert rises[True] > 0 > rises[False]


def test_without_guidance_it_is_lff_with_bias_ensemble_and_without_candidates_too(data):
    """No partner for anybody: every sample keeps the full weight of its main loss."""
    nobody = Division(torch.ones(48).bool(), torch.zeros(48).bool())
    never = prepared(IE(guidance_start=10**6), data, division=nobody)
    empty = prepared(IE(guidance_start=1, reference_start=0), data, division=nobody)
    for _ in range(4):
        losses = [training.step(whole_batch(training)) for training in (never, empty)]
        torch.testing.assert_close(losses[0], losses[1])
    assert_same_weights(empty.network, never.network)


@pytest.mark.parametrize("empty", ["skip", "candidates"])
def test_partners_that_run_out_in_mid_training_are_handled_as_documented(empty, data, monkeypatch):
    method = IE(reference_start=0, guidance_start=1, empty=empty)
    training = prepared(method, data)
    monkeypatch.setattr(training.negatives, "update", lambda *_: None)
    batch = whole_batch(training)
    for score in (1.0, 1.0, -1.0, -1.0):
        training.negatives.score.fill_(score)
        losses = training.step(batch)
        assert all(value.isfinite() for value in losses.values())
    _, found = training.negatives.draw(batch, torch.rand(48))
    assert found.all() if empty == "candidates" else not found.any()
    assert losses["negative"] == 0
    assert (losses["guided"] > 0) == (empty == "candidates")


def test_a_head_that_explains_nothing_gives_no_guidance_and_no_nan(data):
    """Every explanation map is zero: eq. 5 would be 0 / 0."""
    network = smooth_network()
    nn.init.zeros_(network.head.weight)
    training = prepared(IE(guidance_start=0, reference_start=0, partners="all"), data, network)
    losses = training.step(whole_batch(training))
    assert losses["similar"] == 0
    assert all(value.isfinite() for value in losses.values())
    assert all(parameter.isfinite().all() for parameter in training.network.parameters())


def test_an_ensemble_that_calls_everything_aligned_or_nothing(data):
    for certain, candidates in ((1.0, 0), (0.5, 0), (0.0, 48)):
        division = divided(torch.full((5, 48), certain), data, confidence=0.99)
        assert division.aligned.all()  # never a biased network without anything to learn
        assert division.candidates.sum() == candidates
        training = prepared(IE(guidance_start=1, reference_start=0), data, division=division)
        for _ in range(4):
            losses = training.step(whole_batch(training))
        assert all(value.isfinite() for value in losses.values())


KINDS = ("aligned", "conflicting")


def test_the_logged_numbers_are_those_of_figure_2_and_table_2(data):
    training = prepared(IE(), data)
    score = torch.linspace(-1, 1, 48)
    training.negatives.score.copy_(score)
    found = training.end_epoch()
    candidates = training.division.candidates
    aligned = data.biases == data.targets
    for kind, chosen in zip(KINDS, (aligned, ~aligned), strict=True):
        assert found[f"score_{kind}"] == pytest.approx(score[chosen & candidates].mean().item())
        negative = (chosen & candidates & (score > 0)).sum() / chosen.sum()
        assert found[f"negatives_{kind}"] == pytest.approx(negative.item())
    share = (candidates & (score > 0)).sum() / candidates.sum()
    assert found["negatives"] == pytest.approx(share.item())


def test_a_telling_pair_is_the_least_loss_among_aligned_and_the_highest_score_among_candidates(
    data,
):
    training = prepared(IE(), data)
    training.biased_losses.values.copy_(torch.linspace(5, 1, 48))
    training.biased_losses.values[47] = NOT_SEEN  # the last aligned one of its class
    score = torch.linspace(-1, 1, 48)
    training.negatives.score.copy_(torch.where(data.targets == 1, -1.0, score))
    pairs = training.telling_pairs().tolist()
    aligned, candidates = training.division
    expected = []
    for number in (0, 2):  # nothing of class 1 is bias-negative
        first = [row for row in range(47) if aligned[row] and data.targets[row] == number]
        second = [row for row in range(48) if candidates[row] and data.targets[row] == number]
        expected.append([max(first), max(second)])
    assert pairs == expected


def test_maps_of_telling_pairs_are_saved_for_the_report(data, tmp_path):
    method = IE(reference_start=0, guidance_start=1, tau=2.0, ensemble_length=10, confidence=0.4)
    config = dataclasses.replace(CONFIG, epochs=4)
    result = crossbias.fit(
        method, data, network=smooth_network(), config=config, folder=tmp_path / "run"
    )
    pairs, maps, certainty = (
        torch.load(tmp_path / "run" / "stages" / f"{name}.pt", weights_only=True)
        for name in ("guidance-pairs", "guidance-maps", "ensemble")
    )
    aligned, candidates = divided(certainty, data, confidence=0.4)
    assert len(pairs)
    assert maps.shape == (len(pairs), 2, 4, 4)
    for (first, second), (explained, weight) in zip(pairs, maps, strict=True):
        assert data.targets[first] == data.targets[second]
        assert aligned[first]
        assert candidates[second]
        images, number = normalized(data, torch.stack([first, second])), int(data.targets[first])
        expected, _ = grad_cam(result.network, images[0], number)
        torch.testing.assert_close(explained.flatten(), expected, rtol=1e-4, atol=1e-5)
        expected = naive_intrinsic(result.network, *images, number, 2.0)
        torch.testing.assert_close(weight.flatten(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
def test_a_guided_step_never_waits_for_the_device(data, without_waiting):
    config = dataclasses.replace(SGD, device="cuda", steps=10)
    method = IE(reference_start=0, guidance_start=1, empty="candidates")
    training = prepared(method, data, config=config)
    batch = whole_batch(training)
    for _ in range(3):
        training.step(batch)
    with without_waiting():
        losses = training.step(batch)
    assert losses["guided"] > 0  # it was a guided one
