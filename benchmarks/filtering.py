"""How long AFLite's linear classifiers of one round take: ours, and one by one in the usual way.

64 classifiers on random halves: of 54,000 samples with 64 features in 10 classes, the size of its
rounds on MNIST, and of 1,560 samples with 1,280 features in 6 classes, those of EfficientNet on
one's own photographs. Both sides give every sample the same predictability.

    python -m benchmarks.filtering [cpu | cuda]
"""

from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.measure import alternate, device_named, keep
from crossbias.functional import predictability

CLASSIFIERS = 64
RIDGE = 1e-3
LIMIT = 5.0  # seconds for digits on one H200
REPEATS = 3


class Shape(NamedTuple):
    """The size of a round."""

    samples: int
    features: int
    classes: int

    def drawn(self, device: str) -> tuple[Tensor, Tensor, Tensor]:
        """Features that show the class of most samples, classes, and halves of the samples."""
        generator = torch.Generator().manual_seed(0)
        target = torch.arange(self.samples) % self.classes
        centers = torch.randn(self.classes, self.features, generator=generator)
        noise = torch.randn(self.samples, self.features, generator=generator)
        fitted = torch.rand(CLASSIFIERS, self.samples, generator=generator) < 0.5
        return (centers[target] + 2 * noise).to(device), target.to(device), fitted.to(device)

    def ours(self, features: Tensor, target: Tensor, fitted: Tensor) -> Tensor:
        """All at once; with many features each by the smaller of two systems."""
        return predictability(features, target, fitted, classes=self.classes, ridge=RIDGE)

    def one_by_one(self, features: Tensor, target: Tensor, fitted: Tensor) -> Tensor:
        """Each by itself, on the rows it is fitted to, by the normal equations."""
        inputs = torch.nn.functional.pad(features.double(), (0, 1), value=1.0)
        answers = torch.nn.functional.one_hot(target, self.classes).double()
        right = torch.zeros(self.samples, dtype=torch.float64, device=features.device)
        for part in fitted:
            own = inputs[part]
            penalty = own.new_full((self.features + 1,), RIDGE * len(own))
            penalty[-1] = 0
            found = torch.linalg.solve(own.T @ own + penalty.diag(), own.T @ answers[part])
            right += ~part & ((inputs @ found).argmax(1) == target)
        return right / (~fitted).sum(0).clamp(min=1)


SHAPES = {"digits": Shape(54_000, 64, 10), "photographs": Shape(1_560, 1_280, 6)}


def measured(shape: Shape, device: str) -> dict[str, float | bool]:
    """Seconds of both sides, and whether they agree."""
    given = shape.drawn(device)
    same = torch.equal(shape.ours(*given), shape.one_by_one(*given))  # makes both warm
    times = alternate(
        {
            "ours": lambda: shape.ours(*given),
            "one by one": lambda: shape.one_by_one(*given),
        },
        REPEATS,
    )
    found = {f"seconds, {name}": round(min(turns), 3) for name, turns in times.items()}
    return found | {"same answers": same}


def main() -> None:
    device = device_named()
    found = {name: measured(shape, device) for name, shape in SHAPES.items()}
    keep("filtering", {**found, "limit for digits on an H200": LIMIT}, device)


if __name__ == "__main__":
    main()
