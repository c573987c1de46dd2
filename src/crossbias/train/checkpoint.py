"""Checkpoints: whole or absent, loaded without running code, refused if they do not fit."""

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from crossbias.errors import CrossbiasError
from crossbias.runs.files import load_torch, write_atomically

_FORMAT = 4
_LARGEST_WEIGHT = 1e10  # no network computes with such weights; the next updates overflow
_MOMENTS = (  # what torch's optimizers keep for each parameter
    ((Adam, AdamW), ("step", "exp_avg", "exp_avg_sq")),
    (SGD, ("momentum_buffer",)),
)
_FOLLOWS = ("lr", "capturable")  # options that follow the schedule and the device
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("method", "data", "identity", "stage"), str),
    **dict.fromkeys(("epoch", "step", "epoch_steps", "logged"), int),
    **dict.fromkeys(("stages", "meter", "state"), dict),
    "pace": (tuple, list),
    "best": (dict, type(None)),
}


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint; a kill at any moment leaves the previous one whole."""
    write_atomically(path, lambda file: torch.save({"format": _FORMAT, **content}, file))


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint back, tensors on the CPU.

    Raises:
        CrossbiasError: The file is corrupt, truncated, or of another format.
    """
    content = load_torch(path)
    if not isinstance(content, dict) or str(content.get("format")) != str(_FORMAT):
        raise CrossbiasError(f"{path} is not a checkpoint of this version of crossbias")
    for name, kind in _KINDS.items():
        if name not in content or not isinstance(content[name], kind):
            raise _damaged(path, f"{name} is {type(content.get(name)).__name__}")
    best, pace = content["best"], [type(number) for number in content["pace"]]
    if pace != [float, int] or not _is_table(content["step"], **content["meter"]):
        raise _damaged(path, "it has no losses or no pace")
    if best is not None and not _is_best(**best):
        raise _damaged(path, "it lacks the best network")
    return content


def _is_table(step: int, names: Any = None, rows: Any = None, **_: Any) -> bool:
    """Whether losses are a table with a row for each step of the epoch, a name for each column."""
    if not isinstance(names, list) or not isinstance(rows, Tensor):
        return False
    named = all(isinstance(name, str) for name in names)
    return named and rows.shape == ((step, len(names)) if names else (0,))


def _is_best(value: Any = None, epoch: Any = None, network: Any = None, **more: Any) -> bool:
    """Whether the best network comes with its value and epoch, and with nothing else."""
    numbers = isinstance(value, float) and isinstance(epoch, int)
    return numbers and isinstance(network, dict) and not more


def _damaged(path: Path | str, reason: object) -> CrossbiasError:
    return CrossbiasError(
        f"{path} is damaged ({reason}); delete it and resume, which trains this stage again from "
        f"its start, or restore the file from a copy"
    )


def absurd_weights(state: dict[str, Any]) -> tuple[str, float] | None:
    """A tensor of a network that is not finite, or weights beyond all sense, and their size.

    The device is waited for once.
    """
    tensors = [
        (name, tensor)
        for part in state.values()
        if isinstance(part, nn.Module)
        for name, tensor in (*part.named_parameters(), *part.named_buffers())
        if tensor.is_floating_point() and tensor.numel()
    ]
    if not tensors:
        return None
    sizes = torch.stack([tensor.detach().abs().amax().double() for _, tensor in tensors]).tolist()
    for (name, tensor), size in zip(tensors, sizes, strict=True):
        # Statistics of inputs may be large; weights may not.
        most = _LARGEST_WEIGHT if tensor.requires_grad else math.inf
        if not (size <= most and math.isfinite(size)):
            return name.removeprefix("_forward_module."), size
    return None


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
            check_shapes(part, saved[name], f"{path}: {name}")
        try:
            if isinstance(part, Optimizer):
                _check_moments(part, saved[name])
            if isinstance(part, nn.Module | Optimizer):
                part.load_state_dict(saved[name])
            else:
                _check_shape(saved[name], part.shape)
                part.copy_(saved[name])
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise _damaged(path, f"{name}: {str(error).splitlines()[0]}") from error


def _check_moments(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    """Refuse moments of other shapes than the parameters: the fused step reads past their ends.

    Raises:
        ValueError: What is wrong, or another error that shows that the state is damaged.
    """
    own = optimizer.state_dict()["param_groups"]
    for group, other in zip(own, saved["param_groups"], strict=True):
        if _lasting(group) != _lasting(other):
            raise ValueError("its options are not those of the configuration")
        _check_shape(torch.as_tensor(other["lr"], dtype=torch.float64), ())
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    kept = {name for kind, names in _MOMENTS if isinstance(optimizer, kind) for name in names}
    for number, state in saved["state"].items():
        if state and kept and state.keys() != kept:
            raise ValueError(f"it has {', '.join(map(str, state))} of parameter {number}")
        for name, value in state.items():
            if name == "step":
                _check_shape(torch.as_tensor(value, dtype=torch.float32), ())
            elif name in kept and (value is not None or name != "momentum_buffer"):
                _check_shape(value, parameters[number].shape)


def _lasting(group: dict[str, Any]) -> dict[str, Any]:
    """The options of an optimizer that do not change."""
    return {name: value for name, value in group.items() if name not in _FOLLOWS}


def _check_shape(value: Tensor, shape: tuple[int, ...]) -> None:
    if value.shape != shape:
        raise ValueError(f"its shape is {tuple(value.shape)}, not {tuple(shape)}")


def check_shapes(module: nn.Module, saved: dict[str, Tensor], what: str) -> None:
    """Refuse tensors that are not those of a module, by name and shape."""
    own = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    if not isinstance(saved, dict) or not all(isinstance(v, Tensor) for v in saved.values()):
        raise _damaged(what, "it holds no tensors by name")
    other = {name: tuple(tensor.shape) for name, tensor in saved.items()}
    for name in [*own, *other]:
        if own.get(name) != other.get(name):
            raise CrossbiasError(
                f"{what} is of another network: {name} is {other.get(name, 'missing')} there "
                f"and {own.get(name, 'missing')} here"
            )
