"""Structural damage by a fuzzer: every command takes the file, or refuses it in one line.

Hashes are written anew after the damage, so that what reads the files comes after them.
"""

import csv
import io
import json
import os
import resource
import shutil
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from benchmarks.fire.canary import VARIABLE
from benchmarks.fire.damages import READERS
from benchmarks.fire.forks import Outcome, run
from benchmarks.fire.mutations import broken, mutated
from benchmarks.fire.subjects import OWN_IMAGES, Arena, resume, write_images
from crossbias.experiment import Experiment
from crossbias.runs import RunFolder
from crossbias.runs.config_file import write_config
from crossbias.runs.files import hash_of, load_torch, write_json

Body = Callable[[Arena, st.DataObject, Path], Outcome]
"""Damages something in a new folder, and returns how a command took it."""

_MEMORY = 4 * 2**30  # bytes that a command may take beyond what its process has


def attack(body: Body, arena: Arena) -> Iterator[str | None]:
    """Damage something in so many ways as a batch has."""
    problems: list[str | None] = []
    canary = arena.home / "canary"
    os.environ[VARIABLE] = str(canary)

    @seed(arena.random.getrandbits(32))
    @settings(
        max_examples=arena.batch, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.data())
    def once(data: st.DataObject) -> None:
        path = arena.folder()
        outcome = body(arena, data, path)
        problem = None if outcome.sane else str(outcome)
        problems.append("code of the file was run" if canary.exists() else problem)
        canary.unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)

    once()
    yield from problems


def _sparingly() -> None:
    """Limit the memory of a command: one that needs gigabytes for a small file has failed."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


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
    return run(name, path, *options, *written, prepare=_sparingly)


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
    return resume(path, _sparingly).wait()


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


_RECIPE = """
[method]
name = "end"
alpha = 1.0

[data]
name = "glyphs"
size = 48
rho = 0.9

[network]
name = "convnet"
kernel = 3

[train]
epochs = 3
lr = 0.01
device = "cpu"
"""
_HOSTILE = st.text(
    st.sampled_from("ab =+-@\t\r\x00\x07\x1b\x7f\x9b\u061c\u200f\u202e\u2028\u2066,\"'<&%\\$"),
    min_size=1, max_size=6,
)  # fmt: skip
_WORDS = (b'"', b"[", b"]", b"=", b"\n", b"true", b"1e999", b"[[data]]", b"nan", b"-", b"name")


def _toml(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """A config file; whether it can be used is known before data is made."""
    path.mkdir()
    text = _RECIPE.encode()
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.sampled_from(_WORDS)) + text[at:]
    else:
        text = broken(text, data)
    (path / "recipe.toml").write_bytes(text)

    def prepare() -> None:
        _sparingly()
        Experiment.split = lambda *_: sys.exit(0)  # type: ignore[method-assign]

    arguments = ("--config", path / "recipe.toml", "--out", path / "run", "--quiet")
    return run("train", *arguments, prepare=prepare)


def _shown(path: Path) -> Outcome:
    sheet = ("--sheet", path / "sheet.png", "--set", "size=8")
    return run("data", "show", f"folder:{path}", *OWN_IMAGES, *sheet, prepare=_sparingly)


def _csv(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """The table of a folder of images."""
    write_images(path, 12)
    file = path / "labels.csv"
    file.write_bytes(broken(file.read_bytes(), data))
    return _shown(path)


def _names(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """Names of classes, values and columns that steer terminals, or are formulas."""
    write_images(path, 12)
    file, names = path / "labels.csv", data.draw(st.lists(_HOSTILE, min_size=4, max_size=4))
    with file.open(newline="") as opened:
        header, *rows = csv.reader(opened)
    table = [[row[0], names[int(row[1])], names[2 + (row[2] == "north")]] for row in rows]
    with file.open("w", newline="") as opened:
        csv.writer(opened).writerows([header, *table])
    return _shown(path)


def _headers(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """The first bytes of an image."""
    write_images(path, 12)
    file = path / data.draw(st.sampled_from(["0.png", "1.jpg", "2.bmp", "3.gif"]))
    file.write_bytes(broken(file.read_bytes(), data, within=64))
    return _shown(path)


def _sizes(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """A picture or an array that says it is huge."""
    side = st.integers(0, 2**31 - 1) | st.sampled_from([1, 2**16, 80_000_000])
    if data.draw(st.booleans()):
        write_images(path, 12)
        width, height = data.draw(side), data.draw(side)
        content = (path / "0.png").read_bytes()
        header = b"IHDR" + struct.pack(">II", width, height) + content[24:29]
        check = struct.pack(">I", zlib.crc32(header))
        (path / "0.png").write_bytes(content[:12] + header + check + content[33:])
        return _shown(path)
    shutil.copytree(arena.whole("pgd"), path)
    _enlarge(path / "predictions.npz", tuple(data.draw(st.lists(side, min_size=1, max_size=3))))
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


_BODIES: dict[str, Body] = {
    "config.json": partial(_any_json, "config.json"),
    "metrics.json": partial(_any_json, "metrics.json"),
    "log.jsonl": _log,
    "unfinished runs": _unfinished,
    "stages": _stages,
    "checkpoints": _checkpoint,
    "hashes": _done,
    "weights": _model,
    "arrays": _arrays,
    "TOML": _toml,
    "CSV": _csv,
    "names": _names,
    "image headers": _headers,
    "sizes": _sizes,
}

KINDS: dict[str, Callable[[Arena], Iterator[str | None]]] = {
    name: partial(attack, body) for name, body in _BODIES.items()
}
"""What is damaged, and how."""
