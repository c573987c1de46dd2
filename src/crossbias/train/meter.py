"""The losses of an epoch, kept on the device and read a few times a second, and its pace."""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from crossbias.types import Losses


class Meter:
    """A table with one row of losses for each step; only reading it waits for the device."""

    def __init__(self, steps: int) -> None:
        self.names: list[str] = []
        self.rows = torch.empty(0)  # (steps, losses), made at the first step
        self.steps = steps
        self.filled = 0

    def add(self, losses: Losses) -> None:
        """Note the losses of a step."""
        if not self.names:
            self.names = list(losses)
            first = next(iter(losses.values()))
            self.rows = torch.zeros(self.steps, len(losses), device=first.device)
        torch.stack(
            [losses[name].detach().float() for name in self.names], out=self.rows[self.filled]
        )
        self.filled += 1

    def means(self) -> dict[str, float]:
        """Mean of each loss over the steps so far."""
        means = self.rows[: self.filled].double().mean(0).tolist() if self.filled else []
        return dict(zip(self.names, means, strict=True))

    def first_bad_step(self) -> tuple[int, dict[str, float]] | None:
        """The first step, from 0, with a loss that is not finite, and its losses."""
        rows = self.rows[: self.filled].cpu()
        bad = (~torch.isfinite(rows)).flatten(1).any(1) if self.filled else torch.zeros(0)
        if not bad.any():
            return None
        step = int(bad.nonzero()[0])
        return step, dict(zip(self.names, rows[step].tolist(), strict=True))

    def state(self) -> dict[str, list[str] | Tensor]:
        """What a checkpoint in mid-epoch holds."""
        return {"names": self.names, "rows": self.rows[: self.filled].cpu()}

    def restore(self, state: dict[str, list[str] | Tensor], device: torch.device) -> None:
        """Continue from a checkpoint."""
        names, rows = state["names"], state["rows"]
        assert isinstance(names, list)
        assert isinstance(rows, Tensor)
        self.names, self.filled = names, len(rows)
        if names:
            self.rows = torch.zeros(self.steps, len(names), device=device)
            self.rows[: self.filled] = rows.to(device)


class Pace:
    """Time and samples of the steps of an epoch; a resumed epoch goes on counting.

    Args:
        seconds: Time of the steps before an interruption.
        samples: Samples of those steps.
        clock: Tells the time in seconds.
    """

    def __init__(
        self, seconds: float = 0.0, samples: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.before, self.samples, self.clock = seconds, samples, clock
        self.started = clock()

    def start(self) -> None:
        """Begin to count the time of steps, after the loading of a checkpoint for example."""
        self.started = self.clock()

    @property
    def seconds(self) -> float:
        """Time of the steps so far."""
        return self.before + self.clock() - self.started

    @property
    def rate(self) -> float:
        """Samples a second; those of all processes together."""
        return self.samples / max(self.seconds, 1e-9)
