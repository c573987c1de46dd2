"""A person who types commands."""

import sys
from collections.abc import Callable

import pytest

from crossbias.cli import main


@pytest.fixture
def crossbias(monkeypatch, capsys, tmp_path) -> Callable[..., tuple[int, str, str]]:
    """Type a command in an empty folder; get exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))

    def typed(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["crossbias", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return typed
