"""A page in headless Chromium, spoken to over its debugging pipe; needs no Python package."""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60  # seconds for an answer
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
    *("--force-color-profile=srgb", "--hide-scrollbars", "--remote-debugging-pipe"),
)


def find_chromium() -> str | None:
    """The browser's program, if this machine has one."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


collect_ignore = [] if find_chromium() else ["test_in_chromium.py"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if collect_ignore:
        terminalreporter.write_line(
            f"left out: {collect_ignore[0]}, for want of a browser (one of {', '.join(NAMES)})"
        )


class Chromium:
    """One browser with one page; closed at the end of the ``with`` block."""

    def __init__(self, program: str) -> None:
        self.program = program

    def __enter__(self) -> Self:
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (read_here, write_there), (read_there, write_here) = _pipe(), _pipe()
        # The browser reads commands from descriptor 3 and writes answers to 4.
        actions = [
            (os.POSIX_SPAWN_DUP2, read_there, 3),
            (os.POSIX_SPAWN_DUP2, write_there, 4),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        command = [self.program, *FLAGS, f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
        os.close(read_there)
        os.close(write_there)
        self.commands, self.answers = os.fdopen(write_here, "wb"), os.fdopen(read_here, "rb")
        self.buffer, self.number, self.events = b"", 0, []
        self.session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        self.commands.close()
        self.answers.close()
        self.profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, and its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        self.commands.write(json.dumps(message).encode() + b"\0")
        self.commands.flush()
        while (answer := self._next()).get("id") != self.number:
            self.events.append(answer)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def open(self, page: Path, *, width: int = 1280, height: int = 900) -> None:
        """Load a file in a window of this size and wait until it is there."""
        self.resize(width, height)
        self.events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def resize(self, width: int, height: int = 900) -> None:
        """Make the window this large; a narrow one is a phone."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.call("Emulation.setDeviceMetricsOverride", **size, mobile=width < 600)

    def run(self, script: str) -> Any:
        """What an expression is in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key."""
        code = {"Enter": {"windowsVirtualKeyCode": 13, "text": "\r"}}.get(key, {})
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, **code)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, **code)

    def complaints(self) -> list[str]:
        """Everything that went to the console: errors, warnings, refused loads."""
        self.run("0")  # after this, all earlier events have been read
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event) for event in self.events if event.get("method") in kinds]

    def pdf(self) -> bytes:
        """The page as it is printed."""
        printed = self.call("Page.printToPDF", printBackground=False)
        return base64.b64decode(printed["data"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], PATIENCE)
            part = os.read(self.answers.fileno(), 1 << 16) if ready else b""
            assert part, "the browser is gone or has not answered for a minute"
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)


def _pipe() -> tuple[int, int]:
    """Reading and writing end, with numbers that do not meet those the browser uses."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 16) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    """One browser for all tests."""
    program = find_chromium()
    assert program is not None  # else these tests are not collected
    with Chromium(program) as chromium:
        yield chromium
