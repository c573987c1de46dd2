"""Figures that only some runs have, against numbers made by hand."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from crossbias.errors import CrossbiasError
from crossbias.report.confusion import confusion, confusion_matrices
from crossbias.report.curves import learning_curves
from crossbias.report.galleries import galleries
from crossbias.report.planes import (
    decision_boundary,
    denoiser_scatter,
    feature_planes,
    principal_plane,
)
from crossbias.report.sample_pictures import guidance_rows
from crossbias.report.sampling_matrix import sampling_matrix, sampling_shares
from crossbias.runs.files import read_json, write_json
from crossbias.runs.read import Epoch, FinishedRun, read_run
from crossbias.runs.stored import Boundary, TrainingLabels, Views

WriteRun = Callable[..., Path]
Parse = Callable[[str], Any]


def keep(run: FinishedRun, name: str, value: torch.Tensor) -> None:
    """Store a stage as a run does."""
    path = run.path / "stages" / f"{name}.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path)


def declaring(folder: Path, **figures: list[str]) -> FinishedRun:
    """The run with other figures declared in ``config.json``."""
    config = read_json(folder / "config.json")
    config["page"]["figures"] = figures
    write_json(folder / "config.json", config)
    return read_run(folder)


def told(figure: Any, parse: Parse) -> str:
    assert figure is not None
    return parse(figure).find("svg")[0].attributes["aria-label"]


def test_shares_of_the_draws_are_the_weights_of_the_groups(write_run: WriteRun) -> None:
    """Nine groups of 30; conflicting samples are drawn three times as often: 21 units of 30."""
    run = read_run(write_run("a", views=True))
    shares = sampling_shares(run)
    assert shares is not None
    assert shares.samples.tolist() == [[30] * 3] * 3
    expected = torch.full((3, 3), 3 / 21, dtype=torch.float64)
    expected.fill_diagonal_(1 / 21)
    torch.testing.assert_close(shares.draws, expected)
    aligned = torch.eye(3, dtype=torch.bool)
    assert shares.of(aligned) == pytest.approx((1 / 3, 1 / 7))


def test_shares_follow_the_index_and_leave_out_what_is_not_known(write_run: WriteRun) -> None:
    """A naive count over rows that are neither all of the table nor in its order."""
    run = read_run(write_run("a", views=True))
    draw = torch.Generator().manual_seed(0)
    index = torch.randperm(500, generator=draw)[:200]
    target = torch.randint(0, 3, (200,), generator=draw)
    bias = torch.randint(-1, 3, (200,), generator=draw)
    weights = torch.rand(500, generator=draw, dtype=torch.float64)
    keep(run, "scores", weights)
    labels = TrainingLabels(index=index, target=target, attributes={"background": bias})
    shares = sampling_shares(replace(run, labels=labels))
    sums = np.zeros((3, 3))
    for row, y, b in zip(index.tolist(), target.tolist(), bias.tolist(), strict=True):
        if b >= 0:
            sums[y, b] += float(weights[row])
    assert shares is not None
    np.testing.assert_allclose(shares.draws.numpy(), sums / sums.sum())
    assert int(shares.samples.sum()) == int((bias >= 0).sum())


def test_the_sampling_matrix_says_what_aligned_groups_get(
    write_run: WriteRun, parse: Parse
) -> None:
    run = read_run(write_run("a", views=True))
    figure = sampling_matrix("PGD", run, 0)
    assert told(figure, parse) == (
        "PGD: aligned groups hold 33.3% of the training samples and get 14.3% of the draws"
    )
    texts = [text.text for text in parse(figure).find("text")]
    assert texts.count("14.3") == 6
    assert texts.count("4.8") == 3
    assert "dark 0%, light 14.3%" in texts


def test_stages_that_do_not_fit_the_labels_are_refused(write_run: WriteRun) -> None:
    run = read_run(write_run("a", views=True))
    keep(run, "scores", torch.ones(10))
    with pytest.raises(CrossbiasError, match=r"labels\.npz does not fit the stages"):
        sampling_shares(run)


def test_a_damaged_stage_is_named(write_run: WriteRun) -> None:
    run = read_run(write_run("a", views=True))
    (run.path / "stages" / "scores.pt").write_bytes(b"PK\x03\x04")
    with pytest.raises(CrossbiasError, match=r"scores\.pt is damaged"):
        sampling_shares(run)


def test_figures_are_read_from_the_stages_that_the_method_declares(write_run: WriteRun) -> None:
    folder = write_run("a", views=True)
    assert sampling_shares(declaring(folder)) is None  # the stage is there, but not declared
    assert sampling_shares(declaring(folder, sampling=["weights"])) is None  # it is not there
    run = declaring(folder, sampling=["inner/weights"])
    keep(run, "inner/weights", torch.ones(270))
    shares = sampling_shares(run)
    assert shares is not None
    torch.testing.assert_close(shares.draws, torch.full((3, 3), 1 / 9, dtype=torch.float64))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["scores", "weights"], "names 2 stages for the figure 'sampling', which reads 1"),
        (["../../b/stages/scores"], "the stage '../../b/stages/scores' lies outside of"),
    ],
)
def test_stages_that_cannot_be_meant_are_refused(
    write_run: WriteRun, names: list[str], message: str
) -> None:
    write_run("b", views=True)
    run = declaring(write_run("a", views=True), sampling=names)
    with pytest.raises(CrossbiasError) as caught:
        sampling_shares(run)
    assert message in str(caught.value)


def test_confusions_under_one_color_show_the_color_as_a_column(
    write_run: WriteRun, parse: Parse
) -> None:
    """A run that always answers the bias: every class gets the color's own answer."""
    run = read_run(write_run("a", single=True, aligned=1.0, conflicting=0.0))
    for color in range(3):
        expected = np.zeros((3, 3))
        expected[:, color] = 1
        np.testing.assert_array_equal(confusion(run, f"test-color-{color}"), expected)
    figure = confusion_matrices("ERM", run, 0)
    assert told(figure, parse) == (
        "ERM: answers by class under one color at a time; accuracy: red 33.3%, green 33.3%, "
        "blue 33.3%"
    )
    texts = [text.text for text in parse(figure).find("text")]
    assert {"red, n = 90", "green, n = 90", "blue, n = 90", "answer", "class"} <= set(texts)
    mixed = replace(run, predictions=dict.fromkeys(["test-color-0"], run.predictions["test"]))
    assert "accuracy: 0 33.3%" in told(confusion_matrices("ERM", mixed, 0), parse)


