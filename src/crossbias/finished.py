"""Whether a run came to its end, and how to bring it there."""

from pathlib import Path

from crossbias.errors import CrossbiasError


def check_finished(path: Path) -> None:
    """Refuse a run that was stopped before its end.

    Raises:
        CrossbiasError: The folder has no ``done``.
    """
    if not (path / "done").exists():
        raise CrossbiasError(
            f"the run in {path} is not finished; finish it with: {resume_command(path)}"
        )


def resume_command(path: Path) -> str:
    """How to continue the run in a folder.

    >>> resume_command(Path("runs/a"))
    'crossbias train --resume --out runs/a'
    """
    return f"crossbias train --resume --out {path}"
