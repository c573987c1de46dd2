"""run_sweep: a plan in, finished run folders out."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from crossbias.errors import CrossbiasError
from crossbias.progress import Progress
from crossbias.runs.files import read_json
from crossbias.runs.sweeps import SweepFolder, SweepRun
from crossbias.runs.writer import Writer
from crossbias.sweep.driver import JobList, drive
from crossbias.sweep.executor import Executor
from crossbias.sweep.job import Job
from crossbias.sweep.plan import Plan
from crossbias.sweep.search import SearchJobs
from crossbias.train.environment import package_version

Backend = Literal["local", "slurm", "ray"]
BACKENDS: Final = get_args(Backend)


def run_sweep(
    plan: Plan,
    out: Path | str,
    *,
    on: Backend = "local",
    jobs: int = 1,
    address: str | None = None,
    retry: bool = False,
    progress: Progress | None = None,
) -> list[SweepRun]:
    """Train all runs of a plan that are not finished.

    Finished runs are skipped, stopped ones resumed, and failed ones tried again if asked for. With
    a search, its trials come first, and then the chosen settings with every seed.

    Args:
        plan: The plan.
        out: The sweep's folder.
        on: ``local`` trains in processes of this machine, ``slurm`` and ``ray`` on a cluster whose
            nodes see the folder.
        jobs: How many runs to train at a time.
        address: The Ray cluster, ``host:port``; one is started on this machine if None.
        retry: Whether to try failed runs again.
        progress: Hears about every run that ends.

    Returns:
        All runs that a comparison is about, with their states.

    Raises:
        CrossbiasError: The plan, the folder or the backend cannot be used.
        Interrupted: Somebody asked to stop; the same call continues the sweep.
    """
    if jobs < 1:
        raise CrossbiasError(f"jobs must be at least 1, got {jobs}")
    folder, progress = SweepFolder(out), progress or Progress()
    known = _named_as_before(folder, plan.jobs())
    plan.check_runs(known)
    _check_same_sweep(folder, plan, known)
    folder.path.mkdir(parents=True, exist_ok=True)
    writer = Writer(folder.path)
    writer.acquire()
    try:
        folder.stop_request.unlink(missing_ok=True)
        executor = _executor(plan, folder, on, jobs, address)
        try:
            if plan.space is not None:
                if not folder.exists:
                    _list(folder, plan, ())
                search = SearchJobs(plan, folder)
                drive(search, folder, executor, progress)
                known = search.chosen()
            _list(folder, plan, known)
            drive(JobList(_unfinished(folder, known, retry)), folder, executor, progress)
        except BaseException:
            executor.stop()  # runs that still train save first
            raise
        finally:
            executor.close()
    finally:
        folder.stop_request.unlink(missing_ok=True)
        writer.release()
        with suppress(OSError):
            folder.path.rmdir()  # where the backend refused, and it is empty
    return folder.status()


def runs_to_train(plan: Plan, out: Path | str, *, retry: bool = False) -> list[Job]:
    """The runs that ``run_sweep`` would train now; with a search, all that it may choose.

    Args:
        plan: The plan.
        out: The sweep's folder, which need not exist.
        retry: Whether failed runs would be tried again.

    Raises:
        CrossbiasError: The plan or the folder cannot be used.
    """
    folder = SweepFolder(out)
    jobs = _named_as_before(folder, plan.jobs())
    plan.check_runs(jobs)
    _check_same_sweep(folder, plan, jobs)
    return jobs if plan.space is not None else _unfinished(folder, jobs, retry)


def _named_as_before(folder: SweepFolder, jobs: Sequence[Job]) -> list[Job]:
    """The jobs; those whose configuration the folder has are called as they are there.

    A name says what differs within a plan, which changes if the plan gets another alternative.
    """
    listed = folder.read_listing() if folder.exists else {}
    names = {name.rpartition("-")[2]: name for name in listed}
    return [replace(job, name=names.get(job.name.rpartition("-")[2], job.name)) for job in jobs]


def _check_same_sweep(folder: SweepFolder, plan: Plan, jobs: Sequence[Job]) -> None:
    """Refuse a folder that holds another sweep; a plan that only adds runs is the same one."""
    if not folder.exists:
        if folder.path.exists() and any(folder.path.iterdir()):
            raise CrossbiasError(
                f"{folder.path} exists and holds no sweep; choose another folder with --out"
            )
        return
    arms = {name for name, _ in plan.arms()}
    searched = {path.stem for path in folder.searches.glob("*.journal")}
    lost = searched - arms if plan.space else folder.read_listing().keys() - {j.name for j in jobs}
    if lost:
        raise CrossbiasError(
            f"{folder.path} holds another sweep: {len(lost)} of its runs are not in this plan, "
            f"such as {min(lost)}; choose another folder with --out"
        )
    if read_json(folder.listing).get("search") != _search(plan):
        raise CrossbiasError(
            f"{folder.path} holds a sweep with another [search]; choose another folder with --out"
        )


def _search(plan: Plan) -> Any:
    """What must not change within a search: everything but the number of trials."""
    described = None if plan.space is None else asdict(plan.space) | {"trials": None}
    return json.loads(json.dumps(described))


def _list(folder: SweepFolder, plan: Plan, jobs: Sequence[Job]) -> None:
    names = {job.name: job.data for job in jobs}
    folder.write_listing(names, {"version": package_version(), "search": _search(plan)})


def _unfinished(folder: SweepFolder, jobs: Sequence[Job], retry: bool) -> list[Job]:
    """Runs to train; failed ones only if asked for."""
    states = {job.name: folder.state_of(job.name) for job in jobs}
    skipped = {"finished"} if retry else {"finished", "failed"}
    return [job for job in jobs if states[job.name] not in skipped]


def _executor(
    plan: Plan, folder: SweepFolder, on: Backend, jobs: int, address: str | None
) -> Executor:
    options: dict[str, Any] = dict(plan.backends.get(on, {}))
    if on == "slurm":
        from crossbias.sweep.slurm import SlurmExecutor

        return SlurmExecutor(folder.path, jobs=jobs, options=options)
    if on == "ray":
        from crossbias.sweep.ray_cluster import RayExecutor

        return RayExecutor(folder.path, jobs=jobs, address=address, options=options)
    if on != "local":
        raise CrossbiasError(f"a sweep runs on {', '.join(BACKENDS)}, got {on!r}")
    import torch

    from crossbias.sweep.local import LocalExecutor

    threads = max(torch.get_num_threads() // jobs, 1)  # which a run alone would have, shared
    devices = torch.cuda.device_count()
    return LocalExecutor(folder.path, jobs=jobs, threads=threads, devices=devices)
