"""Structural damage by a fuzzer: every command takes the file, or refuses it in one line.

Hashes are written anew after the damage, so that what reads the files comes after them.
"""

import json
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from PIL import Image

from benchmarks.fire.canary import VARIABLE
from benchmarks.fire.flips import READERS
from benchmarks.fire.forks import Outcome, run
from benchmarks.fire.mutations import broken, mutated
from benchmarks.fire.subjects import Arena
from crossbias.experiment import Experiment
from crossbias.runs import RunFolder
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
    (path / "done").unlink()
    RunFolder(path).finish()
    name, *options = data.draw(st.sampled_from(READERS))
    written = ("-o", path / "report") if name == "report" else ()
    return run(name, path, *options, *written, prepare=_sparingly)


def _resumed(path: Path) -> Outcome:
    return run("train", "--resume", "--out", path, "--quiet", prepare=_sparingly)


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


def _images(path: Path) -> None:
    """A folder of small images of several formats, and the table of their labels."""
    path.mkdir()
    lines = ["file,disease,hospital"]
    for number in range(12):
        name = f"{number}.{('png', 'jpg', 'bmp', 'gif')[number % 4]}"
        pixels = np.random.default_rng(number).integers(0, 256, (9, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path / name)
        lines.append(f"{name},{number % 2},{'north' if number % 3 else 'south'}")
    (path / "labels.csv").write_text("\n".join(lines) + "\n")


def _shown(path: Path) -> Outcome:
    columns = ("--labels", "labels.csv", "--target", "disease", "--bias", "hospital")
    sheet = ("--sheet", path / "sheet.png", "--set", "size=8")
    return run("data", "show", f"folder:{path}", *columns, *sheet, prepare=_sparingly)


def _csv(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """The table of a folder of images."""
    _images(path)
    file = path / "labels.csv"
    file.write_bytes(broken(file.read_bytes(), data))
    return _shown(path)


def _headers(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """The first bytes of an image."""
    _images(path)
    file = path / data.draw(st.sampled_from(["0.png", "1.jpg", "2.bmp", "3.gif"]))
    file.write_bytes(broken(file.read_bytes(), data, within=64))
    return _shown(path)


_BODIES: dict[str, Body] = {
    "config.json": partial(_any_json, "config.json"),
    "metrics.json": partial(_any_json, "metrics.json"),
    "log.jsonl": _log,
    "unfinished runs": _unfinished,
    "stages": _stages,
    "checkpoints": _checkpoint,
    "arrays": _arrays,
    "TOML": _toml,
    "CSV": _csv,
    "image headers": _headers,
}

KINDS: dict[str, Callable[[Arena], Iterator[str | None]]] = {
    name: partial(attack, body) for name, body in _BODIES.items()
}
"""What is damaged, and how."""
