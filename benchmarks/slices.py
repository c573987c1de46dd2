"""False alarms and power of the audit's slices, as counts over simulated models.

python -m benchmarks.slices
"""

from typing import Any

import torch
from torch import Tensor

from benchmarks.measure import keep
from crossbias import BiasedDataset
from crossbias.audit.slices import find_slices
from crossbias.seeds import generator_for

SETS, DIMENSIONS = 100, 32

NULL = {
    "400 samples, 20% errors": {"samples": 400, "errors": 0.2},
    "2,000 samples, 5% errors": {"samples": 2000, "errors": 0.05},
    "2,000 samples of 4 classes in groups, 20% errors": {
        "samples": 2000, "errors": 0.2, "classes": 4, "groups": 5,
    },
}  # fmt: skip
"""Errors that have nothing to do with the features within a class."""

PATIENTS = {
    "40 patients with 20 samples each": {"patients": 40, "each": 20},
}
"""Patients have features and an error rate of their own, unrelated to each other."""

PLANTED = {
    f"{samples:,} samples, slice of 10%, errors {inside:.0%} against 10%": {
        "samples": samples, "share": 0.1, "inside": inside, "outside": 0.1,
    }
    for samples in (400, 1000)
    for inside in (0.6, 0.3)
}  # fmt: skip


def main() -> None:
    found = {
        "sets": SETS,
        "false alarms": [_null_row(kind) for kind in NULL],
        "patients": [_patients_row(kind) for kind in PATIENTS],
        "power": [_power_row(kind) for kind in PLANTED],
    }
    keep("slices", found, "cpu")


def _null_row(kind: str) -> dict[str, Any]:
    alarms = sum(
        bool(find_slices(*null_set(**NULL[kind], seed=seed), seed=seed).found)
        for seed in range(SETS)
    )
    return {"data": kind, "sets": SETS, "alarms": alarms}


def _patients_row(kind: str) -> dict[str, Any]:
    alarms = {"without clusters": 0, "with clusters": 0}
    for seed in range(SETS):
        features, answers, data = patients_set(**PATIENTS[kind], seed=seed)
        plain = BiasedDataset(inputs=data.inputs, targets=data.targets)
        alarms["without clusters"] += bool(find_slices(features, answers, plain, seed=seed).found)
        alarms["with clusters"] += bool(find_slices(features, answers, data, seed=seed).found)
    return {"data": kind, "sets": SETS, **alarms}


def _power_row(kind: str) -> dict[str, Any]:
    """How often a slice is found, how pure it is, and how often the attribute explains it."""
    found, pure, explained = 0, [], 0
    for seed in range(SETS):
        features, answers, data = planted_set(**PLANTED[kind], seed=seed)
        slices = find_slices(features, answers, data, seed=seed).found
        if slices:
            found += 1
            pure.append(float(data.attributes["planted"][list(slices[0].rows)].double().mean()))
            explained += any(
                (each.attribute, each.value) == ("planted", "1") for each in slices[0].explained_by
            )
    purity = sum(pure) / len(pure) if pure else None
    return {"data": kind, "sets": SETS, "found": found, "explained": explained, "purity": purity}


def null_set(
    *, samples: int, errors: float, seed: int, classes: int = 2, groups: int = 1
) -> tuple[Tensor, Tensor, BiasedDataset]:
    """Features in groups, and answers that are wrong at random."""
    draw = generator_for(seed, "slices null", samples, classes)
    targets = torch.arange(samples) % classes
    centers = 3 * torch.randn(groups, DIMENSIONS, generator=draw)
    member = torch.randint(groups, (samples,), generator=draw)
    features = centers[member] + torch.randn(samples, DIMENSIONS, generator=draw)
    wrong = torch.rand(samples, generator=draw) < errors
    answers = torch.where(wrong, (targets + 1) % classes, targets)
    data = BiasedDataset(inputs=features, targets=targets, attributes={"group": member})
    return features, answers, data


def patients_set(*, patients: int, each: int, seed: int) -> tuple[Tensor, Tensor, BiasedDataset]:
    """Patients of one class each, whose samples look alike and share an error rate."""
    draw = generator_for(seed, "slices patients", patients)
    patient = torch.arange(patients).repeat_interleave(each)
    own = 2 * torch.randn(patients, DIMENSIONS, generator=draw)
    features = own[patient] + torch.randn(len(patient), DIMENSIONS, generator=draw)
    rate = torch.rand(patients, generator=draw) ** 3  # most are easy, some are hard
    wrong = torch.rand(len(patient), generator=draw) < rate[patient]
    targets = (torch.arange(patients) % 2)[patient]
    answers = torch.where(wrong, 1 - targets, targets)
    return features, answers, BiasedDataset(inputs=features, targets=targets, cluster=patient)


def planted_set(
    *, samples: int, share: float, inside: float, outside: float, seed: int
) -> tuple[Tensor, Tensor, BiasedDataset]:
    """A part of each class has features of its own and more errors."""
    draw = generator_for(seed, "slices planted", samples)
    targets = torch.arange(samples) % 2
    planted = torch.rand(samples, generator=draw) < share
    features = torch.randn(samples, DIMENSIONS, generator=draw)
    features[:, :4] += 2.0 * planted[:, None]
    wrong = torch.rand(samples, generator=draw) < torch.where(planted, inside, outside)
    answers = torch.where(wrong, 1 - targets, targets)
    return (
        features,
        answers,
        BiasedDataset(inputs=features, targets=targets, attributes={"planted": planted.long()}),
    )


if __name__ == "__main__":
    main()
