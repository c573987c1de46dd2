"""Run folders with structural damage, whose hashes are written anew so that it is read."""

import io
import json
import shutil
import zipfile
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import torch
from hypothesis import strategies as st

from benchmarks.fire.damages import READERS
from benchmarks.fire.forks import Outcome, run
from benchmarks.fire.fuzz import Body, sparingly
from benchmarks.fire.mutations import SIDES, broken, mutated
from benchmarks.fire.subjects import Arena, resume
from crossbias.runs import RunFolder
from crossbias.runs.config_file import write_config
from crossbias.runs.files import hash_of, load_torch, write_json


def _read(data: st.DataObject, path: Path) -> Outcome:
    """How a reader of finished runs takes one whose hashes are written anew."""
    return _rehashed(path, data.draw(st.sampled_from(READERS)))


def _rehashed(path: Path, reader: tuple[str, ...]) -> Outcome:
    (path / "done").unlink()
    RunFolder(path).finish()
    return _reading(path, reader)


def _reading(path: Path, reader: tuple[str, ...]) -> Outcome:
    name, *options = reader
    written = ("-o", path / "report") if name == "report" else ()
    return run(name, path, *options, *written, prepare=sparingly)


def _any_json(name: str, arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """A file of JSON in a finished run: the value changed, or the text."""
    shutil.copytree(arena.whole("pgd"), path)
    _damage_json(path / name, data)
    return _read(data, path)


def _damage_json(file: Path, data: st.DataObject) -> None:
    content = file.read_bytes()
    if data.draw(st.integers(0, 3)):
        file.write_text(json.dumps(mutated(json.loads(content), data)))
    else:
        file.write_bytes(broken(content, data))


def _log(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """The log of a finished run, one of whose lines is changed."""
    shutil.copytree(arena.whole("pgd"), path)
    _damage_log(path / "log.jsonl", data)
    return _read(data, path)


def _damage_log(file: Path, data: st.DataObject) -> None:
    lines = file.read_text().splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    lines[at] = json.dumps(mutated(json.loads(lines[at]), data))
    file.write_bytes(broken("\n".join(lines).encode(), data))


def _unfinished(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """Configuration, log and list of stages of a run that is then resumed."""
    shutil.copytree(arena.half("pgd"), path)
    name = data.draw(st.sampled_from(["config.json", "stages.json", "health.json", "log.jsonl"]))
    damage = _damage_log if name == "log.jsonl" else _damage_json
    damage(path / name, data)
    return _resumed(path)


def _resumed(path: Path) -> Outcome:
    """How a resume takes a run whose configuration, if it is still one, has its checksum anew."""
    config = path / "config.json"
    with suppress(ValueError):
        value = json.loads(config.read_bytes())
        if isinstance(value, dict):
            write_config(config, {key: value[key] for key in value if key != "crc32"})
    return resume(path, sparingly).wait()


def _stages(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """What stages computed, with the hashes of the damaged files."""
    shutil.copytree(arena.half(data.draw(st.sampled_from(["pgd", "ie", "denoised", "lff"]))), path)
    stages = sorted((path / "stages").rglob("*.pt"))
    file = data.draw(st.sampled_from(stages))
    torch.save(mutated(load_torch(file), data), file)
    listed = json.loads((path / "stages.json").read_text())
    name = file.relative_to(path / "stages").as_posix().removesuffix(".pt")
    listed["stages"][name] = hash_of(file)
    write_json(path / "stages.json", listed)
    (path / "checkpoint.pt").unlink(missing_ok=True)  # else it goes on after the stage
    return _resumed(path)


def _checkpoint(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """The checkpoint of a run that is then resumed."""
    shutil.copytree(arena.half("erm"), path)
    file = path / "checkpoint.pt"
    torch.save(mutated(load_torch(file), data), file)
    return _resumed(path)


def _arrays(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """Predictions, labels and pictures of a finished run."""
    shutil.copytree(arena.whole("pgd"), path)
    file = path / data.draw(st.sampled_from(["predictions.npz", "labels.npz", "views.npz"]))
    with np.load(file) as found:
        tensors = {name: torch.from_numpy(found[name]) for name in found.files}
    changed = mutated(tensors, data)
    named = changed if isinstance(changed, dict) else {"changed": changed}
    arrays = {str(name).replace("/", "-"): _as_array(part) for name, part in named.items()}
    with file.open("wb") as opened:
        np.savez_compressed(opened, **arrays)
    return _read(data, path)


def _as_array(part: object) -> np.ndarray:
    """A part as an array without objects, which would not be written."""
    return np.asarray(part if isinstance(part, torch.Tensor | float | bool) else repr(part))


def _model(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """The header of the weights, which says where each tensor lies."""
    shutil.copytree(arena.whole("erm"), path)
    file = path / "model.safetensors"
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(mutated(json.loads(content[8 : 8 + size]), data)).encode()
    written = data.draw(st.sampled_from([len(header), 0, 2**40, 2**63]) | st.integers(0, 2**16))
    file.write_bytes(written.to_bytes(8, "little") + header + content[8 + size :])
    return _rehashed(path, ("evaluate",))


def _done(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """The hashes of a finished run."""
    shutil.copytree(arena.whole("pgd"), path)
    _damage_json(path / "done", data)
    return _reading(path, data.draw(st.sampled_from(READERS)))


def _shapes(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """Arrays that say they are huge."""
    shutil.copytree(arena.whole("pgd"), path)
    _enlarge(path / "predictions.npz", tuple(data.draw(st.lists(SIDES, min_size=1, max_size=3))))
    return _read(data, path)


def _enlarge(file: Path, shape: tuple[int, ...]) -> None:
    """Let the arrays of a file have another shape, and the bytes that they have."""
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            found = io.BytesIO(content)
            np.lib.format.read_magic(found)
            _, order, kind = np.lib.format.read_array_header_1_0(found)
            new = io.BytesIO()
            about = {"descr": kind.str, "fortran_order": order, "shape": shape}
            np.lib.format.write_array_header_1_0(new, about)
            archive.writestr(name, new.getvalue() + content[found.tell() :])


BODIES: dict[str, Body] = {
    "config.json": partial(_any_json, "config.json"),
    "metrics.json": partial(_any_json, "metrics.json"),
    "log.jsonl": _log,
    "unfinished runs": _unfinished,
    "stages": _stages,
    "checkpoints": _checkpoint,
    "hashes": _done,
    "weights": _model,
    "arrays": _arrays,
    "shapes": _shapes,
}
"""What is damaged, and how."""
