"""``crossbias card`` and ``crossbias export``: what they write, and what they refuse."""

import json
import shutil
from pathlib import Path

import pytest

from crossbias.experiment import Experiment


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("handed over") / "run"
    Experiment(
        data={"name": "glyphs", "size": 40, "test_size": 20, "image_size": 16},
        network={"name": "convnet-1x1"},
        train={"epochs": 1, "device": "cpu"},
    ).run(folder)
    return folder


def test_card_and_evidence(crossbias, trained, tmp_path):
    code, out, _ = crossbias("card", str(trained))
    assert (code, out) == (0, "wrote card.md\n")
    assert (tmp_path / "card.md").read_text().startswith("---\n")
    code, out, _ = crossbias("card", str(trained), "--evidence", "evidence")
    assert code == 0
    assert "sha256sum -c SHA256SUMS" in out
    assert (tmp_path / "evidence" / "card.md").read_text() == (tmp_path / "card.md").read_text()


def test_a_damaged_run_has_no_card(crossbias, trained, tmp_path):
    copy = shutil.copytree(trained, tmp_path / "run")
    (copy / "metrics.json").write_text("{}")
    code, out, err = crossbias("card", str(copy))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "metrics.json is not as the run wrote it" in err
    assert not (tmp_path / "card.md").exists()


def test_export_of_a_hub_folder(crossbias, trained, tmp_path):
    code, out, _ = crossbias("export", str(trained), "--hub", "hub")
    assert (code, out) == (0, "wrote hub\n")
    assert json.loads((tmp_path / "hub" / "config.json").read_text())["command"] == ""
    code, _, err = crossbias("export", str(trained), "--hub", "hub")
    assert (code, err) == (
        2,
        "crossbias: hub exists and is not an empty folder; choose another one\n",
    )


def test_export_of_an_onnx_file(crossbias, trained, tmp_path, monkeypatch):
    from crossbias.export import onnx_export

    asked = {}

    def exported(model, inputs, metadata):
        asked.update(pixels=metadata.pixels, shape=tuple(inputs.shape))
        return b"content"

    monkeypatch.setattr(onnx_export, "_exported", exported)  # tests/export does it in earnest
    monkeypatch.setattr(onnx_export, "_check_same", lambda *_: None)
    monkeypatch.setattr(onnx_export, "OnnxModel", lambda *_: None)
    code, out, _ = crossbias("export", str(trained), "--onnx", "m.onnx", "--input", "uint8")
    assert (code, asked) == (0, {"pixels": "uint8", "shape": (2, 3, 16, 16)})
    assert out == "wrote m.onnx: takes (batch, 3 x 16 x 16), uint8; gives logits and features\n"
    assert (tmp_path / "m.onnx").read_bytes() == b"content"


def test_export_must_be_told_what_to_write(crossbias, trained):
    code, _, err = crossbias("export", str(trained))
    assert (code, err) == (2, "crossbias: say what to write: --onnx FILE, --hub DIR, or both\n")
