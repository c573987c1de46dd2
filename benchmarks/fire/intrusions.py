"""Files that want code to be run: names of code in configurations, and pickles."""

import io
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.fire.canary import NAME as CANARY
from benchmarks.fire.canary import VARIABLE
from benchmarks.fire.damages import READERS
from benchmarks.fire.forks import Outcome, run
from benchmarks.fire.subjects import Arena, files, resume
from crossbias.runs import RunFolder
from crossbias.runs.config_file import read_config, write_config
from crossbias.runs.files import hash_of, write_json

_Command = Callable[[Arena, Path, str, dict[str, Any]], Outcome]


def _names(shell: str) -> list[tuple[str, dict[str, Any]]]:
    """Tables of a configuration, and what is written there so that code is run."""
    return [
        *((table, {"name": CANARY}) for table in ("method", "data", "network")),
        *((table, {"name": "os:system", "command": shell})
          for table in ("method", "data", "network")),
        ("network", {"name": "subprocess:getoutput", "cmd": shell}),
        ("network", {"name": "builtins:exec", "source": f"import os; os.system({shell!r})"}),
        ("network", {"name": f" {CANARY} "}),
        ("network", {"name": CANARY.replace(":", ".")}),
        ("network", {"name": f"torchvision.models:../{CANARY}"}),
        ("network", {"name": "crossbias.demo:color_network", "weights": CANARY}),
        ("method", {"name": "denoised", "inner": CANARY}),
        ("method", {"name": "denoised", "inner": {"name": CANARY}}),
        ("method", {"name": "denoised", "inner.name": CANARY}),
        ("method", {"name": "rebias", "biased": ["convnet-1x1", CANARY]}),
        ("method", {"name": "rebias", "biased": f"convnet-1x1,{CANARY}"}),
        ("method", {"name": "learned-mixin", "biased": f"\t{CANARY}"}),
        ("method", {"name": "aflite", "features": CANARY}),
    ]  # fmt: skip


class _Shell:
    """Runs a command where it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


def by_names(arena: Arena) -> Iterator[str | None]:
    """Let a configuration name code, in every table, for every command that reads it."""
    commands: tuple[_Command, ...] = (_finished, _unfinished, _recipe)
    tries = [(command, *names) for command in commands for names in _names(_shell(arena))]
    arena.random.shuffle(tries)
    for command, table, value in tries:
        path = arena.folder()
        problem = _problem(arena, command(arena, path, table, value))
        yield problem and f"{command.__name__.strip('_')}, {table} {value}: {problem}"
        shutil.rmtree(path)


def by_pickles(arena: Arena) -> Iterator[str | None]:
    """Put a pickle that runs a command in the place of each file of a run."""
    method, shell = arena.method(), _Shell(_shell(arena))
    for whole, read in ((arena.whole(method), _read), (arena.half(method), _resumed)):
        for file in files(whole):
            path, name = arena.copied(whole), file.relative_to(whole)
            (path / name).write_bytes(arena.random.choice(_PICKLES)(shell))
            problem = _problem(arena, read(arena, path))
            yield problem and f"{method}, {name}: {problem}"
            shutil.rmtree(path)


def _shell(arena: Arena) -> str:
    """A command that leaves the canary's file, as importing the canary does."""
    canary = arena.home / "canary"
    os.environ[VARIABLE] = str(canary)
    return f"touch {canary}"


def _problem(arena: Arena, outcome: Outcome) -> str | None:
    """What is wrong after an intrusion, if anything."""
    canary = arena.home / "canary"
    if canary.exists():
        canary.unlink()
        return "code of the file was run"
    return None if outcome.sane else str(outcome)


def _finished(arena: Arena, path: Path, table: str, value: dict[str, Any]) -> Outcome:
    shutil.copytree(arena.whole(arena.method()), path)
    _rename(path, table, value)
    readers = (("audit", "--run"), *READERS)
    return _reading(arena, path, arena.random.choice(readers))


def _unfinished(arena: Arena, path: Path, table: str, value: dict[str, Any]) -> Outcome:
    shutil.copytree(arena.half(arena.method()), path)
    _rename(path, table, value)
    return resume(path).wait()


def _rename(path: Path, table: str, value: dict[str, Any]) -> None:
    """Change a table of a configuration, with hashes that fit."""
    folder = RunFolder(path)
    config = read_config(folder.config)
    write_config(folder.config, config | {table: config[table] | value})
    if folder.done.exists():
        folder.finish()


def _recipe(arena: Arena, path: Path, table: str, value: dict[str, Any]) -> Outcome:
    path.mkdir()
    tables = {"method": {"name": "erm"}, "data": {"name": "glyphs", "size": 48}, table: value}
    lines = [
        f"[{name}]\n" + "".join(f"{json.dumps(key)} = {_toml(entries[key])}\n" for key in entries)
        for name, entries in tables.items()
    ]
    (path / "recipe.toml").write_text("".join(lines))
    return run("train", "--config", path / "recipe.toml", "--out", path / "run", "--quiet")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(value[key])}" for key in value) + "}"
    return json.dumps(value)


def _read(arena: Arena, path: Path) -> Outcome:
    (path / "done").unlink()
    RunFolder(path).finish()
    return _reading(arena, path, arena.random.choice(READERS))


def _resumed(arena: Arena, path: Path) -> Outcome:
    """Resume with the hash that the changed stage has now."""
    listed = path / "stages.json"
    try:
        content = json.loads(listed.read_bytes())
        names = {name: path / "stages" / f"{name}.pt" for name in content["stages"]}
        content["stages"] = {name: hash_of(file) for name, file in names.items()}
        write_json(listed, content)
    except (OSError, ValueError):
        pass  # it is itself a pickle now, or there is none
    return resume(path).wait()


def _reading(arena: Arena, path: Path, reader: tuple[str, ...]) -> Outcome:
    name, *options = reader
    written = ("-o", arena.folder()) if name == "report" else ()
    outcome = run(name, *options, path, *written) if name == "audit" else run(
        name, path, *options, *written
    )  # fmt: skip
    for output in written[1:]:
        Path(output).unlink(missing_ok=True)
    return outcome


def _torch_file(value: object) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def _array(value: object) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([value], dtype=object), allow_pickle=True)
    return file.getvalue()


def _archive(value: object) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("test/target.npy", _array(value))
    return file.getvalue()


_PICKLES: tuple[Callable[[object], bytes], ...] = (pickle.dumps, _torch_file, _array, _archive)
