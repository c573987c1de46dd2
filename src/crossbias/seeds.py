"""Randomness by purpose: every draw has its own seed, and no global generator is left changed."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def seed_for(seed: int, *purpose: str | int) -> int:
    """A seed for one purpose of a run; adding a purpose never changes the others.

    >>> seed_for(0, "order", 3) == seed_for(0, "order", 3) != seed_for(0, "augment", 3)
    True
    """
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1


def generator_for(seed: int, *purpose: str | int) -> torch.Generator:
    """A CPU generator seeded for one purpose; the same numbers on every device and platform."""
    return torch.Generator().manual_seed(seed_for(seed, *purpose))


@contextmanager
def global_randomness_kept(device: torch.device) -> Iterator[None]:
    """Restore the global generators afterwards; dropout can draw only from those."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield


def seed_global(seed: int, device: torch.device) -> None:
    """Seed the generators dropout draws from; use inside ``global_randomness_kept``."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
