"""The whole audit: what it writes, and what it says to data that cannot be audited."""

import html
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from crossbias import BiasedDataset
from crossbias.audit import audit, suspects
from crossbias.audit.attributes import audit_attributes
from crossbias.audit.findings import check_folder
from crossbias.errors import CrossbiasError
from crossbias.progress import Progress
from crossbias.verify import Predictions

FAST = {"permutations": 99, "device": "cpu"}


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """The biased network is tested by itself."""
    monkeypatch.setattr(suspects, "STEPS", 4)


def vectors(samples=40, **changes) -> BiasedDataset:
    generator = torch.Generator().manual_seed(0)
    targets = torch.arange(samples) % 2
    values = torch.where(torch.rand(samples, generator=generator) < 0.9, targets, 1 - targets)
    return BiasedDataset(
        inputs=torch.randn(samples, 3, generator=generator),
        targets=targets,
        attributes={"side": values},
        **changes,
    )


def test_an_audit_is_kept_as_documented_and_repeats(planted, tmp_path):
    data = planted("color", rho=0.95, seed=0, samples=80)
    data = replace(data, attributes={"hospital": data.targets.clone()}, values={})
    one, other = (audit(data, **FAST) for _ in range(2))
    one.write(tmp_path / "a")
    other.write(tmp_path / "b")
    kept = json.loads((tmp_path / "a" / "audit.json").read_text())
    assert kept == json.loads((tmp_path / "b" / "audit.json").read_text())
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    rows = {**kept["attributes"][0], **kept["cues"][0], **kept["verdict"], **kept["suspects"]}
    for key in (*kept, *kept["data"], *kept["settings"], *rows):
        assert f"`{key}`" in page, key
    assert kept["version"] == 1
    assert kept["data"]["hash"] == data.hash
    assert kept["data"]["classes"] == [{"name": "0", "n": 40}, {"name": "1", "n": 40}]
    assert kept["model"] is None
    assert kept["cues"][0]["name"] == "border marks"
    assert (tmp_path / "a" / "audit.html").read_text() == one._page()
    assert html.escape(one._page()) in one._repr_html_()
    assert repr(one).startswith(f"<audit of {data.name} {data.split}, 80 samples: ")
    assert len(repr(one)) < 150
    for picture in kept["pictures"]:
        assert (tmp_path / "a" / picture["file"]).read_bytes().startswith(b"\x89PNG")
    assert kept["attributes"][0]["cramers_v"]["value"] == pytest.approx(1)
    assert kept["attributes"][0]["counts"] == [[40, 0], [0, 40]]
    assert kept["attributes"][0]["smallest"][0] == {"target": "0", "bias": "1", "n": 0}


def test_a_folder_with_anything_else_is_never_written_into(tmp_path):
    found = audit(vectors(), **FAST)
    found.write(tmp_path / "new")
    found.write(tmp_path / "new")  # an earlier audit is replaced
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("precious")
    with pytest.raises(CrossbiasError, match="is not empty and holds no audit"):
        found.write(tmp_path / "other")


def test_predicting_from_an_attribute_alone():
    """36 of 40 go along: the attribute is right on 90%, always one class on half."""
    targets = torch.arange(40) % 2
    values = targets.clone()
    values[:4] = 1 - values[:4]
    data = replace(vectors(), attributes={"side": values}, values={})
    (found,) = audit_attributes(data, permutations=99, seed=0)
    assert found.accuracy.value == found.balanced_accuracy == 0.9
    assert found.majority == found.chance == 0.5


def test_an_attribute_that_tells_a_rare_class_beats_the_majority_only_when_balanced():
    """99:1, and a value that is rare in both: the majority is answered anyway."""
    targets = (torch.arange(1000) >= 990).long()
    values = torch.zeros(1000, dtype=torch.int64)
    values[torch.arange(0, 990, 10)] = 1
    values[990:] = 1
    data = BiasedDataset(inputs=torch.zeros(1000, 1), targets=targets, attributes={"a": values})
    (found,) = audit_attributes(data, permutations=99, seed=0)
    assert found.accuracy.value == found.majority == 0.99
    assert found.balanced_accuracy == pytest.approx((1 + 0.9) / 2)
    assert found.p == 0.01


