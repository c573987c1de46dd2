"""``crossbias evaluate RUN --data OTHER``: right numbers, or one line that says why not."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crossbias.experiment import Experiment
from crossbias.runs.stored import load_predictions, save_predictions

SIZE = 16  # not the default of a folder, which is 224


def draw(path: Path, red: int, green: int, seed: int) -> None:
    """A noisy image: red shows the class, though not always, and green the bias."""
    generator = np.random.default_rng(seed)
    pixels = generator.integers(0, 60, (20, 20, 3))
    pixels[..., 0] += red + generator.integers(0, 100)
    pixels[..., 1] += green
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path)


def colors(sex: str, age: str) -> tuple[int, int]:
    """The levels of red and green."""
    return 60 * (sex == "man"), 80 * (age == "old")


def write(
    folder: Path, rows: Sequence[tuple[str, str, str]], *, split: bool = True, bias: str = "age"
) -> None:
    """A folder of images with labels.csv; rows are the class, the bias value and the split."""
    lines = [f"file,sex,{bias}" + (",split" if split else "")]
    for number, (sex, age, part) in enumerate(rows):
        draw(folder / f"{number}.png", *colors(sex, age), number)
        lines.append(f"{number}.png,{sex},{age}" + (f",{part}" if split else ""))
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")


def rows(count: int, split: str, *, shift: int = 0) -> list[tuple[str, str, str]]:
    """Every fourth sample conflicts: women are old, men are young."""
    found = []
    for number in range(count):
        man, conflicting = number % 2, number % 8 in (shift, shift + 1)
        found.append((("woman", "man")[man], ("old", "young")[man ^ conflicting], split))
    return found


FACES = [*rows(32, "train"), *rows(8, "validation"), *rows(24, "test")]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data, ``faces``, and a run trained on it, ``run``."""
    folder = tmp_path_factory.mktemp("original")
    write(folder / "faces", FACES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CROSSBIAS_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        data = {"labels": "faces/labels.csv", "target": "sex", "bias": "age", "size": SIZE}
        Experiment(
            method={"name": "erm"},
            data={"name": "folder:faces", **data},
            network={"name": "small-convnet"},
            train={"epochs": 4, "batch_size": 16, "lr": 0.01, "device": "cpu"},
        ).run(folder / "run")
    return folder


@pytest.fixture
def run(original: Path, crossbias) -> Path:
    """The run alone, in the folder where commands are typed: its data is gone."""
    shutil.copytree(original / "run", "run")
    return Path("run")


@pytest.fixture
def before(run: Path) -> dict:
    """The metrics of the test split when the run was trained."""
    return json.loads((run / "metrics.json").read_text())["test"]


@pytest.fixture
def judged(run: Path, crossbias):
    """Judge the run on other data; get its metrics by split and what was said."""

    def typed(*arguments: str) -> tuple[dict, str]:
        code, out, err = crossbias("evaluate", str(run), *arguments, "-o", "found.json")
        assert code == 0, err
        assert "wrote found.json" in out
        return json.loads(Path("found.json").read_text()), err

    return typed


@pytest.fixture
def refused(run: Path, crossbias):
    """Judge the run on data that does not fit; get the line that says why."""

    def typed(*arguments: str) -> str:
        code, out, err = crossbias("evaluate", str(run), *arguments, "-o", "found.json")
        *_, said = err.splitlines()  # after lines about the decoding of images
        assert (code, out, err.count("crossbias: ")) == (2, "", 1), err
        assert said.startswith("crossbias: ")
        assert not Path("found.json").exists()
        return said

    return typed


def test_the_model_is_better_than_chance_and_follows_the_bias(before) -> None:
    assert before["conflicting"]["value"] < 0.8 * before["aligned"]["value"]
    assert 0.6 < before["overall"]["value"] < 1
    assert (before["overall"]["n"], before["aligned"]["n"]) == (24, 18)


def test_the_same_images_elsewhere_give_the_same_numbers(original, judged, before) -> None:
    """Size, target and bias are those of the run; the table has the same name."""
    shutil.copytree(original / "faces", "copy")
    found, _ = judged("--data", "folder:copy")
    assert found == {"test": before}


def test_the_run_needs_only_its_own_test_split(original, judged, before) -> None:
    shutil.copytree(original / "faces", "faces")
    for number in range(32):
        Path(f"faces/{number}.png").unlink()
    assert judged()[0] == {"test": before}
    lines = Path("faces/labels.csv").read_text().splitlines()
    Path("faces/labels.csv").write_text("\n".join([lines[0], *lines[41:]]) + "\n")
    found, err = judged()
    assert found == {"test": before}
    assert "changed" not in err
    Path("faces/labels.csv").write_text("\n".join([lines[0], *lines[42:]]) + "\n")
    assert "folder:faces test has changed since the run was trained" in judged()[1]


def test_a_class_of_another_name_is_refused_with_both_lists(refused) -> None:
    write(Path("other"), [(sex.replace("w", "W"), age, part) for sex, age, part in FACES])
    said = refused("--data", "folder:other")
    assert "folder:other test has the class 'Woman', which the model was not trained on" in said
    assert "the data has: Woman, man; the model knows: man, woman" in said


def test_names_are_refused_before_images_are_decoded(run, crossbias) -> None:
    write(Path("other"), [(sex.replace("w", "W"), age, part) for sex, age, part in FACES])
    code, _, err = crossbias("evaluate", str(run), "--data", "folder:other")
    assert code == 2
    assert err.startswith("crossbias: folder:other test has the class 'Woman'")


def test_ten_classes_are_refused_by_a_model_of_two(refused) -> None:
    line = refused("--data", "glyphs", "--set", "test_size=20")
    assert "glyphs test has the class '0'" in line
    assert "the model knows: man, woman" in line


def test_one_class_more_is_refused(refused) -> None:
    write(Path("other"), [*FACES, ("child", "young", "test")])
    assert "the data has: child, man, woman" in refused("--data", "folder:other")


def test_classes_that_only_other_splits_have_do_no_harm(judged, before) -> None:
    write(Path("other"), [*FACES, ("child", "young", "train")])
    assert judged("--data", "folder:other")[0] == {"test": before}


def test_some_of_the_classes_and_values_are_renumbered_by_name(judged, before) -> None:
    """Women alone are class 0 of their table, and class 1 of the run."""
    write(Path("women"), [row if row[0] == "woman" else ("", "", "") for row in FACES])
    lines = Path("women/labels.csv").read_text().splitlines()
    Path("women/labels.csv").write_text("\n".join(x for x in lines if ",,," not in x) + "\n")
    found, _ = judged("--data", "folder:women")
    assert found["test"]["classes"] == ["man", "woman"]
    assert found["test"]["per_class"][1] == before["per_class"][1]
    assert found["test"]["overall"]["n"] == 12
    assert found["test"]["groups"] == before["groups"][2:]
    assert found["test"]["empty_groups"] == 2


def test_bias_values_of_other_names_are_refused_with_both_lists(refused) -> None:
    write(Path("other"), [(sex, {"old": "60+"}.get(age, age), part) for sex, age, part in FACES])
    said = refused("--data", "folder:other")
    assert "folder:other test has the age value '60+'" in said
    assert "the data has: 60+, young; the model knows: old, young" in said


def test_a_bias_of_one_value_is_judged(judged, before) -> None:
    write(Path("old"), [(sex, "old", "test") for sex, age, part in FACES if part == "test"])
    found, _ = judged("--data", "folder:old")
    assert found["test"]["biases"] == ["old", "young"]
    assert (found["test"]["aligned"]["n"], found["test"]["conflicting"]["n"]) == (12, 12)


def test_data_without_the_bias_is_judged_by_class_only(judged, before) -> None:
    write(Path("other"), FACES, bias="height")
    found, err = judged("--data", "folder:other")
    assert found["test"]["overall"] == before["overall"]
    assert found["test"]["per_class"] == before["per_class"]
    assert found["test"]["aligned"] is found["test"]["conflicting"] is None
    assert "folder:other test has no labels of age, the bias of the run" in err


def test_an_attribute_that_the_run_does_not_know_is_reported_by_group(judged, before) -> None:
    write(Path("other"), FACES, bias="height")
    found, err = judged("--data", "folder:other", "--bias", "height")
    assert found["test"]["aligned"] is found["test"]["conflicting"] is None
    assert found["test"]["aligned_groups"] == []
    assert found["test"]["worst_group"] == before["worst_group"]
    assert found["test"]["groups"] == before["groups"]
    assert "the run was trained without the attribute height" in err


def test_a_table_without_splits_is_judged_whole(judged) -> None:
    write(Path("other"), FACES, split=False)
    found, err = judged("--data", "folder:other")
    assert list(found) == ["test"]
    assert found["test"]["overall"]["n"] == len(FACES)
    assert "folder:other has no splits: all 64 samples are judged" in err


def test_a_table_of_test_samples_alone_is_judged(judged, before) -> None:
    write(Path("other"), rows(16, "test"))
    assert judged("--data", "folder:other")[0]["test"]["overall"]["n"] == 16
    assert judged("--data", "folder:other", "--set", "size=14")[0]["test"]["overall"]["n"] == 16


def test_data_without_a_test_split_asks_for_one(refused, judged) -> None:
    write(Path("other"), rows(16, "train"))
    assert "has no test split, only train; name one" in refused("--data", "folder:other")
    assert judged("--data", "folder:other", "--split", "train")[0]["train"]["overall"]["n"] == 16
    found, _ = judged("--data", "folder:other", "--set", "split_by=")
    assert found["test"]["overall"]["n"] == 16


@pytest.mark.parametrize("top", ["plain", "plain/test"])
def test_a_folder_for_each_class_is_judged_whole(top: str, judged, before) -> None:
    for number, (sex, age, split) in enumerate(FACES):
        if split == "test":
            draw(Path(top, sex, f"{number}.png"), *colors(sex, age), number)
    found, _ = judged("--data", "folder:plain")
    assert found["test"]["overall"] == before["overall"]
    assert found["test"]["aligned"] is None


def test_other_columns_and_tables_are_named_as_for_train(original, judged, before) -> None:
    shutil.copytree(original / "faces", "copy")
    text = Path("copy/labels.csv").read_text().replace("file,sex,age", "file,gender,years")
    Path("copy/labels.csv").unlink()
    Path("table.csv").write_text(text)
    own = ["--data", "folder:copy", "--labels", "table.csv", "--target", "gender"]
    found, _ = judged(*own, "--bias", "years", "--root", ".")
    assert found["test"]["overall"] == before["overall"]
    assert found["test"]["unbiased"] == before["unbiased"]


def test_another_table_of_the_same_folder_is_other_data(original, judged) -> None:
    shutil.copytree(original / "faces", "faces")
    lines = Path("faces/labels.csv").read_text().splitlines()
    Path("some.csv").write_text("\n".join(x.rpartition(",")[0] for x in lines[:21]) + "\n")
    assert judged("--labels", "some.csv")[0]["test"]["overall"]["n"] == 20
    for same in ("folder:faces", "folder:./faces"):
        assert judged("--data", same)[0]["test"]["overall"]["n"] == 24


def test_only_json_is_written(refused, crossbias) -> None:
    code, out, err = crossbias("evaluate", "run", "-o", "found.csv")
    assert (code, out) == (2, "")
    assert "--output writes JSON, got found.csv; name a file that ends in .json" in err


def test_published_data_is_judged_on_its_test_splits(crossbias) -> None:
    tiny = ["--data", "glyphs", "--set", "data.size=40", "--set", "data.image_size=16"]
    tiny += ["--set", "data.test_size=20", "--epochs", "1", "--device", "cpu", "--method", "erm"]
    assert crossbias("train", *tiny, "--out", "run")[0] == 0
    code, _, err = crossbias("evaluate", "run", "-o", "found.json")
    assert (code, err) == (0, "")
    assert set(json.loads(Path("found.json").read_text())) == {"test", "test-biased"}
    for number in range(10):
        draw(Path("digits", str(number), "a.png"), 10 * number, 0, number)
    code, _, err = crossbias("evaluate", "run", "--data", "folder:digits", "-o", "found.json")
    assert code == 0, err  # read with 16 pixels, as the digits were drawn
    assert json.loads(Path("found.json").read_text())["test"]["overall"]["n"] == 10


@pytest.fixture
def faces(original: Path, run: Path) -> Path:
    """The data of the run, beside it again."""
    return shutil.copytree(original / "faces", "faces")


def test_a_positive_class_is_named_and_stored(judged, faces) -> None:
    found = judged("--positive", "man", "--prevalence", ".2")[0]["test"]
    detection, men = found["detection"], found["per_class"][found["classes"].index("man")]
    assert detection["positive"] == {"name": "man", "prevalence": 0.2, "threshold": None}
    assert detection["overall"]["sensitivity"]["value"] == men["value"]
    assert set(detection["by_bias"]) == {"old", "young"}
    assert {"ppv", "npv", "auc", "brier", "slope", "intercept"} < set(detection["overall"])
    assert "detection" not in judged()[0]["test"]


def test_a_threshold_is_chosen_on_the_validation_split_of_the_run(judged, faces, crossbias) -> None:
    arguments = ("--positive", "man", "--threshold", "sensitivity>=1")
    found, err = judged(*arguments, "--split", "test", "--split", "validation")
    threshold = found["test"]["detection"]["positive"]["threshold"]
    assert threshold["origin"] == "sensitivity>=1 on the validation split, 4 positive samples"
    assert found["validation"]["detection"]["overall"]["sensitivity"]["value"] == 1
    assert found["validation"]["detection"]["positive"]["threshold"] == threshold
    assert "the threshold was chosen on this validation split, so its rates here are too " in err
    _, out, _ = crossbias("evaluate", "run", *arguments)
    assert f"A sample is called man from a probability of {threshold['value']:.4g} (sens" in out


def test_a_threshold_without_validation_or_class_is_refused(refused, run, faces) -> None:
    assert "no class 'men' (did you mean 'man'?); the classes are: man, woman" in refused(
        "--positive", "men"
    )
    assert "are about one class; name it as positive" in refused("--threshold", ".3")
    splits = load_predictions(run / "predictions.npz")
    save_predictions(run / "predictions.npz", {"test": splits["test"]})
    said = refused("--positive", "man", "--threshold", "sensitivity>=.9")
    assert "is chosen on a validation split, and there is none; train with one" in said
