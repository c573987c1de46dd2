"""Slices: known answers, scipy's and scikit-learn's, and what an audit writes about them."""

import csv
import json

import pytest
import torch
from benchmarks.slices import null_set, patients_set, planted_set
from scipy.stats import fisher_exact
from sklearn.cluster import KMeans
from torch import nn

import crossbias
from crossbias import BiasedDataset, Network
from crossbias.audit.exports import fiftyone_labels, suspects_csv
from crossbias.audit.slices import FEWEST, excess_p, find_slices, k_means
from crossbias.audit.suspects import Candidate
from crossbias.audit.verdict import untested_findings, verdict_of
from crossbias.report.audit_section import read_audit

PLANTED = {"samples": 1000, "share": 0.15, "inside": 0.7, "outside": 0.05}


@pytest.fixture(scope="module")
def planted():
    features, answers, data = planted_set(**PLANTED, seed=0)
    return find_slices(features, answers, data, seed=0), answers, data


@pytest.mark.parametrize("seed", range(5))
def test_the_test_is_fishers(seed):
    draw = torch.Generator().manual_seed(seed)
    flags, members = torch.rand(2, 50, generator=draw) < 0.4
    table = [
        [int((flags & members).sum()), int((flags & ~members).sum())],
        [int((~flags & members).sum()), int((~flags & ~members).sum())],
    ]
    p = excess_p(flags, members, cluster=None, permutations=0, seed=0)
    assert p == pytest.approx(fisher_exact(table, alternative="greater").pvalue)


def test_clusters_of_one_sample_are_tested_like_samples():
    draw = torch.Generator().manual_seed(3)
    members = torch.rand(60, generator=draw) < 0.4
    flags = torch.rand(60, generator=draw) < torch.where(members, 0.5, 0.3)
    exact = excess_p(flags, members, cluster=None, permutations=0, seed=0)
    drawn = excess_p(flags, members, cluster=torch.arange(60), permutations=9999, seed=0)
    assert drawn == pytest.approx(exact, abs=4 * (exact / 9999) ** 0.5)  # four standard errors


def test_groups_are_those_of_scikit_learns_k_means():
    draw = torch.Generator().manual_seed(0)
    centers = 8 * torch.randn(4, 3, generator=draw, dtype=torch.float64)
    points = centers.repeat(30, 1) + torch.randn(120, 3, generator=draw, dtype=torch.float64)
    own = k_means(points, 4, generator=torch.Generator().manual_seed(1))
    other = KMeans(4, n_init=10, random_state=0).fit(points.numpy())
    inertia = float(torch.cdist(points, own).amin(1).square().sum())
    assert inertia == pytest.approx(other.inertia_)


def test_a_planted_slice_is_found_and_explained(planted):
    slices, _, data = planted
    assert {found.target for found in slices.found} == {"0", "1"}
    for found in slices.found:
        assert found.p_corrected < 0.001
        assert data.attributes["planted"][list(found.rows)].double().mean() > 0.8
        explanation = found.explained_by[0]
        assert (explanation.attribute, explanation.value) == ("planted", "1")
        assert explanation.inside > 0.8
        assert explanation.outside < 0.2


def test_numbers_are_about_the_half_that_was_not_searched(planted):
    slices, answers, data = planted
    wrong = answers != data.targets
    for found in slices.found:
        assert set(found.held_out) < set(found.rows)
        held_out = wrong[list(found.held_out)]
        assert found.errors.value == pytest.approx(float(held_out.double().mean()))
        assert found.errors.n == len(held_out)


def test_errors_at_random_make_no_slices():
    settings = {"samples": 400, "errors": 0.2}
    alarms = sum(
        bool(find_slices(*null_set(**settings, seed=seed), seed=seed).found) for seed in range(20)
    )
    assert alarms <= 4  # more than 4 of 20 at 5%: 0.3%


def test_patients_stay_together_and_do_not_raise_alarms():
    alarms = {"plain": 0, "clusters": 0}
    for seed in range(4):
        features, answers, data = patients_set(patients=40, each=20, seed=seed)
        alarms["clusters"] += bool(find_slices(features, answers, data, seed=seed).found)
        plain = BiasedDataset(inputs=data.inputs, targets=data.targets)
        alarms["plain"] += bool(find_slices(features, answers, plain, seed=seed).found)
    assert alarms["plain"] >= 3
    assert alarms["clusters"] <= 1
    wrong = (data.cluster % 4 < 2) & (features[:, 0] > 0)  # what looks alike fails in every half
    found = find_slices(features, torch.where(wrong, 1 - data.targets, data.targets), data, seed=0)
    for each in found.found:
        held_out = set(data.cluster[list(each.held_out)].tolist())
        others = set(data.cluster[list(set(each.rows) - set(each.held_out))].tolist())
        assert not held_out & others


def test_what_cannot_be_tested_is_said():
    data = BiasedDataset(inputs=torch.zeros(30, 2), targets=torch.arange(30) % 2)
    small = find_slices(data.inputs, data.targets, data, seed=0)
    assert small.reason == f"no class has {2 * FEWEST} samples, {FEWEST} in each half of the data"
    assert find_slices(None, data.targets, data, seed=0).reason == "the model gives no features"