def test_many_attributes_get_the_shuffles_they_need():
    """At 99 shuffles the smallest p-value of 20 tests would be .2, and nothing ever found."""
    coins = torch.randint(2, (19, 40), generator=torch.Generator().manual_seed(0))
    attributes = {"side": vectors().targets.clone()} | {f"coin {k}": c for k, c in enumerate(coins)}
    found = audit(replace(vectors(), attributes=attributes, values={}), **FAST)
    assert [finding.name for finding in found.verdict.findings] == ["side"]


def test_vectors_are_audited_by_their_labels_only():
    found = audit(vectors(), **FAST)
    assert found.cues == ()
    assert found.suspects is None
    assert found.verdict.findings[0].name == "side"
    assert "Cues in the inputs, because they are not images." in found.verdict.not_tested


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (torch.full((40,), -1), "none of its values is known"),
        (torch.zeros(40, dtype=torch.int64), "all samples with a known value have the same one"),
        (torch.where(torch.arange(40) % 2 == 0, torch.arange(40) % 3, -1), "are of one class"),
    ],
)
def test_attributes_that_cannot_be_tested_say_why(values, reason):
    data = replace(vectors(), attributes={"side": values}, values={"side": ("a", "b", "c")})
    found = audit(data, **FAST)
    assert reason in found.attributes[0].reason
    assert found.attributes[0].p is None
    assert found.verdict.sentence.startswith("This data could not be tested for shortcuts; the")
    assert f"'side', because {found.attributes[0].reason}." in found.verdict.not_tested
    json.dumps(found.to_json(), allow_nan=False)


def test_one_class_is_refused():
    data = replace(vectors(), targets=torch.zeros(40, dtype=torch.int64))
    with pytest.raises(CrossbiasError, match="of 1 class only; an audit asks what tells"):
        audit(data, **FAST)


def test_fewer_samples_than_folds(blank):
    found = audit(blank(torch.tensor([0, 0, 1, 1, 1]), seed=0), **FAST)
    assert all(cue.p is not None for cue in found.cues)
    alone = audit(blank(torch.tensor([0, 0, 1]), seed=0), **FAST)
    assert {cue.reason for cue in alone.cues} == {"fewer than two classes have two samples or more"}
    assert "Cues in classes that have only one sample." in alone.verdict.not_tested


def test_constant_images_are_no_cue_and_no_crash(blank):
    data = blank(torch.arange(12) % 2, seed=0)
    found = audit(replace(data, inputs=torch.full_like(data.inputs, 7)), **FAST)
    assert {cue.reason for cue in found.cues} == {"it is the same in every sample"}
    assert found.verdict.findings == ()


def test_files_must_be_as_many_as_samples():
    with pytest.raises(CrossbiasError, match="40 samples but 1 files; name one for each"):
        audit(vectors(), files=[Path("a.png")], **FAST)


def test_only_some_of_many_samples_are_looked_at(blank):
    found = audit(blank(torch.arange(60) % 2, seed=0), limit=30, **FAST)
    assert found.data["audited"] == 30
    assert found.data["samples"] == 60
    assert any(
        "cues were tested in 30 of the 60 samples, drawn" in line
        for line in found.verdict.not_tested
    )


def test_many_classes_are_cut_to_the_largest(blank):
    targets = torch.cat([torch.arange(60), torch.arange(60), torch.arange(50)])
    found = audit(blank(targets, seed=0, side=8), **FAST)
    assert found.cues[0].chance == pytest.approx(1 / 50)
    assert "All classes: cues were tested in the 50 largest ones." in found.verdict.not_tested


def test_hostile_names_stay_text(tmp_path):
    name = "<script>alert(1)</script>[bold]$\\frac"
    data = vectors(classes=(name, "b"), values={"side": (name, "\x00")})
    data = replace(data, attributes={name: data.attributes["side"]}, values={name: (name, "b")})
    found = audit(data, **FAST)
    found.write(tmp_path / "a")
    kept = json.loads((tmp_path / "a" / "audit.json").read_text())
    assert kept["attributes"][0]["name"] == name
    assert {path.name for path in (tmp_path / "a").iterdir()} == {
        *("audit.html", "audit.json", "groups.csv", "slices.csv", "suspects.csv")
    }
    page = (tmp_path / "a" / "audit.html").read_text()
    assert html.escape(name) in page
    assert name not in page