def test_a_class_that_is_absent_has_no_row_in_a_confusion(write_run: WriteRun) -> None:
    run = read_run(write_run("a", single=True))
    found = run.predictions["test-color-0"]
    rest = found.target != 1
    parts = {name: getattr(found, name)[rest] for name in ("index", "target", "probabilities")}
    columns = {name: column[rest] for name, column in found.attributes.items()}
    changed = replace(found, attributes=columns, **parts)
    shares = confusion(replace(run, predictions={"test-color-0": changed}), "test-color-0")
    assert np.isnan(shares[1]).all()
    np.testing.assert_allclose(shares[[0, 2]].sum(1), 1)


def test_the_principal_plane_is_that_of_scikit_learn() -> None:
    draw = torch.Generator().manual_seed(3)
    features = torch.randn(40, 6, generator=draw) * torch.tensor([5.0, 3.0, 1.0, 0.5, 0.2, 0.1])
    found, shares = principal_plane(features)
    reference = PCA(2).fit(features.double().numpy())
    expected = reference.transform(features.double().numpy())
    np.testing.assert_allclose(np.abs(found.numpy()), np.abs(expected), atol=1e-9)
    np.testing.assert_allclose(shares, reference.explained_variance_ratio_)
    again, _ = principal_plane(-features)  # the sign is fixed, not that of the decomposition
    assert (found.gather(0, found.abs().argmax(0, keepdim=True)) > 0).all()
    assert (again.gather(0, again.abs().argmax(0, keepdim=True)) > 0).all()


@pytest.mark.parametrize("shape", [(5, 1), (4, 3)])
def test_a_plane_of_one_feature_or_of_equal_samples_is_flat(shape: tuple[int, int]) -> None:
    features = torch.ones(shape)
    features[0, 0] = 2.0 if shape[1] == 1 else 1.0
    found, shares = principal_plane(features)
    assert found.isfinite().all()
    assert (found[:, 1] == 0).all()
    assert shares == pytest.approx((1.0, 0.0) if shape[1] == 1 else (0.0, 0.0))


def test_features_are_shown_by_class_and_by_bias_with_counts(
    write_run: WriteRun, parse: Parse
) -> None:
    run = read_run(write_run("a", views=True))
    texts = [text.text for text in parse(feature_planes("a", run, 0)).find("text")]
    assert {"by class", "by background"} <= set(texts)
    for name in (*run.test.classes, *run.test.biases):
        assert f"{name} (30)" in texts  # of 90 samples