def test_a_model_that_is_always_right_has_no_slices(planted):
    _, _, data = planted
    found = find_slices(data.inputs, data.targets, data, seed=0)
    assert (found.tested, found.found, found.reason) == (0, (), None)


def follower() -> Network:
    """Answers by red against blue; class 0 is red."""
    network = Network(nn.Identity(), nn.Linear(3, 2))
    with torch.no_grad():
        network.head.weight.copy_(torch.tensor([[50.0, 0.0, -50.0], [-50.0, 0.0, 50.0]]))
        network.head.bias.zero_()
    return network


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """A model that follows the color; in one of eight samples it conflicts with the class."""
    draw = torch.Generator().manual_seed(0)
    targets = torch.arange(800) % 2
    color = torch.where(torch.arange(800) // 2 % 8 == 0, 1 - targets, targets)
    images = torch.randint(90, 110, (800, 3, 8, 8), generator=draw)
    images[torch.arange(800), 2 * color] += 100
    data = BiasedDataset(
        inputs=images.to(torch.uint8), targets=targets, attributes={"color": color},
        values={"color": ("red", "blue")}, classes=("=cat()", "dog"),
    )  # fmt: skip
    files = [f"images/{number}.png" for number in range(800)]
    folder = tmp_path_factory.mktemp("audit") / "audit"
    found = crossbias.audit(
        data, files=None, network=follower(), judged=data, judged_files=files, permutations=99
    )
    found.write(folder)
    return found, folder


def test_the_verdict_names_slices_and_what_is_frequent_in_them(audited):
    found, _ = audited
    about = [finding for finding in found.verdict.findings if finding.kind == "slice"]
    assert {finding.name for finding in about} == {"=cat()", "dog"}
    for finding in about:
        assert finding.strength == "strong"
        assert "is wrong on 100% of a slice of class" in finding.sentence
        assert "against 0% of the other samples of the class" in finding.sentence
        assert "(100% against 0%)" in finding.sentence
    assert "The model fails on samples that look alike to it: it is wrong on" in (
        found.verdict.sentence
    )
    assert "Another such slice was confirmed." in found.verdict.sentence


def test_the_page_has_a_table_and_pictures_of_slices(audited):
    _, folder = audited
    page = (folder / "audit.html").read_text()
    assert "Slices on which the model fails" in page
    assert "color blue: 100% against 0%" in page
    assert (folder / "slice-1.png").read_bytes().startswith(b"\x89PNG")
    assert [row.target for row in read_audit(folder).slices] == ["=cat()", "dog"]


def test_samples_of_slices_are_listed_with_defused_cells(audited):
    _, folder = audited
    with open(folder / "slices.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 100  # every conflicting sample
    assert {row["target"] for row in rows} == {"'=cat()", "dog"}
    assert {row["wrong"] for row in rows} == {"True"}
    assert {row["held_out"] for row in rows} == {"True", "False"}
    with open(folder / "groups.csv") as file:
        groups = list(csv.DictReader(file))
    assert [row["n"] for row in groups] == ["350", "50", "50", "350"]
    with open(folder / "suspects.csv") as file:
        assert next(csv.reader(file)) == list(Candidate._fields)


def test_fiftyone_gets_whole_paths_labels_and_attributes(audited):
    _, folder = audited
    content = json.loads((folder / "fiftyone" / "labels.json").read_text())
    assert content.keys() == {"labels"}  # without "classes", labels are texts
    path, entry = next(iter(content["labels"].items()))
    assert path.startswith("/")
    assert path.endswith("images/0.png")
    assert entry == {
        "label": "=cat()",
        "attributes": {"slice": 1, "answer": "dog", "wrong": True},
    }


def test_suspects_are_listed_for_both():
    suspect = Candidate(3, "cat", "@dog", 0.9, 2.3, "a.png")
    assert suspects_csv([suspect]).splitlines()[1] == "3,cat,'@dog,0.9,2.3,a.png"
    (entry,) = fiftyone_labels([suspect], [])["labels"].values()
    assert entry["attributes"] == {"suspect": True, "taken_for": "@dog", "confidence": 0.9}
    assert fiftyone_labels([suspect._replace(file=None)], []) is None


def test_json_has_slices_without_rows(audited):
    _, folder = audited
    model = json.loads((folder / "audit.json").read_text())["model"]
    assert model["slices"]["found"][0].keys() == {
        *("target", "answer", "errors", "rest", "p", "p_corrected", "explained_by")
    }
    assert "answers" not in model


def test_a_model_without_features_is_said_not_to_be_tested(audited):
    found, _ = audited
    model = found.model
    small = type(model.slices)(tested=0, found=(), reason="the model gives no features")
    told = list(untested_findings([], [], type(model)(**{**vars(model), "slices": small})))
    assert any(text.startswith("Slices on which the model fails together, bec") for text in told)
    assert "look alike" not in verdict_of([], [], None, []).sentence


def test_the_verdict_says_that_no_slice_was_confirmed(audited):
    found, _ = audited
    none = type(found.model.slices)(tested=2, found=())
    model = type(found.model)(**{**vars(found.model), "slices": none})
    assert verdict_of([], [], model, []).sentence.endswith(
        "No slice was confirmed on which the model fails more than on the rest of its class."
    )
