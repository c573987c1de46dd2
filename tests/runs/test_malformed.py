"""Malformed files of a run: one line of error each, and never a traceback."""

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crossbias import load_run
from crossbias.errors import CrossbiasError, Interrupted
from crossbias.experiment import Experiment
from crossbias.judging import judge
from crossbias.runs import RunFolder, compare
from crossbias.runs.config_file import read_config
from crossbias.runs.read import read_run
from crossbias.train.checkpoint import load_checkpoint
from crossbias.train.run import Run

EXPERIMENT = Experiment(
    method={"name": "pgd", "biased_epochs": 2},
    data={"name": "glyphs", "size": 24, "test_size": 12},
    network={"name": "simple-convnet-1"},
    train={"epochs": 2, "batch_size": 12, "device": "cpu", "selection": "validation-accuracy"},
)
STRANGE = (None, 7, -1, "x", [], {}, [1], {"a": 1}, True, 1.5, [[]], 10**400)
DELETED = object()


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[Path, Path]:
    """A finished run, and one that was stopped in its last training."""
    home, steps = tmp_path_factory.mktemp("malformed"), []
    EXPERIMENT.run(home / "whole")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Run, "asked_to_stop", lambda run, step: steps.append(step) or steps[6:])
        with pytest.raises(Interrupted):
            EXPERIMENT.run(home / "half")
    return home / "whole", home / "half"


@pytest.fixture
def whole(runs, tmp_path) -> Path:
    return Path(shutil.copytree(runs[0], tmp_path / "whole"))


