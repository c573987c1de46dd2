"""Files of a run that changed behind its back: each one is noticed by whoever reads it."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import crossbias
from crossbias import TrainConfig
from crossbias.errors import CrossbiasError, Interrupted
from crossbias.methods import ERM, PGD, GroupDRO
from crossbias.runs import RunFolder, read_run
from crossbias.runs.config_file import read_config, write_config
from crossbias.runs.files import read_json
from crossbias.runs.health import Symptom, save_health
from crossbias.testing import tiny_data, tiny_network
from crossbias.train.run import Run

CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> dict[int, Path]:
    """Finished runs of two seeds."""
    folders = {}
    for seed in (0, 1):
        folders[seed] = tmp_path_factory.mktemp("trained") / "run"
        result = crossbias.fit(
            PGD(), tiny_data(), network=tiny_network(), folder=folders[seed], progress=False,
            config=TrainConfig(epochs=1, batch_size=16, device="cpu", seed=seed),
        )  # fmt: skip
        result.evaluate(tiny_data(30, seed=1, split="test"))
    return folders


@pytest.fixture
def run(trained, tmp_path) -> Path:
    return Path(shutil.copytree(trained[0], tmp_path / "run"))


def flip(path: Path, place: float = 0.5) -> None:
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(content)


def load(folder: Path) -> None:
    crossbias.load_run(folder, network=tiny_network())


def draws(folder: Path) -> None:
    read_run(folder).stages_of("sampling", 1)


READERS = {
    "config.json": (read_run, load),
    "log.jsonl": (read_run,),
    "metrics.json": (read_run,),
    "predictions.npz": (read_run,),
    "views.npz": (read_run,),
    "labels.npz": (read_run,),
    "health.json": (read_run,),
    "model.safetensors": (load,),
    "stages/draws.pt": (draws,),
}


def test_a_finished_run_has_the_hashes_of_all_its_files(run):
    hashed = json.loads((run / "done").read_text())["sha256"]
    files = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    assert set(hashed) == files - {"done"}
    assert set(READERS) < set(hashed)
    for reader in (read_run, load, draws):
        reader(run)


@pytest.mark.parametrize("name", READERS)
def test_one_flipped_bit_another_runs_file_and_a_deleted_one_are_noticed(run, trained, name):
    good = (run / name).read_bytes()
    for reader in READERS[name]:
        for place in (0.0, 0.5, 0.99):
            flip(run / name, place)
            with pytest.raises(CrossbiasError, match="is not as the run wrote it"):
                reader(run)
            (run / name).write_bytes(good)
        if name not in ("labels.npz", "health.json"):  # the same for every seed
            shutil.copy(trained[1] / name, run / name)
            with pytest.raises(CrossbiasError, match="is not as the run wrote it"):
                reader(run)
        (run / name).unlink()
        with pytest.raises(CrossbiasError):
            reader(run)
        (run / name).write_bytes(good)


def test_a_file_that_the_run_did_not_write_is_noticed(run):
    (run / "views.npz").unlink()
    RunFolder(run).finish()
    read_run(run)
    shutil.copy(run / "labels.npz", run / "views.npz")
    with pytest.raises(CrossbiasError, match=r"views\.npz is not as the run wrote it"):
        read_run(run)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"sha256": 3}', "{"])
def test_a_run_without_hashes_is_refused(run, content):
    (run / "done").write_text(content)
    for reader in (read_run, load):
        with pytest.raises(CrossbiasError, match="done"):
            reader(run)


@pytest.mark.parametrize("part", ["overall", "conflicting", "unbiased", "groups", "worst_group"])
def test_metrics_that_the_predictions_contradict_are_refused_even_with_their_hash(run, part):
    metrics = json.loads((run / "metrics.json").read_text())
    found = metrics["test"][part]
    changed = found[0] if part == "groups" else found
    changed["value"] = 0.999 if changed["value"] < 0.9 else 0.001
    (run / "metrics.json").write_text(json.dumps(metrics))
    RunFolder(run).finish()
    with pytest.raises(CrossbiasError, match=r"predictions\.npz and metrics\.json do not belong"):
        read_run(run)


def test_answers_added_to_a_finished_run_are_hashed_too(tmp_path):
    result = crossbias.fit(
        ERM(), tiny_data(), network=tiny_network(), config=CONFIG, folder=tmp_path / "run",
        progress=False,
    )  # fmt: skip
    result.evaluate(tiny_data(30, seed=1, split="test"))
    assert read_run(tmp_path / "run").split == "test"


def stopped(folder: Path, monkeypatch, after: int) -> None:
    """A run of PGD that is stopped after some steps of both its stages."""
    taken = []

    def stop(self: Run, step: int) -> bool:
        taken.append(step)
        return len(taken) == after

    with monkeypatch.context() as patched, pytest.raises(Interrupted):  # noqa: PT012
        patched.setattr(Run, "asked_to_stop", stop)
        fitted(folder)


def fitted(folder: Path, **more: object) -> crossbias.Result:
    return crossbias.fit(
        PGD(), tiny_data(), network=tiny_network(), config=CONFIG, folder=folder, progress=False,
        **more,
    )  # fmt: skip


def in_final(folder: Path) -> bool:
    return torch.load(folder / "checkpoint.pt", weights_only=True)["stage"] == "final"


def test_an_edited_configuration_is_not_resumed(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    stopped(folder, monkeypatch, after=7)
    assert in_final(folder)
    config = read_config(folder / "config.json")
    config["train"]["lr"] = 0.5
    write_config(folder / "config.json", config)
    edited = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.5)
    with pytest.raises(CrossbiasError, match=r"config\.json is not the configuration with which"):
        crossbias.fit(
            PGD(), tiny_data(), network=tiny_network(), config=edited, folder=folder, resume=True,
            progress=False,
        )  # fmt: skip


@pytest.mark.parametrize(("known", "new"), [('"lr": 0.001', '"lr": 0.101'), ("crc32", "crc33")])
def test_a_changed_configuration_is_not_resumed_before_the_first_checkpoint(
    tmp_path, monkeypatch, known, new
):
    folder = tmp_path / "run"
    stopped(folder, monkeypatch, after=1)
    (folder / "checkpoint.pt").unlink()
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace(known, new))
    assert text.count(known) == 1
    with pytest.raises(CrossbiasError, match=r"config\.json is damaged: it was changed since"):
        fitted(folder, resume=True)


def test_the_log_of_another_run_is_not_resumed(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    stopped(folder, monkeypatch, after=7)
    config = TrainConfig(epochs=2, batch_size=16, device="cpu", seed=1)
    other = tmp_path / "other"
    crossbias.fit(
        PGD(), tiny_data(), network=tiny_network(), config=config, folder=other, progress=False
    )
    shutil.copy(other / "log.jsonl", folder / "log.jsonl")
    with pytest.raises(CrossbiasError, match=r"not the configuration with which .*log\.jsonl was"):
        fitted(folder, resume=True)


def test_the_health_of_another_run_is_not_resumed(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    stopped(folder, monkeypatch, after=7)
    save_health(folder / "health.json", [Symptom("other", "Another run.", "None.")], "another")
    with pytest.raises(CrossbiasError, match=r"health\.json is damaged or of another run"):
        fitted(folder, resume=True)


def test_a_lost_file_about_the_health_of_stages_is_written_again(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    stopped(folder, monkeypatch, after=7)
    (folder / "health.json").unlink()
    whole = fitted(tmp_path / "whole")
    assert whole.health
    assert fitted(folder, resume=True).health == whole.health
    assert read_json(folder / "health.json") == read_json(tmp_path / "whole" / "health.json")


def test_changed_words_about_the_health_of_stages_are_refused(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    stopped(folder, monkeypatch, after=7)
    path = folder / "stages.json"
    path.write_text(path.read_text().replace('"sentence": "', '"sentence": "Not ', 1))
    with pytest.raises(CrossbiasError, match=r"stages\.json is damaged or of another run"):
        fitted(folder, resume=True)


@pytest.mark.parametrize("left", [0, 1])
def test_lost_lines_of_the_log_are_reported(tmp_path, monkeypatch, left):
    folder = tmp_path / "run"
    stopped(folder, monkeypatch, after=7)
    log = folder / "log.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:left]))
    health = fitted(folder, resume=True).health
    (lost,) = [symptom for symptom in health if symptom.name == "damaged log"]
    assert lost.sentence.startswith(f"{len(lines) - left} of {len(lines)} lines of log.jsonl")


def test_a_method_does_not_judge_a_log_that_was_lost(tmp_path, monkeypatch):
    def stop(*_: object) -> None:
        raise Interrupted("stopped")

    given = {"network": tiny_network(), "config": CONFIG, "folder": tmp_path, "progress": False}
    with monkeypatch.context() as patched, pytest.raises(Interrupted):  # noqa: PT012
        patched.setattr(crossbias.Result, "keep_model", stop)
        crossbias.fit(GroupDRO(), tiny_data(), **given)
    (tmp_path / "log.jsonl").write_text("")
    result = crossbias.fit(GroupDRO(), tiny_data(), **given, resume=True)
    assert "damaged log" in [symptom.name for symptom in result.health]


def test_a_changed_stage_is_not_resumed(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    stopped(folder, monkeypatch, after=7)
    scores = folder / "stages" / "scores.pt"
    good = scores.read_bytes()
    flip(scores, 0.02)
    with pytest.raises(CrossbiasError, match=r"scores\.pt is damaged"):
        fitted(folder, resume=True)
    torch.save(torch.load(folder / "stages" / "draws.pt", weights_only=True) * 2, scores)
    with pytest.raises(CrossbiasError, match=r"scores\.pt is damaged"):
        fitted(folder, resume=True)
    scores.write_bytes(good)
    assert fitted(folder, resume=True).network is not None


def test_a_checkpoint_after_other_stages_is_not_resumed(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    stopped(folder, monkeypatch, after=7)
    hashes = json.loads((folder / "stages.json").read_text())
    del hashes["stages"]["scores"]  # so that they are computed again
    (folder / "stages.json").write_text(json.dumps(hashes))
    monkeypatch.setattr(Run, "score", lambda run, *_: torch.ones(run.data.full_size))
    with pytest.raises(CrossbiasError, match="was written after another stage 'scores'"):
        fitted(folder, resume=True)


def test_a_stage_without_its_hash_is_computed_again(tmp_path, monkeypatch):
    whole = fitted(tmp_path / "whole")
    stopped(tmp_path / "run", monkeypatch, after=7)
    RunFolder(tmp_path / "run").stage_hashes.unlink()
    result = fitted(tmp_path / "run", resume=True)
    for key, value in whole.network.state_dict().items():
        assert torch.equal(value, result.network.state_dict()[key])
