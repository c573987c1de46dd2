"""How long AFLite's linear classifiers of one round take: fitted together, and one after another.

64 classifiers on random halves of 54,000 samples with 64 features in 10 classes, the size of its
rounds on MNIST. Both sides give every sample the same predictability.

    python -m benchmarks.filtering [cpu | cuda]
"""

import torch
from torch import Tensor

from benchmarks.measure import alternate, device_named, keep
from crossbias.functional import predictability

SAMPLES, FEATURES, CLASSES, CLASSIFIERS = 54_000, 64, 10, 64
RIDGE = 1e-3
LIMIT = 5.0  # seconds on one H200
REPEATS = 3


def drawn(device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Features that show the class of most samples, classes, and halves of the samples."""
    generator = torch.Generator().manual_seed(0)
    target = torch.arange(SAMPLES) % CLASSES
    centers = torch.randn(CLASSES, FEATURES, generator=generator)
    features = centers[target] + 2 * torch.randn(SAMPLES, FEATURES, generator=generator)
    fitted = torch.rand(CLASSIFIERS, SAMPLES, generator=generator) < 0.5
    return features.to(device), target.to(device), fitted.to(device)


def together(features: Tensor, target: Tensor, fitted: Tensor) -> Tensor:
    """All classifiers at once."""
    return predictability(features, target, fitted, classes=CLASSES, ridge=RIDGE)


def one_by_one(features: Tensor, target: Tensor, fitted: Tensor) -> Tensor:
    """Each by itself, on the rows it is fitted to, by torch's solver of least squares."""
    inputs = torch.nn.functional.pad(features.double(), (0, 1), value=1.0)
    answers = torch.nn.functional.one_hot(target, CLASSES).double()
    right = torch.zeros(SAMPLES, dtype=torch.float64, device=features.device)
    for part in fitted:
        own = inputs[part]
        penalty = torch.full((FEATURES + 1,), RIDGE * len(own), dtype=own.dtype, device=own.device)
        penalty[-1] = 0
        system = own.T @ own + penalty.diag()
        found = torch.linalg.solve(system, own.T @ answers[part])
        right += ~part & ((inputs @ found).argmax(1) == target)
    return right / (~fitted).sum(0).clamp(min=1)


def main() -> None:
    device = device_named()
    given = drawn(device)
    same = torch.equal(together(*given), one_by_one(*given))  # also makes both warm
    times = alternate(
        {"together": lambda: together(*given), "one by one": lambda: one_by_one(*given)}, REPEATS
    )
    result = {f"seconds, {name}": round(min(found), 3) for name, found in times.items()}
    keep("filtering", result | {"same answers": same, "limit on an H200": LIMIT}, device)


if __name__ == "__main__":
    main()
