"""Images without any rule, and shortcuts planted into them; real X-rays where they lie."""

import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from crossbias import BiasedDataset
from crossbias.audit.evidence import evidence_of
from crossbias.audit.verdict import verdict_of
from crossbias.data.assignment import biased_values
from crossbias.data.planting.planting import replant

X_RAYS = Path(os.environ.get("CROSSBIAS_DATA", "absent"), "covid-cxr/metadata.csv")
collect_ignore = [] if X_RAYS.exists() else ["test_real_x_rays.py"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out."""
    for name in collect_ignore:
        terminalreporter.write_line(
            f"left out: tests/audit/{name}, which needs covid-cxr in CROSSBIAS_DATA"
        )


def make_blank(targets: torch.Tensor, *, seed: int, side: int = 32) -> BiasedDataset:
    """Soft random patches with noise, which have nothing to do with the class."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(len(targets), 3, 5, 5, generator=generator) * 160 + 40
    images = F.interpolate(coarse, size=(side, side), mode="bilinear")
    images += 8 * torch.randn(images.shape, generator=generator)
    return BiasedDataset(
        inputs=images.clamp(0, 255).to(torch.uint8),
        targets=targets,
        classes=tuple(f"class {k}" for k in range(int(targets.max()) + 1)),
    )


def make_planted(kind: str, *, rho: float, seed: int, samples: int = 300) -> BiasedDataset:
    """Two classes and a cue that goes along with them; no attribute tells of it."""
    targets = torch.arange(samples) % 2
    data = make_blank(targets, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    values = biased_values(targets, values=2, rho=rho, generator=generator)
    if kind in ("color", "brightness", "texture"):
        images = replant(data, values, bias=kind).inputs
    else:
        images = OWN[kind](data.inputs.float(), values.view(-1, 1, 1, 1))
    return BiasedDataset(inputs=images.clamp(0, 255).to(torch.uint8), targets=targets)


def _mark(images, values):
    images[:, :, :4, -4:] = torch.where(values > 0, 250.0, images[:, :, :4, -4:])
    return images


def _frame(images, values):
    inside = torch.zeros(images.shape[2:], dtype=torch.bool)
    inside[2:-2, 2:-2] = True
    return torch.where((values > 0) & ~inside, 0.0, images)


def _light(images, values):
    return images + (2 * values - 1) * 30 * torch.linspace(-1, 1, images.shape[3])


OWN = {"mark": _mark, "frame": _frame, "light": _light}


def make_verdict(data: BiasedDataset, *, permutations: int = 99, seed: int = 0):
    """The verdict on the data alone."""
    attributes, cues = evidence_of(data, data, files=None, permutations=permutations, seed=seed)
    return verdict_of(attributes, cues, None, [])


@pytest.fixture
def blank():
    return make_blank


@pytest.fixture
def planted():
    return make_planted


@pytest.fixture
def verdict():
    return make_verdict
