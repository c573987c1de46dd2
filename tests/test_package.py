"""The package as a whole: what it exports, what importing it costs, who imports what."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import crossbias

SOURCE = Path(crossbias.__file__).parent
PUBLIC = ["crossbias", *(f"crossbias.{name}" for name in ("data", "functional", "methods"))]
PUBLIC += ["crossbias.audit", "crossbias.runs"]
PUBLIC += ["crossbias.networks", "crossbias.registry", "crossbias.verify", "crossbias.report"]


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
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
    for name in ("fit", "create", "as_network", "TrainConfig", "Result", "evaluate"):
        assert name in crossbias.__all__
    from crossbias.data import load

    assert callable(load)


def test_every_module_can_be_imported():
    for module in pkgutil.walk_packages([str(SOURCE)], "crossbias."):
        importlib.import_module(module.name)


def test_importing_the_package_brings_nothing_heavy_but_torch():
    heavy = "lightning_fabric timm torchvision matplotlib typer rich sklearn scipy jinja2 pandas"
    code = f"import sys, crossbias; print(*[m for m in {heavy.split()!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""


def test_fabric_is_imported_in_one_file():
    using = [
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(name.startswith("lightning") for name in imports(path))
    ]
    assert using == ["train/devices.py"]


def test_reports_are_made_from_folders_without_what_trains():
    for path in [*(SOURCE / "report").glob("*.py"), *(SOURCE / "runs").glob("*.py")]:
        for name in imports(path):
            forbidden = ("methods", "networks", "train", "data", "experiment", "registry")
            assert not name.startswith(tuple(f"crossbias.{part}" for part in forbidden)), path


def test_nothing_prints_but_the_command_line():
    for path in SOURCE.rglob("*.py"):
        if "cli" in path.parts:
            continue
        calls = [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        ]
        names = [call.func.id for call in calls if isinstance(call.func, ast.Name)]
        assert "print" not in names, path
