"""SweepFolder: many runs in one folder, which data each is about, and how far each is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from crossbias.errors import CrossbiasError
from crossbias.runs.files import read_json, write_json
from crossbias.runs.writer import is_written

State = Literal["finished", "running", "stopped", "failed", "waiting"]
"""How far a run of a sweep is."""


class SweepRun(NamedTuple):
    """One run of a sweep.

    Args:
        name: The name of its folder.
        data: The data it is about, in words; runs of the same data can be compared.
        state: How far it is.
        line: The last line of a failed run; else empty.
    """

    name: str
    data: str
    state: State
    line: str = ""


class Trial(NamedTuple):
    """One trial of a search.

    Args:
        number: Its number; the first has the plan's own settings.
        run: The name of its run.
        state: ``complete``, ``fail`` or ``running``.
        value: The number by which the search chooses; None if the run has none.
        settings: What was drawn, by name with the table.
    """

    number: int
    run: str
    state: str
    value: float | None
    settings: dict[str, Any]


class Search(NamedTuple):
    """The search for the settings of one method, on one data set and with one network.

    Args:
        method: The method's name.
        data: The data, in words.
        rule: The number that was compared, on validation data.
        direction: ``maximize`` or ``minimize``.
        sampler: How trials were drawn.
        budget: The number of trials that every method has.
        chosen: The number of the best trial; None before one is finished.
        trials: All trials.
    """

    method: str
    data: str
    rule: str
    direction: str
    sampler: str
    budget: int
    chosen: int | None
    trials: tuple[Trial, ...]


class SweepFolder:
    """The files of a sweep.

    Args:
        path: The folder.

    Attributes:
        listing: What the sweep consists of; a folder without this file is no sweep.
        runs: Holds a run folder for each run.
        output: Holds what each run printed.
        failures: Holds a file for each run that failed, until it is tried again.
        searches: Holds a file for each search, with all trials.
        stop_request: Exists from the request to stop until the sweep has stopped.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = path = Path(path)
        self.listing = path / "sweep.json"
        self.runs = path / "runs"
        self.output = path / "logs"
        self.failures = path / "failed"
        self.searches = path / "search"
        self.stop_request = path / "stop"

    @property
    def exists(self) -> bool:
        """Whether the folder holds a sweep."""
        return self.listing.is_file()

    def check_exists(self) -> None:
        """Refuse a folder that holds no sweep."""
        if not self.exists:
            raise CrossbiasError(
                f"{self.path} holds no sweep: it has no sweep.json; name a folder that "
                f"`crossbias sweep PLAN.toml --out FOLDER` wrote"
            )

    def write_listing(self, names: dict[str, str], about: dict[str, Any]) -> None:
        """Write what the sweep consists of: the data of each run by its name, and the plan."""
        write_json(self.listing, {**about, "runs": names})

    def read_listing(self) -> dict[str, str]:
        """The data of each run, by the run's name."""
        self.check_exists()
        found = read_json(self.listing)
        names = found.get("runs") if isinstance(found, dict) else None
        if not isinstance(names, dict) or not all(
            isinstance(data, str) and Path(name).name == name for name, data in names.items()
        ):
            raise CrossbiasError(f"{self.listing} is damaged; start the sweep again with its plan")
        return names

    def state_of(self, name: str) -> State:
        """How far a run is, as its files tell."""
        run = self.runs / name
        if (run / "done").exists():
            return "finished"
        if is_written(run):
            return "running"
        if (self.failures / f"{name}.json").exists():
            return "failed"
        return "stopped" if (run / "config.json").exists() else "waiting"

    def status(self) -> list[SweepRun]:
        """All runs, in the order of the plan."""
        return [self._run(name, data) for name, data in self.read_listing().items()]

    def read_searches(self) -> list[Search]:
        """The searches so far, with all their trials."""
        return [_read_search(path) for path in sorted(self.searches.glob("*.json"))]

    def keep_failure(self, name: str, line: str) -> None:
        """Remember that a run failed, and its last line."""
        self.failures.mkdir(parents=True, exist_ok=True)
        write_json(self.failures / f"{name}.json", {"line": line})

    def forget_failure(self, name: str) -> None:
        """Let a failed run be tried again."""
        (self.failures / f"{name}.json").unlink(missing_ok=True)

    def _run(self, name: str, data: str) -> SweepRun:
        state, line = self.state_of(name), ""
        if state == "failed":
            found = read_json(self.failures / f"{name}.json")
            line = str(found.get("line", "")) if isinstance(found, dict) else ""
        return SweepRun(name, data, state, line)


def runs_by_data(folders: Sequence[Path]) -> dict[str, list[Path]]:
    """The run folders among and in these folders, by the data they are about.

    A folder that holds a sweep stands for its finished runs. A run folder is of the data named by
    an empty text, so that runs without a sweep stay together.

    Raises:
        CrossbiasError: A sweep has no finished run.
    """
    found: dict[str, list[Path]] = {}
    for folder in folders:
        sweep = SweepFolder(folder)
        if not sweep.exists:
            found.setdefault("", []).append(folder)
            continue
        finished = [run for run in sweep.status() if run.state == "finished"]
        if not finished:
            raise CrossbiasError(
                f"no run of the sweep {folder} is finished; see: crossbias sweep --status "
                f"--out {folder}"
            )
        for run in finished:
            found.setdefault(run.data, []).append(sweep.runs / run.name)
    return found


def unfinished_notes(folders: Sequence[Path]) -> list[str]:
    """For each folder that holds a sweep with unfinished runs, a sentence about these."""
    notes = []
    for sweep in map(SweepFolder, folders):
        states = [run.state for run in sweep.status()] if sweep.exists else []
        if missing := len(states) - states.count("finished"):
            notes.append(f"{missing} of {len(states)} runs of {sweep.path} are not finished.")
    return notes


def searches_of(runs: Sequence[Path]) -> list[Search]:
    """The searches that chose the settings of these runs."""
    sweeps = {run.parent.parent for run in runs if SweepFolder(run.parent.parent).exists}
    names = {run.name for run in runs}
    return [
        search
        for path in sorted(sweeps)
        for search in SweepFolder(path).read_searches()
        if any(trial.number == search.chosen and trial.run in names for trial in search.trials)
    ]


def _read_search(path: Path) -> Search:
    found = read_json(path)
    try:
        trials = tuple(
            Trial(**{**trial, "settings": dict(trial["settings"])}) for trial in found["trials"]
        )
        numbers = [trial.value for trial in trials if trial.value is not None]
        search = Search(**{**found, "trials": trials})
        if not all(isinstance(number, int | float) for number in numbers):
            raise TypeError
    except (KeyError, TypeError, ValueError) as error:
        raise CrossbiasError(
            f"{path} is damaged; continue the sweep, which writes it again"
        ) from error
    return search
