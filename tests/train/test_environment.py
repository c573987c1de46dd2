"""The commit in a run's record: that of the code, marked where the code was changed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from crossbias.train import environment


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    """A repository with a package, a program and results, in which the module pretends to lie."""
    module = tmp_path / "src" / "package" / "train" / "environment.py"
    for file in (module, tmp_path / "programs" / "one.py", tmp_path / "programs" / "results.json"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    person = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    git(tmp_path, *person, "commit", "-q", "-m", "start")
    monkeypatch.setattr(environment, "__file__", str(module))
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(*programs: str) -> str | None:
    return environment.source_commit.__wrapped__(*programs)


def test_results_are_no_change_of_the_code(checkout):
    expected = git(checkout, "rev-parse", "HEAD")[:12]
    assert commit() == expected
    (checkout / "programs" / "results.json").write_text("1")
    assert commit() == commit(":/programs/*.py") == expected


def test_changed_and_new_modules_and_programs_are(checkout):
    program, new = checkout / "programs" / "one.py", checkout / "src" / "package" / "new.py"
    program.write_text("1")
    assert not commit().endswith("-dirty")
    assert commit(":/programs/*.py").endswith("-dirty")
    new.write_text("")
    assert commit().endswith("-dirty")


def test_code_that_git_does_not_know_has_no_commit(checkout):
    git(checkout, "rm", "-q", "--cached", environment.__file__)
    assert commit() is None
    shutil.rmtree(checkout / ".git")
    assert commit() is None
