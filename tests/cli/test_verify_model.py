"""``crossbias verify --model``: the numbers of other libraries, or one line that says why not."""

import json
from pathlib import Path

import numpy as np
import pytest
from fairlearn.metrics import MetricFrame
from PIL import Image
from sklearn.metrics import accuracy_score, roc_auc_score
from tests.onnx_files import answers

from crossbias.audit import suspects

CLASSES = ("none", "pneumonia")


class XRays:
    """Images of one color each, whose red tells the finding, and a table of labels."""

    def __init__(self, folder: Path) -> None:
        generator = np.random.default_rng(0)
        self.folder = folder
        self.finding = np.arange(60) % 2
        self.hospital = np.where(generator.random(60) < 0.8, self.finding, 1 - self.finding)
        self.sex = generator.integers(0, 2, 60)
        red = 90 + 40 * self.finding + generator.integers(-60, 60, 60)
        green = 100 + 30 * self.hospital
        self.pixels = np.stack([red, green, np.full(60, 50)], 1).astype(np.uint8)
        folder.mkdir()
        lines = ["file,finding,hospital,sex,split"]
        for number, color in enumerate(self.pixels):
            image = np.broadcast_to(color, (6, 6, 3))
            Image.fromarray(np.ascontiguousarray(image)).save(folder / f"{number}.png")
            labels = (CLASSES[self.finding[number]], "AB"[self.hospital[number]])
            split = "train" if number < 20 else "test"
            lines.append(f"{number}.png,{','.join(labels)},{'fm'[self.sex[number]]},{split}")
        (folder / "labels.csv").write_text("\n".join(lines) + "\n")

    def logits(self) -> np.ndarray:
        """What the file answers to the images of the test split, as NumPy computes it."""
        return answers(self.pixels[20:, :, None, None] / np.float32(255))


@pytest.fixture
def x_rays(tmp_path: Path) -> XRays:
    return XRays(tmp_path / "x-rays")


@pytest.fixture
def verify(crossbias, x_rays):
    """Type the command about these images."""

    def typed(model: Path | str, *more: str) -> tuple[int, str, str]:
        named = ["--model", str(model), "--data", "folder:x-rays", "--labels", "labels.csv"]
        return crossbias("verify", *named, "--target", "finding", *more)

    return typed


def test_the_numbers_are_those_of_fairlearn_and_scikit_learn(verify, onnx_file, x_rays, tmp_path):
    wanted = ["--classes", "pneumonia,none", "--bias", "hospital", "--bias", "sex"]
    code, out, err = verify(
        onnx_file(), "--normalize", "none", *wanted, "--positive", "pneumonia", "-o", "all.json"
    )
    assert (code, "Traceback" in err) == (0, False)
    (found,) = json.loads((tmp_path / "all.json").read_text())["models"]
    truth = x_rays.finding[20:]
    called = 1 - x_rays.logits().argmax(1)  # the first output is pneumonia
    frame = MetricFrame(
        metrics=accuracy_score,
        y_true=truth,
        y_pred=called,
        sensitive_features=np.where(x_rays.hospital[20:] == 1, "B", "A"),
    )
    assert found["numbers"]["accuracy"]["value"] == pytest.approx(frame.overall)
    by_hospital = next(each for each in found["attributes"] if each["columns"] == ["hospital"])
    values = {each["value"]: each for each in by_hospital["values"]}
    for name, value in frame.by_group.items():
        assert values[name]["accuracy"]["value"] == pytest.approx(value)
    score = x_rays.logits()[:, 0] - x_rays.logits()[:, 1]
    assert found["numbers"]["auc"]["value"] == pytest.approx(roc_auc_score(truth, score))
    # The table names a training split, which tells what goes along with what.
    aligned = np.bincount(2 * x_rays.finding[:20] + x_rays.hospital[:20], minlength=4)
    table = aligned.reshape(2, 2)
    goes_along = table > table.sum(1, keepdims=True) * table.sum(0) / table.sum()
    inside = goes_along[truth, x_rays.hospital[20:]]
    right = called == truth
    assert by_hospital["metrics"]["conflicting"]["value"] == pytest.approx(right[~inside].mean())
    assert "its outputs are pneumonia, none" in out
    assert "40 samples of folder:x-rays, split test" in out


def test_what_is_taken_for_granted_is_said(verify, onnx_file):
    code, out, _ = verify(onnx_file(), "--normalize", "imagenet", "--bias", "hospital")
    assert code == 0
    assert "names no classes, so its outputs are taken in the order of the data's: none" in out
    assert "mean 0.485 0.456 0.406 and deviation 0.229 0.224 0.225 (imagenet)" in out
    assert "it gives logits" in out


