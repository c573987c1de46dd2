"""False alarms of the audit where each patient has several images, without and with clusters.

python -m benchmarks.audit_clusters
"""

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.measure import keep
from crossbias import BiasedDataset
from crossbias.audit.evidence import evidence_of
from crossbias.audit.verdict import verdict_of
from crossbias.seeds import generator_for

SETS, PATIENTS, PERMUTATIONS, SIDE = 200, 40, 99, 16

KINDS = {
    "5 images of each patient": ("equal", "patient"),
    "1 to 9 images of each patient": ("unequal", "patient"),
    "8 images of each patient of one class, 2 of the other": ("by class", "patient"),
    "5 images of each patient, some patients in both classes": ("equal", "some images"),
    "5 images of each patient, the class of each image by itself": ("equal", "images"),
}
"""How many images patients have, and what the class depends on; never on the image."""


def main() -> None:
    rows = [_row(kind) for kind in KINDS]
    keep("audit_clusters", {"sets": SETS, "patients": PATIENTS, "rows": rows}, "cpu")


def _row(kind: str) -> dict[str, Any]:
    alarms = {"without clusters": 0, "with clusters": 0}
    for seed in range(SETS):
        data, cluster = null_set(kind, seed)
        alarms["without clusters"] += alarm(data, seed)
        alarms["with clusters"] += alarm(replace(data, cluster=cluster), seed)
    return {"data": kind, "sets": SETS, **alarms}


def alarm(data: BiasedDataset, seed: int) -> bool:
    """Whether an audit of the data reports a shortcut."""
    attributes, cues = evidence_of(data, data, files=None, permutations=PERMUTATIONS, seed=seed)
    return bool(verdict_of(attributes, cues, None, []).findings)


def null_set(kind: str, seed: int) -> tuple[BiasedDataset, torch.Tensor]:
    """Images that look alike within a patient, with a site; class and site are drawn at random."""
    sizes, depends = KINDS[kind]
    draw = generator_for(seed, "audit clusters", kind)
    own = torch.arange(PATIENTS) % 2
    number = {
        "equal": torch.full((PATIENTS,), 5),
        "unequal": torch.randint(1, 10, (PATIENTS,), generator=draw),
        "by class": 2 + 6 * own,
    }[sizes]
    patient = torch.arange(PATIENTS).repeat_interleave(number)
    coarse = torch.rand(PATIENTS, 3, 5, 5, generator=draw)[patient] * 160 + 40
    images = F.interpolate(coarse, size=(SIDE, SIDE), mode="bilinear")
    images += 8 * torch.randn(images.shape, generator=draw)
    single = torch.randint(2, patient.shape, generator=draw)
    mixed = {"patient": 0.0, "some images": 0.3, "images": 1.1}[depends]
    by_image = torch.rand(PATIENTS, generator=draw)[patient] < mixed
    data = BiasedDataset(
        inputs=images.clamp(0, 255).to(torch.uint8),
        targets=torch.where(by_image, single, own[patient]),
        attributes={"site": torch.randint(3, (PATIENTS,), generator=draw)[patient]},
    )
    return data, patient


if __name__ == "__main__":
    main()
