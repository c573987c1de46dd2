"""Shortcuts in files: their kind, their compression, where they lie."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from crossbias import BiasedDataset
from crossbias.audit.file_cues import file_cues
from crossbias.audit.probed_cues import audit_cues
from crossbias.errors import CrossbiasError


@pytest.fixture
def written(tmp_path):
    """Forty noise images, the class given by ``place``: a path and how to save there."""
    random = np.random.default_rng(0)

    def write(place) -> tuple[list[Path], torch.Tensor]:
        targets = torch.arange(40) % 2
        files = []
        for number, target in enumerate(targets.tolist()):
            name, options = place(target, number)
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = random.integers(0, 256, (20, 20, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path, **options)
            files.append(path)
        return files, targets

    return write


def audited(files, targets):
    cues = file_cues(files, [f"class {target}" for target in targets.tolist()])
    data = BiasedDataset(inputs=torch.zeros(len(targets), 1), targets=targets)
    found = audit_cues(cues, data, permutations=99, seed=0)
    return {finding.name: finding for finding in found}


@pytest.mark.parametrize(
    "place",
    [
        lambda target, number: (f"{number}.{'png' if target else 'jpg'}", {}),
        lambda target, number: (f"{number}.jpg", {"quality": 90 if target else 70}),
    ],
    ids=["kind of file", "compression"],
)
def test_a_class_saved_another_way_is_found(written, place):
    found = audited(*written(place))
    assert found["file format"].p == 0.01
    assert found["file format"].balanced_accuracy == 1


def test_files_saved_alike_tell_nothing(written):
    found = audited(*written(lambda target, number: (f"{number}.jpg", {})))
    assert found["file format"].p > 0.05
    assert found["file folder"].reason == "it is the same in every sample"


def test_a_folder_that_goes_along_with_the_class_is_found(written):
    files, targets = written(lambda target, number: (f"hospital {target}/{number}.png", {}))
    assert audited(files, targets)["file folder"].balanced_accuracy == 1


def test_folders_that_are_the_classes_are_no_cue(written):
    files, targets = written(lambda target, number: (f"class {target}/{number}.png", {}))
    assert audited(files, targets)["file folder"].reason == "it is the same in every sample"


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(CrossbiasError, match=r"cannot read .*gone\.png \(No such file"):
        file_cues([tmp_path / "gone.png"], ["a"])
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(CrossbiasError, match=r"text\.png is not an image"):
        file_cues([tmp_path / "text.png"], ["a"])
