"""How often the audit finds an effect that it states to find with a probability of 80%.

python -m benchmarks.audit_power

For each setting, the strength of a cue, or of an attribute, is raised until its mean score is the
mean of what the audit states as detectable. Then sets of that strength are audited.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.measure import keep
from crossbias import BiasedDataset
from crossbias.audit.association import strength_of
from crossbias.audit.cues import Cue
from crossbias.audit.permutation import ALARM
from crossbias.audit.probed_cues import audit_cues

SETS, ROUGH, PERMUTATIONS, TESTS = 400, 60, 199, 6
STRENGTHS = np.linspace(0.1, 1.0, 10)


class Setting(NamedTuple):
    """Patients and their images."""

    patients: int
    images: int  # of each patient on average; their number varies if there are several
    alike: float  # share of the variance of an image that is the patient's
    mixed: float = 0.0  # share of patients whose images have classes of their own
    classes: int = 2
    values: int = 2


SETTINGS = {
    "200 images": Setting(200, 1, 0.0),
    "1,000 images, 4 classes, 5 values": Setting(1000, 1, 0.0, classes=4, values=5),
    "40 patients, 5 images each": Setting(40, 5, 0.8),
    "100 patients, 5 images each": Setting(100, 5, 0.5),
    "100 patients, 5 images each, 3 classes, 4 values": Setting(100, 5, 0.8, classes=3, values=4),
    "100 patients, 5 images each, hardly alike": Setting(100, 5, 0.1),
    "100 patients, 5 images each, half of them in both classes": Setting(100, 5, 0.5, mixed=0.5),
}


class Audited(NamedTuple):
    """One audit of one effect."""

    score: float
    detectable: float
    found: bool


Trial = Callable[[Setting, float, int, int], Audited]


def main() -> None:
    rows = [
        _row(kind, name, setting, trial)
        for kind, trial in {"cue": cue, "attribute": attribute}.items()
        for name, setting in SETTINGS.items()
    ]
    keep("audit_power", {"sets": SETS, "tests": TESTS, "rows": rows}, "cpu")


def _row(kind: str, name: str, setting: Setting, trial: Trial) -> dict[str, Any]:
    excess = []
    for strength in STRENGTHS:
        found = [trial(setting, strength, seed, 39) for seed in range(ROUGH)]
        excess.append(np.mean([each.score - each.detectable for each in found]))
    strength = float(np.interp(0.0, np.maximum.accumulate(excess), STRENGTHS))
    found = [trial(setting, strength, 1000 + seed, PERMUTATIONS) for seed in range(SETS)]
    return {
        "effect": kind,
        "data": name,
        "score": round(float(np.mean([each.score for each in found])), 3),
        "detectable": round(float(np.mean([each.detectable for each in found])), 3),
        "found": round(sum(each.found for each in found) / SETS, 3),
    }


def cue(setting: Setting, strength: float, seed: int, permutations: int) -> Audited:
    """A cue of four numbers, one of which depends on the class."""
    draw, patient, target, cluster = _patients(setting, seed)
    own = draw.normal(size=(setting.patients, 4))[patient]
    noise = draw.normal(size=(len(patient), 4))
    features = np.sqrt(setting.alike) * own + np.sqrt(1 - setting.alike) * noise
    features[:, 0] += 1.5 * strength * target
    data = BiasedDataset(
        inputs=torch.zeros(len(patient), 1), targets=torch.from_numpy(target), cluster=cluster
    )
    (found,) = audit_cues(
        [Cue("cue", "numbers", torch.from_numpy(features).float())], data,
        permutations=permutations, seed=seed, tests=TESTS,
    )  # fmt: skip
    assert found.balanced_accuracy is not None
    assert found.detectable is not None
    assert found.p is not None
    return Audited(found.balanced_accuracy, found.detectable, found.p * TESTS <= ALARM)


def attribute(setting: Setting, strength: float, seed: int, permutations: int) -> Audited:
    """An attribute that goes along with the class in this share of patients, else at random.

    The score is the true Cramer's V of patients.
    """
    draw, patient, target, cluster = _patients(setting, seed)
    first = np.unique(patient, return_index=True)[1]
    by_rule = target[first] % setting.values
    value = np.where(
        draw.random(setting.patients) < strength,
        by_rule,
        draw.integers(setting.values, size=setting.patients),
    )
    found = strength_of(
        torch.from_numpy(target), torch.from_numpy(value[patient]),
        shape=(setting.classes, setting.values), permutations=permutations, seed=seed, tests=TESTS,
        cluster=cluster,
    )  # fmt: skip
    score = _true_v(setting, strength)
    return Audited(score, found.detectable, found.p * TESTS <= ALARM)


def _true_v(setting: Setting, strength: float) -> float:
    """Cramer's V of class and value of an image."""
    shape = (setting.classes, setting.values)
    rule = np.zeros(shape)
    rule[np.arange(setting.classes), np.arange(setting.classes) % setting.values] = 1
    # An image of a patient in several classes has the class of the rule by chance alone, mostly.
    kept = strength * (1 - setting.mixed * (1 - 1 / setting.images))
    joint = (kept * rule + (1 - kept) / setting.values) / setting.classes
    joint += (strength - kept) * (rule.mean(0) - 1 / setting.values) / setting.classes
    expected = joint.sum(1, keepdims=True) * joint.sum(0)
    return float(np.sqrt(((joint - expected) ** 2 / expected).sum() / (min(shape) - 1)))


def _patients(
    setting: Setting, seed: int
) -> tuple[np.random.Generator, np.ndarray, np.ndarray, torch.Tensor | None]:
    """The patient and the class of each image."""
    draw = np.random.default_rng(seed)
    number = draw.poisson(setting.images - 1, setting.patients) + 1
    patient = np.repeat(np.arange(setting.patients), number)
    target = (np.arange(setting.patients) % setting.classes)[patient]
    single = draw.integers(setting.classes, size=len(patient))
    mixed = (draw.random(setting.patients) < setting.mixed)[patient]
    cluster = torch.from_numpy(patient) if setting.images > 1 else None
    return draw, patient, np.where(mixed, single, target), cluster


if __name__ == "__main__":
    main()
