"""How often the audit finds an effect that it states to find with a probability of 80%.

python -m benchmarks.audit_power

For each setting, the strength of a cue, or of an attribute, is raised until its mean score is the
mean of what the audit states as detectable. Then other sets of that strength are audited. The
formulas' target (``AIM``) was chosen on sets of other seeds than those that are counted here.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.measure import keep
from crossbias import BiasedDataset
from crossbias.audit.association import cramers_v, strength_of
from crossbias.audit.cues import Cue
from crossbias.audit.permutation import ALARM
from crossbias.audit.probed_cues import audit_cues

SETS, ROUGH, PERMUTATIONS, TESTS = {"attribute": 600, "cue": 150}, 25, 299, 6
FIRST_SEED = 1_000_000  # of the sets that are counted
STRENGTHS = np.linspace(0.1, 1.0, 10)
SHIFT = 2.5  # standard deviations between classes of a cue of strength 1


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
    "500 images, 4 classes, 4 values": Setting(500, 1, 0.0, classes=4, values=4),
    "40 patients, 5 images each": Setting(40, 5, 0.8),
    "100 patients, 5 images each": Setting(100, 5, 0.5),
    "100 patients, 5 images each, 3 classes, 3 values": Setting(100, 5, 0.8, classes=3, values=3),
    "100 patients, 5 images each, half of them in both classes": Setting(100, 5, 0.5, mixed=0.5),
}


PROBED = ("200 images", "40 patients, 5 images each", "100 patients, 5 images each")
"""Settings in which cues are tested as well, which takes long."""


class Audited(NamedTuple):
    """One audit of one effect."""

    score: float
    detectable: float
    found: bool


Trial = Callable[[Setting, float, int, int], Audited]


def main() -> None:
    rows = [_row("attribute", *setting, attribute) for setting in SETTINGS.items()]
    rows += [_row("cue", name, SETTINGS[name], cue) for name in PROBED]
    keep("audit_power", {"tests": TESTS, "rows": rows}, "cpu")


def _row(kind: str, name: str, setting: Setting, trial: Trial) -> dict[str, Any]:
    excess = []
    for strength in STRENGTHS:
        found = [trial(setting, strength, seed, 39) for seed in range(ROUGH)]
        excess.append(np.mean([each.score - each.detectable for each in found]))
    strength = float(np.interp(0.0, np.maximum.accumulate(excess), STRENGTHS))
    seeds = range(FIRST_SEED, FIRST_SEED + SETS[kind])
    found = [trial(setting, strength, seed, PERMUTATIONS) for seed in seeds]
    return {
        "effect": kind,
        "data": name,
        "sets": SETS[kind],
        "score": round(float(np.mean([each.score for each in found])), 3),
        "detectable": round(float(np.mean([each.detectable for each in found])), 3),
        "found": round(sum(each.found for each in found) / SETS[kind], 3),
    }


def cue(setting: Setting, strength: float, seed: int, permutations: int) -> Audited:
    """A cue of four numbers, one of which depends on the class."""
    draw, patient, target, cluster = _patients(setting, seed)
    own = draw.normal(size=(setting.patients, 4))[patient]
    noise = draw.normal(size=(len(patient), 4))
    features = np.sqrt(setting.alike) * own + np.sqrt(1 - setting.alike) * noise
    features[:, 0] += SHIFT * strength * (target == 0)
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
    """An attribute that goes along with the class in this share of patients, else at random."""
    draw, patient, target, cluster = _patients(setting, seed)
    value = _values(setting, strength, draw, patient, target)
    found = strength_of(
        torch.from_numpy(target), torch.from_numpy(value),
        shape=(setting.classes, setting.values), permutations=permutations, seed=seed, tests=TESTS,
        cluster=cluster,
    )  # fmt: skip
    return Audited(_true_v(setting, strength), found.detectable, found.p * TESTS <= ALARM)


@cache
def _true_v(setting: Setting, strength: float) -> float:
    """Cramer's V of class and value of an image, in very many patients."""
    many = setting._replace(patients=100_000)
    draw, patient, target, _ = _patients(many, 0)
    value = _values(many, strength, draw, patient, target)
    table = np.zeros((setting.classes, setting.values))
    np.add.at(table, (target, value), 1)
    return float(cramers_v(table))


def _values(
    setting: Setting,
    strength: float,
    draw: np.random.Generator,
    patient: np.ndarray,
    target: np.ndarray,
) -> np.ndarray:
    """The value of each image: that of its patient, by the class of the patient's first image."""
    first = np.unique(patient, return_index=True)[1]
    drawn = draw.integers(setting.values, size=setting.patients)
    by_rule = draw.random(setting.patients) < strength
    return np.where(by_rule, target[first] % setting.values, drawn)[patient]


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
