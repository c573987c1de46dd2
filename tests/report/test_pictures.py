import base64
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from crossbias import BiasedDataset, Recipe, TrainConfig, fit
from crossbias.methods import ERM
from crossbias.report.overlay import LONGEST_SIDE
from crossbias.report.sample_pictures import SHOWN, sample_pictures
from crossbias.runs.compare import read_runs
from crossbias.runs.read import FinishedRun
from crossbias.verify import Predictions

WriteRun = Callable[..., Path]


def decoded(source: str) -> np.ndarray:
    head, content = source.split(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content))).convert("RGB"))


def changed(run: FinishedRun, **changes: object) -> FinishedRun:
    """The run with other test predictions."""
    predictions = replace(run.predictions["test"], **changes)
    return replace(run, predictions={"test": predictions})


def test_pictures_are_sorted_by_kind_with_every_runs_answer(write_run: WriteRun) -> None:
    runs = read_runs(
        [
            write_run("bias", aligned=1.0, conflicting=0.0),  # always answers the bias
            write_run("right", method="end", aligned=1.0, conflicting=1.0),
        ]
    )
    kinds = sample_pictures([[run] for run in runs])
    assert list(kinds) == ["aligned", "conflicting"]
    partner = dict(zip(("red", "green", "blue"), ("circle", "square", "star"), strict=True))
    for kind, pictures in kinds.items():
        assert len(pictures) == SHOWN
        for picture in pictures:
            assert (partner[picture.bias] == picture.target) == (kind == "aligned")
            follows, right = picture.answers
            assert follows is not None
            assert right is not None
            assert follows.name == partner[picture.bias]
            assert follows.right == (kind == "aligned")
            assert (right.name, right.right) == (picture.target, True)
            assert right.probability == pytest.approx(0.8)


def test_pictures_vary_in_class_and_bias(write_run: WriteRun) -> None:
    kinds = sample_pictures([read_runs([write_run("a")])])
    shown = [(picture.target, picture.bias) for picture in kinds["conflicting"]]
    assert [target for target, _ in shown] == ["circle", "square", "star"] * 2
    assert len(set(shown)) == SHOWN  # all six conflicting groups, though each has two pictures


def test_the_stored_pixels_are_shown(write_run: WriteRun) -> None:
    (run,) = read_runs([write_run("a", side=12)])
    predictions = run.predictions["test"]
    assert predictions.pictures is not None
    stored = {picture.numpy().transpose(1, 2, 0).tobytes() for picture in predictions.pictures}
    for picture in sample_pictures([[run]])["aligned"]:
        assert decoded(picture.source).tobytes() in stored


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_other_than_three_channels_show_the_first_in_gray(
    write_run: WriteRun, channels: int
) -> None:
    (run,) = read_runs([write_run("a")])
    pictures = torch.full((1, channels, 5, 7), 9, dtype=torch.uint8)
    pictures[0, 0, 2, 3] = 200
    run = changed(run, pictures=pictures, picture_rows=torch.tensor([0]))
    (picture,) = sample_pictures([[run]])["aligned"]
    shown = decoded(picture.source)
    assert shown.shape == (5, 7, 3)
    assert shown[2, 3].tolist() == [200] * 3
    assert shown[0, 0].tolist() == [9] * 3


def test_large_pictures_are_thinned_out(write_run: WriteRun) -> None:
    (run,) = read_runs([write_run("a")])
    large = torch.zeros(1, 3, 1000, 700, dtype=torch.uint8)
    run = changed(run, pictures=large, picture_rows=torch.tensor([0]))
    (picture,) = sample_pictures([[run]])["aligned"]
    assert max(decoded(picture.source).shape) <= LONGEST_SIDE


def reordered(found: Predictions, order: torch.Tensor) -> dict[str, object]:
    return {
        "index": found.index[order],
        "target": found.target[order],
        "probabilities": found.probabilities[order],
        "attributes": {name: column[order] for name, column in found.attributes.items()},
        "pictures": None,
        "picture_rows": None,
    }


def test_answers_are_matched_by_index_whatever_the_order(write_run: WriteRun) -> None:
    first, second = read_runs([write_run("a"), write_run("b", method="end", conflicting=0.6)])
    order = torch.randperm(270, generator=torch.Generator().manual_seed(0))
    shuffled = changed(second, **reordered(second.predictions["test"], order))
    expected, found = (sample_pictures([[first], [other]]) for other in (second, shuffled))
    assert found == expected


def test_a_run_that_lacks_a_sample_has_no_answer(write_run: WriteRun) -> None:
    first, second = read_runs([write_run("a"), write_run("b", method="end")])
    rest = torch.arange(1, 270)  # without the sample of the first picture
    shorter = changed(second, **reordered(second.predictions["test"], rest))
    answers = [picture.answers for picture in sample_pictures([[first], [shorter]])["aligned"]]
    assert answers[0][1] is None
    assert all(answer is not None for row in answers[1:] for answer in row)


def test_pictures_of_unknown_bias_are_of_no_kind(write_run: WriteRun) -> None:
    runs = read_runs([write_run("a", bias=None), write_run("b", bias=None, method="end")])
    kinds = sample_pictures([[run] for run in runs])
    assert list(kinds) == ["unknown"]
    assert {picture.bias for picture in kinds["unknown"]} == {""}


def test_runs_without_pictures_show_none_and_any_run_may_provide_them(write_run: WriteRun) -> None:
    without = write_run("a", side=0)
    assert sample_pictures([read_runs([without])]) == {}
    runs = read_runs([without, write_run("b", method="end")])
    kinds = sample_pictures([[run] for run in runs])
    assert all(len(picture.answers) == 2 for picture in kinds["aligned"])


def test_a_balanced_test_split_shows_pictures_of_both_kinds(tmp_path: Path) -> None:
    """In training, the attribute is the class; in the test split, it says nothing about it.

    The aligned test samples come first, so taking the first of each class would show only them.
    """
    halves = torch.arange(80) % 2
    train = BiasedDataset(
        inputs=torch.zeros(80, 3, 8, 8, dtype=torch.uint8), targets=halves,
        attributes={"age": halves}, bias="age", name="faces", split="train",
    )  # fmt: skip
    ages = torch.cat([halves[:40], 1 - halves[40:]])
    test = replace(train, attributes={"age": ages}, split="test")
    config = TrainConfig(steps=1, batch_size=8, device="cpu")
    result = fit(ERM(), train, network=Recipe("convnet"), config=config, folder=tmp_path / "run")
    result.evaluate(test)
    result.finish()
    shown = sample_pictures([read_runs(tmp_path / "run")])
    assert {kind: len(pictures) for kind, pictures in shown.items()} == {
        "aligned": SHOWN,
        "conflicting": SHOWN,
    }


def test_the_answer_of_several_seeds_is_that_of_most(write_run: WriteRun) -> None:
    """Two seeds follow the bias and one is right; on aligned samples, all agree."""
    rates = (0.0, 0.0, 1.0)
    folders = [
        write_run(f"a{seed}", aligned=1.0, conflicting=rate, seed=seed)
        for seed, rate in enumerate(rates)
    ]
    kinds = sample_pictures([read_runs(folders)])
    for kind, votes in (("aligned", 3), ("conflicting", 2)):
        for picture in kinds[kind]:
            (answer,) = picture.answers
            assert answer is not None
            assert (answer.right, answer.votes, answer.runs) == (kind == "aligned", votes, 3)


def test_without_association_pictures_have_no_kind(write_run: WriteRun) -> None:
    assert list(sample_pictures([read_runs(write_run("a", associated=False))])) == ["any"]
