"""Results in the papers' tables are of the images that this commit makes. See conftest.py."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.table import Job, Table

from crossbias.cli.options import settings
from crossbias.experiment import Experiment

ROOT = Path(__file__).parents[2]
DIGITS = ("biased-mnist", "colored-mnist-lnl", "colored-mnist", "watermarked-mnist")


def runs_on_digits() -> Iterator[Any]:
    """For each table and data set, the hashes in a run of the first seed."""
    for path in sorted((ROOT / "tables").glob("*.toml")):
        results = ROOT / "benchmarks" / "results" / "tables" / f"{path.stem}.json"
        runs = json.loads(results.read_text())["runs"] if results.exists() else {}
        first = {
            job.data(): pytest.param(job, runs[job.key]["hashes"], id=f"{path.stem} {job.data()}")
            for job in reversed(list(Table.read(path, ROOT / "recipes").jobs()))
            if job.seed == 0 and job.data() in DIGITS and "hashes" in runs.get(job.key, {})
        }
        yield from first.values()


@pytest.mark.parametrize(("job", "hashes"), list(runs_on_digits()))
def test_results_are_of_the_images_that_are_made_now(job: Job, hashes: dict[str, str]) -> None:
    recipe = Experiment.from_toml(ROOT / "recipes" / f"{job.recipe}.toml")
    words = itertools.pairwise(job.command())
    written = [after for word, after in words if word == "--set"]
    experiment = recipe.updated(data=settings(written)["data"])
    assert {"train", "test"} <= hashes.keys()
    for split in ("train", "test"):
        assert experiment.split(split).hash == hashes[split]