@pytest.fixture
def half(runs, tmp_path) -> Path:
    return Path(shutil.copytree(runs[1], tmp_path / "half"))


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every part of a value, and to the first two entries of every list."""
    yield from [at] if at else []
    pairs = value.items() if isinstance(value, dict) else ()
    pairs = enumerate(value[:2]) if isinstance(value, list) else pairs
    for key, part in pairs:
        yield from places(part, (*at, key))


def changed(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    value = copy.deepcopy(value)
    *before, last = at
    part = value
    for key in before:
        part = part[key]
    if new is DELETED:
        del part[last]
    else:
        part[last] = new
    return value


def test_every_part_of_a_configuration_may_be_strange(whole):
    """All readers take it, or refuse it in one line; nothing else is raised."""
    config = json.loads((whole / "config.json").read_text())
    path, refused, taken = whole / "config.json", 0, 0
    for at in places(config):
        for new in (*STRANGE, DELETED):
            path.write_text(json.dumps(changed(config, at, new)))
            try:
                read_config(path)
                taken += 1
            except CrossbiasError:
                refused += 1
    assert refused > 300
    assert taken > 100  # options of method, data and network are checked by their owners


@pytest.mark.parametrize(
    ("place", "new"),
    [
        ("data.hashes", []), ("data.values", {}), ("data.pixels.mean", [0.5, 0.5]),
        ("data.shape", []), ("data.aligned", {"other": []}), ("data.bias", "other"),
        ("data.seed", None), ("environment", {}), ("network.name", 7), ("method.name", []),
        ("data.classes", []), ("method.biased_epochs", 10**400), ("data.size", 10**400),
    ],
)  # fmt: skip
def test_all_readers_refuse_a_strange_configuration_in_one_line(whole, place, new):
    config = json.loads((whole / "config.json").read_text())
    (whole / "config.json").write_text(json.dumps(changed(config, tuple(place.split(".")), new)))
    RunFolder(whole).finish()
    refused = 0
    for read in (
        lambda: compare([whole]),
        lambda: judge(load_run(whole), {}),
        lambda: Experiment.from_run(whole).split("train"),
    ):
        try:
            read()
        except CrossbiasError:
            refused += 1
    assert refused


@pytest.mark.parametrize("name", ["predictions.npz", "views.npz", "labels.npz"])
def test_arrays_of_strange_types_and_shapes_are_refused(whole, name):
    with np.load(whole / name) as found:
        arrays = {key: found[key] for key in found.files}
    for key, array in arrays.items():
        strange = [
            array.reshape(-1)[..., None, None, None, None], array.astype(str),
            array.astype(np.uint64),
        ]  # fmt: skip
        for new in strange:
            np.savez(whole / name, **arrays | {key: new})
            RunFolder(whole).finish()
            with pytest.raises(CrossbiasError, match=name):
                compare([whole])


@pytest.mark.parametrize(("name", "number"), [("target", -5), ("target", 99), ("index", -1)])
def test_labels_of_other_classes_are_refused(whole, name, number):
    with np.load(whole / "labels.npz") as found:
        arrays = {key: found[key] for key in found.files}
    np.savez(whole / "labels.npz", **arrays | {name: np.full_like(arrays[name], number)})
    RunFolder(whole).finish()
    with pytest.raises(CrossbiasError, match=r"labels\.npz is damaged"):
        compare([whole])


def test_every_part_of_a_checkpoint_may_be_strange(half):
    path = half / "checkpoint.pt"
    saved, refused = torch.load(path, weights_only=True), 0
    outer = [at for at in places(saved) if at[0] != "state" or len(at) == 1]
    for at in outer:
        for new in (None, 7, torch.zeros(3), DELETED):
            if isinstance(saved[at[0]], tuple) and len(at) > 1:
                continue
            torch.save(changed(saved, at, new), path)
            try:
                load_checkpoint(path)
            except CrossbiasError:
                refused += 1
    assert refused > 35


@pytest.mark.parametrize(
    ("at", "new"),
    [
        (("epoch",), 99), (("epoch",), -1), (("step",), 99), (("state", "network"), 7),
        (("state", "network"), {"a": 1}), (("state", "optimizer"), {}), (("state",), {}),
        (("state", "optimizer", "param_groups"), []),
        (("state", "optimizer", "param_groups", 0, "amsgrad"), True),
        (("state", "optimizer", "state", 0, "exp_avg"), torch.zeros(3)),  # read past its end
        (("state", "optimizer", "state", 0, "exp_avg_sq"), DELETED),
        (("state", "optimizer", "state", 0, "step"), "x"),
        (("best", "network", "head.weight"), torch.zeros(3)), (("best", "value"), None),
        (("meter",), {"names": [], "rows": torch.tensor(0.0)}),
        (("meter",), {"names": ["loss"], "rows": torch.tensor(0.0)}),
        (("meter",), {"names": ["loss"], "rows": torch.zeros(999, 1)}),
    ],
)  # fmt: skip
def test_a_strange_checkpoint_is_not_resumed(half, at, new):
    path = half / "checkpoint.pt"
    torch.save(changed(torch.load(path, weights_only=True), at, new), path)
    with pytest.raises(CrossbiasError, match=r"checkpoint\.pt"):
        EXPERIMENT.run(half, resume=True)


@pytest.mark.parametrize("stage", ["biased.state", "draws"])
@pytest.mark.parametrize("value", [7, [], "x"])
def test_a_stage_that_holds_something_else_is_refused(half, stage, value):
    folder = RunFolder(half)
    folder.identity = json.loads(folder.stage_hashes.read_text())["identity"]
    folder.save_stage(stage, value)
    folder.checkpoint.unlink()
    with pytest.raises(CrossbiasError, match=rf"the stage '{stage}' holds a .*, not a"):
        EXPERIMENT.run(half, resume=True)


@pytest.mark.parametrize("value", [torch.ones(23), torch.ones(24).bool(), torch.ones(24) / 0])
def test_a_stage_of_another_shape_or_kind_is_refused(half, value):
    folder = RunFolder(half)
    folder.identity = json.loads(folder.stage_hashes.read_text())["identity"]
    folder.save_stage("draws", value)
    folder.checkpoint.unlink()
    with pytest.raises(CrossbiasError, match=r"the stage 'draws' holds .* shape \(24,\)"):
        EXPERIMENT.run(half, resume=True)


def test_damage_to_a_stage_that_is_not_read_again_is_refused(half):
    path = half / "stages" / "scores.pt"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CrossbiasError, match=r"scores\.pt is damaged"):
        EXPERIMENT.run(half, resume=True)


def test_a_changed_line_of_the_log_is_left_out_and_reported(half):
    first, *others = (half / "log.jsonl").read_text().splitlines()
    changed = first.replace('"step": 2', '"step": 3')
    assert changed != first
    (half / "log.jsonl").write_text("\n".join([changed, *others, '{"half a']))
    EXPERIMENT.run(half, resume=True)
    run = read_run(half)
    assert [symptom.name for symptom in run.health].count("damaged log") == 1
    assert [epoch.epoch for epoch in run.log if epoch.stage == json.loads(first)["stage"]] == [2]


def test_changed_words_about_the_health_of_a_run_are_refused(half):
    path = half / "health.json"
    path.write_text(path.read_text().replace("a", "b", 1))
    with pytest.raises(CrossbiasError, match=r"health\.json is damaged"):
        EXPERIMENT.run(half, resume=True)


def test_a_stage_whose_file_was_deleted_is_trained_again(runs, half):
    (half / "stages" / "biased.state.pt").unlink()
    (half / "checkpoint.pt").unlink()
    hashes = json.loads((half / "stages.json").read_text())
    hashes["stages"]["biased.state"] = "of damaged bytes"
    (half / "stages.json").write_text(json.dumps(hashes))
    result = EXPERIMENT.run(half, resume=True)
    for key, value in load_run(runs[0]).network.state_dict().items():
        assert torch.equal(value, result.network.state_dict()[key])


@pytest.mark.parametrize("content", ["[]", "7", "{}", '{"stages": []}', '{"stages": 3}', "{"])
def test_strange_hashes_of_stages_are_refused(half, content):
    (half / "stages.json").write_text(content)
    with pytest.raises(CrossbiasError, match=r"stages\.json"):
        EXPERIMENT.run(half, resume=True)
