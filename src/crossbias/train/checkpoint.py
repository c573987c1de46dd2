"""Checkpoints: whole or absent, loaded without running code, refused if they do not fit."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from crossbias.errors import CrossbiasError
from crossbias.runs.files import load_torch, write_atomically

_FORMAT = 2


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint; a kill at any moment leaves the previous one whole."""
    write_atomically(path, lambda file: torch.save({"format": _FORMAT, **content}, file))


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint back, tensors on the CPU.

    Raises:
        CrossbiasError: The file is corrupt, truncated, or of another format.
    """
    content = load_torch(path)
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise CrossbiasError(f"{path} is not a checkpoint of this version of crossbias")
    return content


def packed(state: dict[str, Any]) -> dict[str, Any]:
    """A method's state as plain dictionaries and tensors."""
    return {
        name: part.state_dict() if isinstance(part, nn.Module | Optimizer) else part
        for name, part in state.items()
    }


def restore(state: dict[str, Any], saved: dict[str, Any], path: Path | str) -> None:
    """Put saved values back into a method's networks, optimizers and tensors.

    Raises:
        CrossbiasError: The checkpoint is of another method or network.
    """
    if set(state) != set(saved):
        raise CrossbiasError(
            f"{path} holds the state of another method: {', '.join(sorted(saved))} "
            f"instead of {', '.join(sorted(state))}"
        )
    for name, part in state.items():
        if isinstance(part, nn.Module):
            _check_shapes(part, saved[name], f"{path}: {name}")
            part.load_state_dict(saved[name])
        elif isinstance(part, Optimizer):
            part.load_state_dict(saved[name])
        else:
            part.copy_(saved[name])


def _check_shapes(module: nn.Module, saved: dict[str, Tensor], what: str) -> None:
    own = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    other = {name: tuple(tensor.shape) for name, tensor in saved.items()}
    for name in [*own, *other]:
        if own.get(name) != other.get(name):
            raise CrossbiasError(
                f"{what} is of another network: {name} is {other.get(name, 'missing')} there "
                f"and {own.get(name, 'missing')} here"
            )