def test_progress_is_told(blank):
    class Heard(Progress):
        def __init__(self):
            self.notes = []

        def note(self, text):
            self.notes.append(text)

    progress = Heard()
    audit(blank(torch.arange(8) % 2, seed=0), progress=progress, **FAST)
    assert "measured 8 of 8 images" in progress.notes
    assert "probing color" in progress.notes


def faces(conflicting: int, *, seed: int = 0) -> BiasedDataset:
    """Images of 1,890 people as colored noise: gender shows on the left, age on the right.

    The class is easy to see in a thumbnail, whether or not age is associated with it.
    """
    generator = torch.Generator().manual_seed(seed)
    gender = torch.arange(1890) % 2
    age = gender.clone()
    swapped = torch.randperm(1890, generator=generator)[:conflicting]
    age[swapped] = 1 - gender[swapped]
    images = 120 + 40 * torch.randn(1890, 3, 16, 16, generator=generator)
    images[..., :8] += 8 * (gender - 0.5)[:, None, None, None]
    images[..., 8:] += 60 * (age - 0.5)[:, None, None, None]
    return BiasedDataset(
        inputs=images.clamp(0, 255).to(torch.uint8), targets=gender, attributes={"age": age},
        classes=("female", "male"), values={"age": ("young", "old")}, bias="age", name="faces",
    )  # fmt: skip


def test_biased_data_is_told_from_balanced_data_by_its_attribute(verdict):
    """90 of 1,890 images conflict, or half of them; gender is in the thumbnail of both."""
    biased, balanced = verdict(faces(90)), verdict(faces(945))
    attributes, cues = biased.sentence.split("\n\n")
    assert attributes.startswith(
        "An attribute gives the class away: the attribute 'age' alone predicts the class of 95% of "
        "the samples"
    )
    assert "Here it follows 'age': where that conflicts with the class, the cue pred" in cues
    attributes, cues = balanced.sentence.split("\n\n")
    assert attributes.startswith("No attribute gives the class away: none of those tested ('age')")
    assert "is no sign of a bias by itself" in cues
    assert cues.endswith("The attributes tested ('age') do not explain it.")
    assert [finding.kind for finding in balanced.findings] == ["cue"] * len(balanced.findings)


def test_without_the_attribute_the_audit_says_that_it_cannot_tell(verdict):
    for data in (faces(90), faces(945)):
        told = verdict(replace(data, attributes={}, values={}, bias=None)).sentence
        assert "gives the class away: " not in told
        assert "Without attributes, biased and balanced data look the same to it." in told


def test_the_page_shows_verdict_counts_and_suspects_with_their_files(blank, monkeypatch, tmp_path):
    """A network that always answers the first class mistakes every sample of the second."""

    def probabilities(*_: object) -> Predictions:
        answers = torch.tensor([[0.9, 0.1]]).expand(40, 2)
        rows = torch.arange(40)
        return Predictions(index=rows, target=rows % 2, probabilities=answers, attributes={})

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(suspects, "predict", probabilities)
    data = blank(torch.arange(40) % 2, seed=0)
    camera = torch.arange(40) // 2 % 2
    data = replace(data, attributes={"camera": camera}, values={"camera": ("A", "B")})
    files = [Path(f"photo {number}.png") for number in range(40)]
    for file in files:
        Image.new("RGB", (2, 2)).save(file)
    found = audit(data, files=files, **FAST)
    assert {each.file for each in found.suspects.candidates} == {
        f"photo {number}.png" for number in range(1, 40, 2)
    }
    page = found._page()
    assert "<h3>Class <bdi>class 1</bdi>: 20</h3>" in page
    assert "<li><bdi>photo 1.png</bdi> <small>taken for <bdi>class 0</bdi></small></li>" in page
    assert "Samples by class and <bdi>camera</bdi>" in page
    assert "<strong>No shortcut was found:</strong> none of the" in page
    assert found.verdict.not_tested[0] in page


def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_is_measured(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(CrossbiasError, match=r"cannot be written to; choose another folder"):
        check_folder(tmp_path / "audits" / "mine")
    check_folder(tmp_path.parent / "elsewhere")