def test_gates_and_the_page_are_those_of_a_table(verify, onnx_file, tmp_path):
    gates = ["--require", "accuracy >= .99", "-o", "page.html"]
    code, out, _ = verify(onnx_file(), "--normalize", "none", "--bias", "sex,hospital", *gates)
    assert code == 3
    assert "sex & hospital" in out
    assert "<html" in (tmp_path / "page.html").read_text()


def test_two_models_are_compared_on_the_same_images(crossbias, verify, onnx_file, tmp_path):
    second = onnx_file(name="second.onnx", softmax=True)
    code, _, _ = verify(
        onnx_file(), "--model", str(second), "--normalize", "none", "-o", "two.json"
    )
    assert code == 0
    found = json.loads((tmp_path / "two.json").read_text())
    first, other = (model["numbers"]["accuracy"] for model in found["models"])
    assert first == other  # the same answers, as logits and as probabilities
    assert {gain["gain"]["value"] for gain in found["gains"]} == {0}


def test_a_function_is_named_by_its_module(verify, tmp_path):
    (tmp_path / "own_models.py").write_text(
        "def load():\n    return lambda images: images.mean((2, 3))[:, :2] * 9 - 4\n"
    )
    code, out, _ = verify("own_models:load", "--normalize", "none", "--set", "size=8")
    assert code == 0
    assert "own_models:load: it names no classes" in out
    assert "it takes 3 x 8 x 8, pixels from 0 to 1" in out


MISTAKES = {
    "no normalization": ([], "does not know how its training normalized images"),
    "no such normalization": (["--normalize", "image"], "--normalize is 'image'; write none"),
    "half a normalization": (["--normalize", ".5/x"], "--normalize is '.5/x'; write none"),
    "another size": (["--normalize", "none", "--set", "size=5"], "read images of a folder with "),
    "no such class": (["--normalize", "none", "--classes", "none,ill"], "class 'pneumonia', which"),
    "no such attribute": (["--normalize", "none", "--bias", "hospitl"], "did you mean 'hospital'"),
    "a table": (["table.csv", "--normalize", "none"], "TABLE is about tables of answers"),
    "a column": (["--prediction", "p"], "--prediction is about tables of answers; with --model"),
    "no such split": (["--normalize", "none", "--split", "tset"], "has no split 'tset'"),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_one_line(verify, onnx_file, kind):
    more, said = MISTAKES[kind]
    code, out, err = verify(onnx_file(), *more)
    last = err.splitlines()[-1]
    assert (code, out) == (2, "")
    assert last.startswith("crossbias: ")
    assert said in last
    assert "Traceback" not in err


@pytest.fixture
def audit(crossbias, x_rays):
    def typed(*more: str) -> tuple[int, str, str]:
        named = ["--data", "folder:x-rays", "--labels", "labels.csv", "--target", "finding"]
        return crossbias("audit", *named, "--permutations", "99", "--device", "cpu", *more)

    return typed


def test_an_audit_tests_the_model_too(audit, onnx_file, tmp_path, monkeypatch):
    monkeypatch.setattr(suspects, "STEPS", 10)
    file = onnx_file(("batch", 3, 16, 16), features=True)
    named = ["--normalize", "none", "--bias", "hospital", "--out", "found"]
    code, out, _ = audit("--model", str(file), *named)
    assert code == 0
    assert "features reveal hospital" in out
    found = json.loads((tmp_path / "found" / "audit.json").read_text())["model"]
    assert found["name"] == str(file)
    assert found["features"][0]["balanced_accuracy"] > 0.9  # the green of the image
    assert {"color changed", "color removed"} <= {flip["change"] for flip in found["flips"]}


def test_an_audit_refuses_a_model_before_the_long_work(crossbias, audit, onnx_file):
    code, out, err = audit("--model", str(onnx_file()))
    assert (code, out) == (2, "")
    assert "does not know how its training normalized images" in err.splitlines()[-1]
    code, _, err = audit("--model", str(onnx_file()), "--normalize", "none", "--set", "size=5")
    assert "takes inputs of 3 x 4 x 4, but the data has 3 x 5 x 5" in err.splitlines()[-1]
    code, _, err = crossbias("audit", "--model", "m.onnx", "--run", "runs/x")
    assert err == "crossbias: --run and --model both name a model; leave one of them out\n"


def test_a_model_needs_data(crossbias, onnx_file):
    code, _, err = crossbias("verify", "--model", str(onnx_file()))
    assert (code, err) == (
        2, "crossbias: a model is judged on images; name them: --data folder:PATH\n"
    )  # fmt: skip
