"""The package as a whole: what it exports, what importing it costs, who imports what."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

import crossbias

SOURCE = Path(crossbias.__file__).parent
PUBLIC = ["crossbias", *(f"crossbias.{name}" for name in ("data", "functional", "methods"))]
PUBLIC += ["crossbias.audit", "crossbias.runs"]
PUBLIC += ["crossbias.documents", "crossbias.export", "crossbias.models"]
PUBLIC += ["crossbias.networks", "crossbias.registry", "crossbias.verify", "crossbias.report"]


@cache
def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            # A name taken from the top may be a package of it: ``from crossbias import verify``.
            deeper = [f"crossbias.{name.name}" for name in node.names]
            found |= set(deeper) if module == "crossbias" else {module}
    return found


@pytest.mark.parametrize("name", PUBLIC)
def test_every_exported_name_exists_and_is_documented(name):
    module = importlib.import_module(name)
    assert module.__doc__
    for exported in module.__all__:
        value = getattr(module, exported)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, f"{name}.{exported}"


def test_names_that_other_peoples_scripts_rely_on():
    for name in ("fit", "load", "create", "as_network", "TrainConfig", "Result", "evaluate"):
        assert name in crossbias.__all__
    from crossbias.data import load

    assert callable(load)


def test_every_module_can_be_imported():
    for module in pkgutil.walk_packages([str(SOURCE)], "crossbias."):
        importlib.import_module(module.name)


def test_importing_the_package_brings_nothing_heavy_but_torch_and_only_training_fabric():
    heavy = "lightning_fabric timm torchvision matplotlib typer rich sklearn scipy jinja2 pandas"
    deeper = ["functional", "verify", "data", "methods", "networks", "types"]
    code = f"""
import sys, crossbias
print(*[name for name in {heavy.split()!r} if name in sys.modules])
import crossbias.{", crossbias.".join(deeper)}
print("lightning_fabric" in sys.modules)  # which replaces torch.compile for the whole process
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "\nFalse\n"


def test_fabric_is_imported_in_one_file():
    using = [
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(name.startswith("lightning") for name in imports(path))
    ]
    assert using == ["train/devices.py"]


FRONT = "crossbias"  # the front door, whose own imports are nobody else's


@cache
def rooms() -> dict[str, set[str]]:
    """For each package and top-level module, those it imports: in functions and for types too."""
    graph: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        room = room_of(path.relative_to(SOURCE).with_suffix("").parts)
        own = (
            room_of(name.split(".")[1:]) for name in imports(path) if name.split(".")[0] == FRONT
        )
        graph.setdefault(room, set()).update(own)
    return {room: others - {room} for room, others in graph.items()}


def room_of(parts: Sequence[str]) -> str:
    """Where a module lives; what is none, such as a class, is taken from the front door."""
    first = parts[0] if parts else "__init__"
    known = (SOURCE / first).is_dir() or (SOURCE / f"{first}.py").is_file()
    return first if known and first != "__init__" else FRONT


def closure(graph: dict[str, set[str]], room: str) -> set[str]:
    """Everything that a package imports, and what that imports, and so on."""
    found: set[str] = set()
    ahead = {room}
    while ahead:
        ahead = set().union(*(graph[each] for each in ahead)) - found
        found |= ahead
    return found


def test_rooms_are_packages_and_top_level_modules():
    packages = {"audit", "cli", "data", "functional", "methods", "networks", "report", "runs"}
    assert packages | {"train", "verify", "errors", FRONT} <= set(rooms())
    assert {"runs", "verify", "formatting"} <= rooms()["report"]
    assert "report" in rooms()["demo"]  # imported in a function


def test_packages_do_not_import_each_other_in_a_circle():
    graph = rooms()
    circles = {
        room: sorted(other for other in closure(graph, room) if room in closure(graph, other))
        for room in graph
    }
    assert {room: others for room, others in circles.items() if others} == {}


@pytest.mark.parametrize("room", ["report", "runs", "verify"])
def test_reports_are_made_from_folders_without_what_trains(room):
    heavy = {"data", "methods", "networks", "train", "experiment", "registry", FRONT}
    assert not closure(rooms(), room) & heavy


def test_a_basename_and_a_class_name_occur_once():
    found: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE).as_posix()
        if path.name != "__init__.py":
            found.setdefault(path.name, []).append(place)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(f"class {node.name}", []).append(place)
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_nothing_prints_but_the_command_line():
    for path in SOURCE.rglob("*.py"):
        if "cli" in path.parts:
            continue
        calls = [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        ]
        names = [call.func.id for call in calls if isinstance(call.func, ast.Name)]
        assert "print" not in names, path
