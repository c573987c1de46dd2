import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.runs.stored import load_predictions, save_predictions
from crossbias.types import UNKNOWN
from crossbias.verify import Predictions, wilson


@pytest.fixture
def predictions() -> Predictions:
    """Four samples; the model answers the background: right, wrong, right and wrong."""
    answers = torch.tensor([0, 0, 1, 1])
    return Predictions(
        index=torch.tensor([7, 3, 1, 9]),
        target=torch.tensor([0, 1, 1, 0]),
        probabilities=torch.eye(2)[answers] * 0.8 + 0.1,
        attributes={"back/ground.npy": answers, "size": torch.full((4,), UNKNOWN)},
        pictures=torch.arange(2 * 3 * 4 * 5, dtype=torch.uint8).view(2, 3, 4, 5),
        picture_rows=torch.tensor([3, 0]),
    )


def stored_parts(predictions: Predictions) -> Iterator[Tensor | None]:
    yield from (predictions.index, predictions.target, predictions.probabilities)
    yield from (predictions.pictures, predictions.picture_rows, predictions.cluster)
    yield from predictions.attributes.values()


def test_predictions_survive_the_file(predictions: Predictions, tmp_path: Path) -> None:
    path = tmp_path / "predictions.npz"
    plain = replace(predictions, attributes={}, pictures=None, picture_rows=None)
    predictions = replace(predictions, cluster=torch.tensor([5, 5, 2, 2]))
    save_predictions(path, {"test": predictions, "validation": plain})
    loaded = load_predictions(path)
    assert list(loaded) == ["test", "validation"]
    assert list(loaded["test"].attributes) == list(predictions.attributes)
    for before, after in ((predictions, loaded["test"]), (plain, loaded["validation"])):
        for old, new in zip(stored_parts(before), stored_parts(after), strict=True):
            assert (old is None) == (new is None)
            assert old is None or (new is not None and old.equal(new) and old.dtype == new.dtype)


def test_the_file_holds_the_documented_arrays(predictions: Predictions, tmp_path: Path) -> None:
    path = tmp_path / "predictions.npz"
    save_predictions(path, {"test": predictions})
    with np.load(path, allow_pickle=False) as file:
        assert set(file.files) == {
            "test/index", "test/target", "test/probabilities", "test/pictures",
            "test/picture_rows", "test/attributes/back/ground.npy", "test/attributes/size",
        }  # fmt: skip
        assert file["test/target"].tolist() == [0, 1, 1, 0]
        assert file["test/probabilities"].dtype == np.float32


def test_metrics_of_an_attribute(predictions: Predictions) -> None:
    aligned = torch.eye(2, dtype=torch.bool)
    names = {"classes": ("a", "b"), "values": ("x", "y")}
    metrics = predictions.metrics(bias="back/ground.npy", alignment=aligned, **names)
    assert (metrics.aligned, metrics.conflicting) == (wilson(2, 2), wilson(0, 2))
    assert metrics.biases == ("x", "y")
    unlabeled = predictions.metrics(bias="size", alignment=aligned, **names)
    assert unlabeled.aligned is None
    assert unlabeled.overall == wilson(2, 4)


def test_metrics_without_a_bias(predictions: Predictions) -> None:
    none = torch.zeros(2, 0, dtype=torch.bool)
    metrics = predictions.metrics(bias=None, alignment=none, classes=("a", "b"), values=())
    assert metrics.overall == wilson(2, 4)
    assert metrics.groups == ()


def test_metrics_of_a_mistyped_attribute_name_the_right_one(predictions: Predictions) -> None:
    with pytest.raises(CrossbiasError, match=r"no attribute 'sise' \(did you mean 'size'\?\)"):
        predictions.metrics(
            bias="sise", alignment=torch.eye(2) > 0, classes=("a", "b"), values=("x", "y")
        )


@pytest.mark.parametrize(
    "change",
    [
        {"index": torch.arange(3)},
        {"attributes": {"size": torch.zeros(5)}},
        {"picture_rows": torch.tensor([0])},
        {"picture_rows": torch.tensor([0, 4])},
        {"pictures": None},
    ],
)
def test_columns_that_do_not_fit_together_are_refused(
    predictions: Predictions, change: dict[str, Tensor]
) -> None:
    with pytest.raises(ValueError, match="rows"):
        replace(predictions, **change)


def test_a_split_name_with_a_slash_is_refused(predictions: Predictions, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="slash"):
        save_predictions(tmp_path / "predictions.npz", {"test/a": predictions})


def damaged(whole: bytes, random: Random) -> bytes:
    """A file cut short, or with one byte changed."""
    if random.random() < 0.3:
        return whole[: random.randrange(len(whole))]
    changed = bytearray(whole)
    changed[random.randrange(len(whole))] ^= random.randrange(1, 256)
    return bytes(changed)


def test_damaged_files_are_refused_by_name(predictions: Predictions, tmp_path: Path) -> None:
    path, random, messages = tmp_path / "predictions.npz", Random(0), []
    save_predictions(path, {"test": predictions})
    whole = path.read_bytes()
    for _ in range(300):
        path.write_bytes(damaged(whole, random))
        try:
            load_predictions(path)
        except CrossbiasError as error:
            messages.append(str(error))
    assert len(messages) > 200  # the rest hit bytes that nobody reads, such as file times
    assert all(str(path) in message for message in messages)


def test_missing_files_and_other_formats_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "predictions.npz"
    with pytest.raises(CrossbiasError, match=r"predictions\.npz does not exist"):
        load_predictions(path)
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(CrossbiasError, match="is damaged"):
        load_predictions(path)
    np.savez(path, **{"test/target": np.zeros(2, np.int64)})
    with pytest.raises(CrossbiasError, match="index"):
        load_predictions(path)


class Exploit:
    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path("executed"),))


def test_a_pickle_in_the_file_is_not_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("predictions.npz", **{"test/target": np.array([Exploit()], dtype=object)})
    with pytest.raises(CrossbiasError, match="is damaged"):
        load_predictions(Path("predictions.npz"))
    assert not Path("executed").exists()
    pickle.loads(pickle.dumps(Exploit()))  # the exploit is a working one
    assert Path("executed").exists()
