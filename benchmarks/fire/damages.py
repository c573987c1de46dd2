"""Damage to every file of a finished and of an unfinished run, whose hashes stay as they were."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.fire.forks import Outcome, run
from benchmarks.fire.subjects import Arena, difference, files, resume

READERS = (
    ("compare", "--format", "csv"),
    ("evaluate",),
    ("report", "--format", "json"),
)
"""Commands that read a finished run, without its folder."""

Way = Callable[[Arena, Path, Path], None]
"""Damages a file; the third argument is the same file of another run, which may not exist."""


def _flip(arena: Arena, file: Path, other: Path) -> None:
    content = bytearray(file.read_bytes())
    content[arena.random.randrange(len(content))] ^= 1 << arena.random.randrange(8)
    file.write_bytes(content)


def _cut(arena: Arena, file: Path, other: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: arena.random.randrange(len(content))])


def _empty(arena: Arena, file: Path, other: Path) -> None:
    file.write_bytes(b"")


def _zero(arena: Arena, file: Path, other: Path) -> None:
    """Zeros from some place on, as some file systems leave a file after a power cut."""
    content = file.read_bytes()
    at = arena.random.randrange(len(content))
    file.write_bytes(content[:at] + bytes(len(content) - at))


def _add(arena: Arena, file: Path, other: Path) -> None:
    with file.open("ab") as opened:
        opened.write(arena.random.randbytes(arena.random.randint(1, 40)))


def _delete(arena: Arena, file: Path, other: Path) -> None:
    file.unlink()


def _exchange(arena: Arena, file: Path, other: Path) -> None:
    if other.exists():
        shutil.copy(other, file)
    else:
        file.unlink()


FLIPS: tuple[Way, ...] = (_flip,)
OTHERS: tuple[Way, ...] = (_cut, _empty, _zero, _add, _delete, _exchange)


def of_finished_runs(ways: tuple[Way, ...], arena: Arena) -> Iterator[str | None]:
    """Damage one file after the other; what is then read must be the same or refused."""
    method = arena.method()
    whole = arena.whole(method)
    for path, file, way in _damaged(arena, whole, ways, method):
        reader = arena.random.choice(READERS)
        problem = misread(arena, reader, whole, path)
        yield problem and f"{method}, {way} of {file}, {reader[0]}: {problem}"


def of_unfinished_runs(ways: tuple[Way, ...], arena: Arena) -> Iterator[str | None]:
    """Damage one file after the other; a resume must end in the same bits or refuse."""
    method = arena.method()
    for path, file, way in _damaged(arena, arena.half(method), ways, method):
        outcome = resume(path).wait()
        problem = None if outcome.refused else str(outcome)
        if outcome.code == 0:
            problem = difference(arena.whole(method), path, deleted=file if way == "delete" else "")
        yield problem and f"{method}, {way} of {file}: {problem}"


def _damaged(
    arena: Arena, run: Path, ways: tuple[Way, ...], method: str
) -> Iterator[tuple[Path, str, str]]:
    """Copies of a run, each with another file damaged: the copy, the file and the way."""
    another = arena.whole(method, seed=1) if _exchange in ways else run
    for file in files(run):
        if not file.stat().st_size:
            continue
        path, way = arena.copied(run), arena.random.choice(ways)
        name = file.relative_to(run)
        way(arena, path / name, another / name)
        yield path, name.as_posix(), way.__name__.strip("_")
        shutil.rmtree(path)


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
