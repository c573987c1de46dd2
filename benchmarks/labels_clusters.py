"""False alarms about labels where patients have several images: association and missing labels.

python -m benchmarks.labels_clusters

The report says whether bias and class may be unrelated in training (chi-square test). Metrics and
``crossbias data check`` say whether the bias label is missing more often in one class. Labels are
drawn at random here, so each test should alarm in at most 5% of the sets, that of missing labels
(which alarms below .01) in 1%.
"""

from typing import Any

import numpy as np
import torch

from benchmarks.measure import keep
from crossbias.verify.independence import independence
from crossbias.verify.missing import missing_by_class

SETS = 300

KINDS = {
    "100 patients, 5 images each, 2 classes, 2 sites": (100, 5, 2, 2, 1.0),
    "40 patients, 5 images each, 2 classes, 4 sites": (40, 5, 2, 4, 1.0),
    "40 patients, 1 to 9 images each, 2 classes, 2 sites": (40, 0, 2, 2, 1.0),
    "200 patients, 3 images each, 10 classes, 6 sites": (200, 3, 10, 6, 1.0),
    "100 patients, 5 images each, the site of half of the images by itself": (100, 5, 2, 2, 0.5),
    "300 patients, 1 image each, 2 classes, 2 sites": (300, 1, 2, 2, 1.0),
}
"""Patients, images of each, classes, sites, and the share of images whose site is the patient's."""


def main() -> None:
    rows = [_row(kind, *about) for kind, about in KINDS.items()]
    keep("labels_clusters", {"sets": SETS, "rows": rows}, "cpu")


def _row(
    kind: str, patients: int, each: int, classes: int, sites: int, own: float
) -> dict[str, Any]:
    draw, alarms = np.random.default_rng(0), dict.fromkeys(COLUMNS, 0)
    for _ in range(SETS):
        number = draw.integers(1, 10, patients) if each == 0 else np.full(patients, each)
        patient = np.repeat(np.arange(patients), number)
        target = torch.from_numpy(draw.integers(classes, size=patients)[patient])
        single = draw.integers(sites, size=len(patient))
        alone = draw.random(len(patient)) >= own
        site = torch.from_numpy(
            np.where(alone, single, draw.integers(sites, size=patients)[patient])
        )
        cluster = torch.from_numpy(patient)
        alarms["association"] += independence(target, site) <= 0.05
        alarms["association, clusters"] += independence(target, site, cluster=cluster) <= 0.05
        total = torch.bincount(target, minlength=classes).tolist()
        missing = torch.bincount(target[site == 0], minlength=classes).tolist()
        alarms["missing"] += missing_by_class(missing, total) < 0.01
        size = len(patient) / patients
        alarms["missing, clusters"] += missing_by_class(missing, total, effect=size) < 0.01
    return {"data": kind} | {name: round(count / SETS, 4) for name, count in alarms.items()}


COLUMNS = ("association", "association, clusters", "missing", "missing, clusters")


if __name__ == "__main__":
    main()
