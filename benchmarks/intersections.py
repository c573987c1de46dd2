"""How often groups are flagged where a model fails none, and how often a planted one is found.

python -m benchmarks.intersections
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.measure import keep
from crossbias.answers.columns_of_answers import encoded_labels
from crossbias.answers.intersections import Scan, scan, with_intersections
from crossbias.answers.samples import joined
from crossbias.seeds import seed_for
from crossbias.verify import Cells, Metrics
from crossbias.verify.clusters import with_clusters

SETS = 300
CLASSES = ("ill", "well")


class Drawn(NamedTuple):
    """One test set: what is known about each sample, and whether the model is right."""

    target: NDArray[np.int64]
    attributes: dict[str, NDArray[np.int64]]
    right: NDArray[np.bool_]
    cluster: NDArray[np.int64] | None = None
    weight: NDArray[np.float64] | None = None


class Setting(NamedTuple):
    """How test sets are drawn."""

    samples: int
    values: tuple[int, ...]  # of each attribute
    depth: int
    accuracy: tuple[float, float] = (0.85, 0.85)  # of each class
    associated: float = 0.0  # how much the first attribute goes along with the class
    size: int = 1  # samples of a cluster, whose errors are alike
    named: bool = True  # whether clusters are named
    weights: float = 0.0  # standard deviation of the logarithm of the weights
    planted: float = 0.0  # how much lower the accuracy is where the first two attributes are 0


NULL = {
    "2 attributes, pairs": Setting(2000, (5, 2), 2),
    "4 attributes, pairs": Setting(4000, (4, 4, 4, 4), 2),
    "4 attributes, triples": Setting(4000, (4, 4, 4, 4), 3),
    "few errors (1%)": Setting(4000, (4, 4, 4, 4), 2, accuracy=(0.99, 0.99)),
    "a hard class that goes along with a value": Setting(
        4000, (4, 4, 4), 2, accuracy=(0.6, 0.95), associated=0.6
    ),
    "5 alike samples of each patient, named": Setting(4000, (4, 4, 4), 2, size=5),
    "5 alike samples of each patient, not named": Setting(4000, (4, 4, 4), 2, size=5, named=False),
    "weights": Setting(4000, (4, 4, 4), 2, weights=0.7),
}
PLANTED = {
    "10 points lower, 4,000 samples": Setting(4000, (4, 4, 2), 2, planted=0.10),
    "15 points lower, 4,000 samples": Setting(4000, (4, 4, 2), 2, planted=0.15),
    "20 points lower, 4,000 samples": Setting(4000, (4, 4, 2), 2, planted=0.20),
    "20 points lower, 1,000 samples": Setting(1000, (4, 4, 2), 2, planted=0.20),
    "30 points lower, 1,000 samples": Setting(1000, (4, 4, 2), 2, planted=0.30),
}


def main() -> None:
    found = {
        "sets": SETS,
        "null": [_alarms(name, setting) for name, setting in NULL.items()],
        "planted": [_power(name, setting) for name, setting in PLANTED.items()],
    }
    keep("intersections", found, "cpu")


def _alarms(name: str, setting: Setting) -> dict[str, Any]:
    scans = [scanned(drawn(name, setting, number), setting.depth) for number in range(SETS)]
    tested = sorted(each.tested for each in scans)[SETS // 2]
    flagged = sum(bool(each.flagged) for each in scans)
    return {"setting": name, "groups tested": tested, "sets with an alarm": flagged}


def _power(name: str, setting: Setting) -> dict[str, Any]:
    """How often the planted group is flagged, how often a single attribute is, and others."""
    counts = {"planted group flagged": 0, "flagged without intersections": 0, "other flagged": 0}
    for number in range(SETS):
        made = drawn(name, setting, number)
        pairs, single = (scanned(made, depth).flagged for depth in (2, 1))
        exact = [each for each in pairs if (each.attribute, each.value) == (("a", "b"), "0 & 0")]
        counts["planted group flagged"] += bool(exact)
        counts["flagged without intersections"] += bool(single)
        counts["other flagged"] += any(_apart(each.attribute, each.value) for each in pairs)
    return {"setting": name, **counts}


def _apart(attribute: tuple[str, ...], value: str) -> bool:
    """Whether a group has no sample of the planted one."""
    values = dict(zip(attribute, value.split(" & "), strict=True))
    return values.get("a", "0") != "0" or values.get("b", "0") != "0"


def drawn(name: str, setting: Setting, number: int) -> Drawn:
    """Draw a test set."""
    draw = np.random.default_rng(seed_for(number, "intersections", name))
    n, clusters = setting.samples, setting.samples // setting.size
    cluster = np.repeat(np.arange(clusters), setting.size)
    target = draw.integers(0, 2, clusters)[cluster]
    attributes = {
        "abcd"[place]: draw.integers(0, values, clusters)[cluster]
        for place, values in enumerate(setting.values)
    }
    along = (draw.random(clusters) < setting.associated)[cluster]
    attributes["a"] = np.where(along, target, attributes["a"])
    accuracy = np.array(setting.accuracy)[target]
    accuracy = accuracy - setting.planted * ((attributes["a"] == 0) & (attributes["b"] == 0))
    # Samples of a cluster share most of their luck: four of five are right or wrong together.
    shared = draw.random(clusters)[cluster]
    luck = np.where(draw.random(n) < 0.8, shared, draw.random(n))
    luck = luck if setting.size > 1 else draw.random(n)
    weight = np.exp(setting.weights * draw.normal(size=n)) if setting.weights else None
    known = cluster if setting.size > 1 and setting.named else None
    return Drawn(target, attributes, luck < accuracy, known, weight)


def scanned(made: Drawn, depth: int) -> Scan:
    """What the scan of all groups finds."""
    columns = {name: encoded_labels(name, column) for name, column in made.attributes.items()}
    target, right = torch.from_numpy(made.target), torch.from_numpy(made.right)
    answers = torch.where(right, target, 1 - target)
    by_attribute = {}
    for attribute in with_intersections([(name,) for name in columns], depth):
        column = joined([columns[name] for name in attribute])
        cells = Cells.from_answers(
            *(target, column.numbers, answers),
            alignment=None, classes=CLASSES, values=column.values,
        )  # fmt: skip
        metrics = Metrics.from_cells(cells, None)  # without the gaps, which the scan does not use
        if made.cluster is not None or made.weight is not None:
            cluster, weight = (
                None if part is None else torch.from_numpy(part)
                for part in (made.cluster, made.weight)
            )
            metrics = with_clusters(metrics, target, column.numbers, answers, cluster, weight)
        by_attribute[attribute] = metrics
    return scan(by_attribute)


if __name__ == "__main__":
    main()
