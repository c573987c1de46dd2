"""A page as PDF, printed by Chromium or Chrome without a window."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from crossbias.errors import CrossbiasError

NAMES: Final = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    *("chrome-headless-shell", "msedge", "microsoft-edge"),
)
"""Programs on the PATH that can print a page."""

PATIENCE: Final = 300  # seconds for printing


def find_browser() -> str:
    """The program that prints; refused in one line if there is none."""
    on_path = filter(None, map(shutil.which, NAMES))
    found = next(on_path, None) or next(_installed_by_playwright(), None)
    if found is None:
        raise CrossbiasError(
            "a PDF needs Chromium or Chrome, and neither is on the PATH; install one, for example "
            "with `apt-get install chromium`, or write report.html and print it from a browser"
        )
    return found


def printed(page: str) -> bytes:
    """The page as PDF, with everything unfolded."""
    browser = find_browser()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        source, target = Path(folder, "page.html"), Path(folder, "page.pdf")
        source.write_text(page, encoding="utf-8", errors="replace")
        command = [
            *(browser, "--headless", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
            *(f"--user-data-dir={folder}/profile", "--no-pdf-header-footer"),
            *(f"--print-to-pdf={target}", source.as_uri()),
        ]
        if os.name == "posix" and os.geteuid() == 0:
            command.insert(1, "--no-sandbox")  # without it, Chromium refuses to run as root
        try:
            done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CrossbiasError(f"{browser} could not print the page: {error}") from error
        if not target.is_file():
            reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise CrossbiasError(
                f"{browser} printed no PDF: {reason or 'it gave no reason'}; write report.html and "
                f"print it from a browser"
            )
        return target.read_bytes()


def _installed_by_playwright() -> Iterator[str]:
    """Browsers that the playwright package has downloaded, newest first."""
    own = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright"
    folder = Path(own)
    patterns = ("chromium-*/chrome-linux*/chrome", "chromium_headless_shell-*/*/headless_shell")
    for pattern in patterns:
        yield from map(str, sorted(folder.glob(pattern), reverse=True))
