"""A run on disk: configuration, log, checkpoint, stages, results, and ``done`` written last.

``stages.json`` holds the hashes of finished stages, and ``done`` those of all files. A file that
changed since is refused.
"""

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.runs.config_file import read_config, write_config
from crossbias.runs.files import (
    checksum,
    hash_of,
    load_torch,
    read_json,
    write_atomically,
    write_json,
)
from crossbias.runs.health import symptoms_of
from crossbias.runs.writer import LOCK_FILES, Writer

_LEFT = f".{'[0-9a-f]' * 16}.tmp"  # what write_atomically leaves if the process is killed


class RunFolder:
    """The files of one run; every file but the log appears whole or not at all.

    Args:
        path: The folder.

    Attributes:
        identity: Hash of what the run must keep from its start to its end, such as the learning
            rate. Whoever trains sets it.
        names_code: Whether method, data or network are code that only the user can name.
        writer: The lock, if this process is the writer.
    """

    identity: str = ""
    names_code: bool = False
    writer: Writer | None = None

    def __init__(self, path: Path | str) -> None:
        self.path = path = Path(path)
        self.config = path / "config.json"
        self.log = path / "log.jsonl"
        self.checkpoint = path / "checkpoint.pt"
        self.stages = path / "stages"
        self.stage_hashes = path / "stages.json"
        self.model = path / "model.safetensors"
        self.predictions = path / "predictions.npz"
        self.metrics = path / "metrics.json"
        self.views = path / "views.npz"
        self.labels = path / "labels.npz"
        self.health = path / "health.json"
        self.tracking = path / "tracking"
        self.done = path / "done"

    @classmethod
    def create(cls, path: Path, config: dict[str, Any]) -> "RunFolder":
        """Start a run in a new or empty folder, as its only writer."""
        folder = cls(path)
        folder._check_unused()
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CrossbiasError(f"cannot make the folder {path}: {error.strerror}") from error
        with folder.released_on_error():
            folder.acquire()
            folder._check_unused()  # another process may have been faster
            write_config(folder.config, config)
        return folder

    @classmethod
    def reopen(cls, path: Path, *, write: bool = True) -> "RunFolder":
        """Continue the unfinished run in a folder, as its only writer unless told otherwise."""
        folder = cls(path)
        folder._check_unfinished()
        if write:
            with folder.released_on_error():
                folder.acquire()
                folder._check_unfinished()  # another process may have finished it
        return folder

    @property
    def mark(self) -> str:
        """The start of the identity: it tells whose an entry of the log or of the health is."""
        return self.identity[:16]

    def acquire(self) -> None:
        """Become the only writer, and delete the temporary files of writers that were killed.

        Raises:
            CrossbiasError: Another process writes, or links would lead writing out of the folder.
        """
        writer = Writer(self.path)
        writer.acquire()
        self.writer = writer
        with self.released_on_error():
            self._check_links()
        for left in self.path.rglob(_LEFT):
            left.unlink(missing_ok=True)

    def release(self) -> None:
        """Let other processes write."""
        if self.writer is not None:
            self.writer.release()
            self.writer = None

    @contextmanager
    def released_on_error(self) -> Iterator[None]:
        """Let other processes write if what is inside fails."""
        try:
            yield
        except BaseException:
            self.release()
            raise

    def check_writer(self) -> None:
        """Refuse to write where another process has become the writer in the meantime."""
        if self.writer is not None:
            self.writer.check()

    def append(self, record: dict[str, Any]) -> None:
        """Add a line to the log, on disk before anything that is written afterwards."""
        self.check_writer()
        try:
            with self.log.open("a", encoding="utf-8") as file:
                file.write(as_line({"run": self.mark, **record}))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise CrossbiasError(f"cannot write {self.log}: {error.strerror or error}") from error

    def trim_log(self, stage: str, epochs: int) -> list[dict[str, Any]]:
        """Drop what a stage logged after so many epochs: it is about to be done again.

        Damaged lines go, too. Whoever knows how many epochs there were can tell that some are lost.

        Returns:
            All that the log keeps, one record for each epoch of a stage.

        Raises:
            CrossbiasError: The log is that of another run.
        """
        if not self.log.exists():
            return []
        self.check_writer()
        text = self.log.read_text(encoding="utf-8", errors="replace")
        found = [record for line in text.split("\n") if (record := as_record(line)) is not None]
        if any(record.get("run") != self.mark for record in found):
            raise self.changed(f"{self.log} was written")
        kept = [each for each in found if each["stage"] != stage or each["epoch"] <= epochs]
        lines = "".join(map(as_line, kept))
        write_atomically(self.log, lambda file: file.write(lines.encode()))
        return kept

    def save_model(self, state: dict[str, Tensor]) -> None:
        """Store the trained network, the run's result."""
        self.check_writer()
        tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in state.items()}
        write_atomically(self.model, lambda file: file.write(save(tensors)))

    def load_model(self) -> dict[str, Tensor]:
        """The trained network."""
        if not self.model.exists():
            raise CrossbiasError(f"{self.path} has no trained model; train the run again")
        try:
            return load_file(self.model)
        except Exception as error:  # safetensors has its own errors
            raise CrossbiasError(
                f"{self.model} is damaged ({error}); restore it from a copy, or train again"
            ) from error

    def save_stage(self, name: str, value: Any) -> None:
        """Store what a stage computed: a tensor, or the whole state of a training.

        Slashes in the name become folders. The value is tensors in dictionaries and lists.
        """
        self.check_writer()
        path = self._stage(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda file: torch.save(value, file))
        self._list_stages(self.hashes_of_stages() | {name: hash_of(path)})

    def load_stage(self, name: str) -> Any:
        """What a stage computed, tensors on the CPU; None where it did not finish."""
        path, known = self._stage(name), self.hashes_of_stages().get(name)
        if known is None or not path.exists():
            return None
        if hash_of(path) != known:
            raise self._damaged_stage(name)
        return load_torch(path)

    def _list_stages(self, hashes: dict[str, str]) -> None:
        """Write the hashes of stages, and what went wrong in them."""
        health = read_json(self.health) if self.health.exists() else []
        listed = {"identity": self.identity, "stages": hashes, "health": health}
        write_json(self.stage_hashes, listed)

    def restore_health(self) -> None:
        """Write what went wrong in finished stages once more if the file was lost.

        Raises:
            CrossbiasError: What the list of stages says about it is damaged.
        """
        if self.hashes_of_stages():
            health = read_json(self.stage_hashes).get("health")
            if symptoms_of(health, self.stage_hashes, self.mark) and not self.health.exists():
                write_json(self.health, health)

    def check_stages(self) -> None:
        """Refuse damaged stages, also those that only wait to become part of the finished run."""
        listed = self.hashes_of_stages()
        there = {name: known for name, known in listed.items() if self._stage(name).exists()}
        for name, known in there.items():
            if hash_of(self._stage(name)) != known:
                raise self._damaged_stage(name)
        if there != listed:  # the others are about to be trained again
            self._list_stages(there)

    def _damaged_stage(self, name: str) -> CrossbiasError:
        return CrossbiasError(
            f"{self._stage(name)} is damaged (its hash is not that of {self.stage_hashes.name}); "
            f"delete it and resume, which trains this stage again from its start"
        )

    def hashes_of_stages(self) -> dict[str, str]:
        """The hashes of the finished stages, by name.

        Raises:
            CrossbiasError: They are of another configuration than the run's.
        """
        if not self.stage_hashes.exists():
            return {}
        found = read_json(self.stage_hashes)
        stages = found.get("stages") if isinstance(found, dict) else None
        if not isinstance(stages, dict):
            raise CrossbiasError(f"{self.stage_hashes} is damaged; train the run again")
        if found.get("identity") != self.identity:
            raise self.changed(f"the stages {', '.join(stages)} were trained")
        return stages

    def changed(self, then: str) -> CrossbiasError:
        """The error about a configuration that is not the one that a file was written with."""
        return CrossbiasError(
            f"{self.config} is not the configuration with which {then}: one of them was changed or "
            f"exchanged; restore it, or start another run in a new folder"
        )

    def finish(self) -> None:
        """Mark the run as finished: it can be judged and compared, and no longer resumed.

        ``done`` gets the hashes of all files. Other processes may write afterwards.
        """
        self.check_writer()
        files = self._files()
        write_json(self.done, {"sha256": {self._name_of(path): hash_of(path) for path in files}})
        self.release()

    def _files(self) -> list[Path]:
        """All files of the run that exist, but for ``done``."""
        own = [path for path in vars(self).values() if isinstance(path, Path) and path != self.done]
        return [path for path in (*own, *sorted(self.stages.rglob("*"))) if path.is_file()]

    def check(self, *paths: Path) -> None:
        """Refuse files of a finished run that were changed, exchanged, added or deleted since."""
        hashes = self._hashes()
        for path in paths:
            known = hashes.get(self._name_of(path))
            if known is not None and not path.is_file():
                raise CrossbiasError(
                    f"{path} does not exist, though the run is finished; put the file back, or "
                    f"train the run again"
                )
            if path.is_file() and hash_of(path) != known:
                raise CrossbiasError(
                    f"{path} is not as the run wrote it (its hash is not that in "
                    f"{self.done.name}); restore it from a copy, or train the run again"
                )

    def _check_links(self) -> None:
        for path in self.path.rglob("*"):
            if path.is_symlink():
                raise CrossbiasError(
                    f"{path} is a link, through which a run could write elsewhere; put the file or "
                    f"folder itself in its place, or delete it"
                )

    def check_all(self) -> None:
        """Refuse a finished run of which any file was changed, exchanged, added or deleted."""
        self.check(*(self.path / name for name in self._hashes()), *self._files())

    def _hashes(self) -> dict[str, str]:
        found = read_json(self.done) if self.done.stat().st_size else {}
        hashes = found.get("sha256") if isinstance(found, dict) else None
        if not isinstance(hashes, dict):
            raise CrossbiasError(
                f"{self.done} holds no hashes of the run's files; train the run again, or if you "
                f"know that they are whole: python -c "
                f'"from crossbias.runs import RunFolder; RunFolder({str(self.path)!r}).finish()"'
            )
        return hashes

    def _name_of(self, path: Path) -> str:
        return path.relative_to(self.path).as_posix()

    def _stage(self, name: str) -> Path:
        return self.stages / f"{name}.pt"

    def resume_command(self) -> str:
        """How to continue the run; whoever trains knows that its code is trusted."""
        return resume_command(self.path) + (" --trust" if self.names_code else "")

    def _check_unfinished(self) -> None:
        if not self.config.exists():
            raise CrossbiasError(f"{self.path} holds no run to resume: it has no config.json")
        if self.done.exists():
            raise CrossbiasError(f"the run in {self.path} is finished: there is nothing to resume")

    def _check_unused(self) -> None:
        """Refuse a folder with anything in it but what a killed start left behind."""
        if self.path.is_dir():
            entries = [path for path in self.path.iterdir() if path.name not in LOCK_FILES]
            if all(path.match(_LEFT) for path in entries):
                return
        if self.path.exists():
            raise CrossbiasError(f"{self._content()}; choose another folder{self._resume()}")

    def _content(self) -> str:
        if not self.config.exists():
            return f"{self.path} exists and is not empty"
        config = read_config(self.config)
        state = "finished" if self.done.exists() else "unfinished"
        method, data = config["method"]["name"], config["data"]["name"]
        return f"{self.path} already holds a run ({method} on {data}, {state})"

    def _resume(self) -> str:
        unfinished = self.config.exists() and not self.done.exists()
        return f", or continue it: {resume_command(self.path)}" if unfinished else ""


def as_line(record: dict[str, Any]) -> str:
    """A line of the log, which ends with a checksum of the record."""
    return json.dumps(record | {"crc32": checksum(record)}) + "\n"


def as_record(line: str) -> dict[str, Any] | None:
    """A line of the log as stage, epoch and so on; None for a damaged line."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("stage"), str):
        return None
    known = found.pop("crc32", None)
    return found if isinstance(found.get("epoch"), int) and known == checksum(found) else None


def check_finished(path: Path) -> None:
    """Refuse a run that was stopped before its end."""
    if not (path / "done").exists():
        raise CrossbiasError(
            f"the run in {path} is not finished; finish it with: {resume_command(path)}"
        )


def resume_command(path: Path) -> str:
    """How to continue the run in a folder.

    >>> print(resume_command(Path("runs/a b")))
    crossbias train --resume --out 'runs/a b'
    """
    return f"crossbias train --resume --out {shlex.quote(str(path))}"