def test_the_boundary_shows_the_plane_and_the_samples(write_run: WriteRun, parse: Parse) -> None:
    run = read_run(write_run("a", views=True))
    views = run.views["test"]
    boundary = Boundary(
        points=torch.rand(len(views.rows), 2),
        answers=(torch.arange(100) // 50).view(10, 10),
        limits=torch.tensor([0.0, 1.0, 0.0, 1.0]),
    )
    changed = replace(run, views={"test": replace(views, boundary=boundary)})
    figure = decision_boundary("a", changed, 0)
    assert told(figure, parse) == "a: answers over the plane, with 90 samples"
    assert decision_boundary("a", run, 0) is None


def test_the_threshold_of_the_denoiser_splits_by_loss_over_entropy(
    write_run: WriteRun, parse: Parse
) -> None:
    """Entropy 1 everywhere; 9 losses of 1 and one of 11 have a mean of 2: one is dropped."""
    run = declaring(write_run("a"), denoiser=["losses", "part/entropy", "delta"])
    keep(run, "losses", torch.tensor([1.0] * 9 + [11.0]))
    keep(run, "part/entropy", torch.ones(10))
    assert denoiser_scatter("a", run, 0) is None
    keep(run, "delta", torch.tensor(2.0))
    figure = denoiser_scatter("a", run, 0)
    assert told(figure, parse) == (
        "a: 9 of 10 training samples are kept, those with a loss below 2 times entropy"
    )
    texts = [text.text for text in parse(figure).find("text")]
    assert {"kept (9)", "dropped (1)", "threshold"} <= set(texts)


def test_guidance_maps_are_shown_under_their_pictures(write_run: WriteRun) -> None:
    folder = write_run("a")
    assert guidance_rows(read_run(folder)) == []
    run = declaring(folder, guidance=["inner/pictures", "inner/maps"])
    assert guidance_rows(run) == []
    keep(run, "inner/pictures", torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
    keep(run, "inner/maps", torch.ones(2, 2, 4, 4))
    rows = guidance_rows(run)
    assert [row.title for row in rows] == ["picture", "E(z)", "IE(z)"]
    assert all(len(row.sources) == 2 for row in rows)
    assert rows[1].sources[0] != rows[2].sources[0]  # IE(z) of 1 is nowhere enhanced
    keep(run, "inner/maps", torch.ones(3, 2, 4, 4))
    assert guidance_rows(run) == []


def test_losses_that_a_method_declares_have_axes_of_their_own(parse: Parse) -> None:
    losses = {
        "loss": 2.0,
        "entangling": 0.1,
        "hsic": 1e-4,
        "score_aligned": -1.0,
        "score_conflicting": 1.0,
    }
    declared = {
        "hsic": ("HSIC", "hsic of f and g"),
        "score_aligned": ("BN score", "aligned"),
        "score_conflicting": ("BN score", "conflicting"),
    }
    log = [Epoch("inner/final", number, 1.0, losses, {"accuracy": 0.5}) for number in (1, 2)]
    texts = [text.text for text in parse(learning_curves("a", log, declared, 0)).find("text")]
    assert [texts.count(title) for title in ("loss", "terms", "HSIC", "BN score")] == [2, 1, 1, 1]
    assert {"hsic of f and g", "aligned", "conflicting", "entangling", "validation"} <= set(texts)
    undeclared = [text.text for text in parse(learning_curves("a", log, {}, 0)).find("text")]
    assert {"terms", "hsic", "score aligned", "entangling"} <= set(undeclared)
    plain = [epoch._replace(losses={"loss": 1.0}) for epoch in log]
    texts = [text.text for text in parse(learning_curves("a", plain, declared, 0)).find("text")]
    assert not {"terms", "HSIC", "BN score"} & set(texts)


def test_stages_of_a_method_inside_another_are_named_with_a_slash(parse: Parse) -> None:
    log = [Epoch(name, 1, 1.0, {"loss": 1.0}, {}) for name in ("plain", "inner/final")]
    figure = parse(learning_curves("a", log, {}, 0))
    assert {"plain", "inner/final"} <= {text.text for text in figure.find("text")}


def test_five_series_differ_in_color_dashes_and_mark() -> None:
    names = ("accuracy", "aligned", "conflicting", "unbiased", "worst_group")
    log = [Epoch("final", n, 1.0, {}, dict.fromkeys(names, 0.1 * n)) for n in (1, 2)]
    figure = learning_curves("a", log, {}, 0)
    colors = set(re.findall(r"stroke: var\(--series-(\d)\)", figure))
    assert colors == {"1", "2", "3", "4", "5"}


def test_galleries_name_the_runs_that_have_nothing(write_run: WriteRun) -> None:
    runs = [read_run(write_run("a", views=True)), read_run(write_run("b"))]
    found = {gallery.kind.identifier: gallery for gallery in galleries(["a", "b"], runs)}
    assert list(found) == ["sampling", "features"]
    for gallery in found.values():
        assert [name for name, _ in gallery.figures] == ["a"]
        assert gallery.missing == ["b"]


def test_views_of_another_run_are_refused(write_run: WriteRun) -> None:
    folder, larger = write_run("a", views=True), write_run("b", views=True, each=60)
    (folder / "views.npz").write_bytes((larger / "views.npz").read_bytes())
    with pytest.raises(CrossbiasError, match=r"views\.npz and predictions\.npz do not belong"):
        read_run(folder)
    assert isinstance(read_run(larger).views["test"], Views)
