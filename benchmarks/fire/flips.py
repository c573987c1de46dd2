"""Bit flips in every file of a finished and of an unfinished run."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.fire.forks import Outcome, run
from benchmarks.fire.subjects import Arena, difference, files, resume

READERS = (
    ("compare", "--format", "csv"),
    ("evaluate",),
    ("report", "--format", "json"),
)
"""Commands that read a finished run, without its folder."""


def of_finished_runs(arena: Arena) -> Iterator[str | None]:
    """Flip a bit in one file after the other; what is then read must be the same or refused."""
    method = arena.method()
    whole = arena.whole(method)
    for file in files(whole):
        path = arena.copied(whole)
        flipped(arena, path / file.relative_to(whole))
        reader = arena.random.choice(READERS)
        problem = misread(arena, reader, whole, path)
        yield problem and f"{method}, {file.name}, {reader[0]}: {problem}"
        shutil.rmtree(path)


def of_unfinished_runs(arena: Arena) -> Iterator[str | None]:
    """Flip a bit in one file after the other; a resume must end in the same bits or refuse."""
    method = arena.method()
    half = arena.half(method)
    for file in files(half):
        if not file.stat().st_size:
            continue
        path = arena.copied(half)
        flipped(arena, path / file.relative_to(half))
        outcome = resume(path).wait()
        problem = None if outcome.refused else str(outcome)
        if outcome.code == 0:
            problem = difference(arena.whole(method), path)
        yield problem and f"{method}, {file.name}: {problem}"
        shutil.rmtree(path)


def flipped(arena: Arena, file: Path) -> None:
    """Flip one bit of a file."""
    content = bytearray(file.read_bytes())
    content[arena.random.randrange(len(content))] ^= 1 << arena.random.randrange(8)
    file.write_bytes(content)


def misread(arena: Arena, reader: tuple[str, ...], whole: Path, path: Path) -> str | None:
    """What is wrong if a reader takes a damaged run for another result than the whole one."""
    outcome = _read(arena, reader, path)
    if outcome.refused:
        return None
    if outcome.code:
        return str(outcome)
    key = (reader, whole)
    if key not in arena.read:
        copied = arena.copied(whole)
        arena.read[key] = _read(arena, reader, copied).out
        shutil.rmtree(copied)
    return None if outcome.out == arena.read[key] else "another result without a word"


def _read(arena: Arena, reader: tuple[str, ...], path: Path) -> Outcome:
    """What a reader prints, without the name of the folder."""
    output = arena.folder()
    name, *options = reader
    written = ("-o", output) if name == "report" else ()
    outcome = run(name, path, *options, *written)
    if output.exists():
        outcome = outcome._replace(out=output.read_text())
        output.unlink()
    printed = outcome.out.replace(str(output), "OUTPUT").replace(str(path), "RUN")
    return outcome._replace(out=printed.replace(path.name, "RUN"))
