"""What a classifier computes on its way to the logits, seen on a few random inputs."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from crossbias.seeds import generator_for, global_randomness_kept, seed_global

_Module = TypeVar("_Module", bound=nn.Module)

_SAMPLES = 2
_TOLERANCE = 1e-4  # of the largest number, where two tensors are compared
_SIDES = (224, 64, 32, 28)  # pixels of the images that are tried where no shape is known
_FRAMES = 8  # and the length of clips
_SHAKE = 0.5  # width of the numbers added to a constant weight; variances stay positive


class Call(NamedTuple):
    """One call of a layer."""

    layer: str  # its name, as named_modules writes it
    module: nn.Module
    given: Tensor | None  # its first argument, if that is a tensor
    output: Any


class Trace(NamedTuple):
    """One forward pass."""

    inputs: Tensor
    output: Any
    calls: list[Call]  # in the order in which they returned


def trace(model: nn.Module, shape: Sequence[int] | None) -> Trace | str:
    """A pass over random inputs in evaluation mode, in which the model then is.

    Args:
        model: The classifier.
        shape: Shape of one input. If not given, or if the model does not take it, shapes are
            tried that suit the model's first layer.

    Returns:
        The pass, or why the first shape failed where all of them do.
    """
    reasons = []
    for tried in _shapes(model, shape):
        inputs = torch.rand((_SAMPLES, *tried), generator=generator_for(0, "trace"))
        try:
            return _traced(model.eval(), inputs)
        except Exception as error:  # a stranger's forward may raise anything
            size = "x".join(map(str, tried))
            reasons.append(f"inputs of {size}: {first_line(error)}")
    return reasons[0]


def shaken(model: _Module) -> _Module:
    """A copy whose constant weights are random, since a constant one may hide its layer.

    A normalization of ones and zeros changes next to nothing, and a head of zeros gives zeros
    for any features.
    """
    copied, generator = copy.deepcopy(model), generator_for(0, "shaken")
    for module in copied.modules():
        statistics = isinstance(module, nn.modules.batchnorm._NormBase)
        tensors: list[Tensor] = [*module.parameters(recurse=False)]
        tensors += [*module.buffers(recurse=False)] if statistics else []
        for tensor in tensors:
            if _is_constant(tensor):
                noise = torch.rand(tensor.shape, generator=generator) - 0.5  # of both signs
                tensor.data += _SHAKE * noise.to(tensor)
    return copied


def outputs_of(model: nn.Module, inputs: Tensor) -> Any:
    """What a model gives without gradient, its dropout drawing the same numbers every time."""
    device = device_of(model)
    with torch.no_grad(), global_randomness_kept(device):
        seed_global(0, device)
        return model(inputs.to(device))


def equal(one: object, other: object, *, exactly: bool = False) -> bool:
    """Whether two things are tensors of one shape with the same numbers, up to rounding."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor) or one.shape != other.shape:
        return False
    one, other = one.float(), other.float()
    limit = 0.0 if exactly else _TOLERANCE * float(other.abs().max())
    return bool(((one - other).abs() <= limit).all())


def device_of(model: nn.Module) -> torch.device:
    """The device of a model's weights; the CPU where it has none."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its kind where it has none."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def other_types(model: nn.Module) -> str | None:
    """What to do about weights of another type than the inputs; None where all are float32."""
    found = {parameter.dtype for parameter in model.parameters()} - {torch.float32}
    if not found:
        return None
    return f"its weights are {', '.join(map(str, found))} and inputs float32: call model.float()"


def first_layer(model: nn.Module) -> nn.Module | None:
    """The first convolution or linear layer of a model, in the order of its definition."""
    kinds = (nn.Linear, nn.modules.conv._ConvNd)
    return next((module for module in model.modules() if isinstance(module, kinds)), None)


def _traced(model: nn.Module, inputs: Tensor) -> Trace:
    calls: list[Call] = []

    def note(name: str) -> Any:
        def hook(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
            first = given[0] if given and isinstance(given[0], Tensor) else None
            calls.append(Call(name, module, first, output))

        return hook

    with ExitStack() as stack:
        for name, module in model.named_modules():
            stack.enter_context(module.register_forward_hook(note(name)))
        output = outputs_of(model, inputs)
    return Trace(inputs, output, calls)


def _is_constant(tensor: Tensor) -> bool:
    if not tensor.is_floating_point() or not tensor.numel():
        return False
    return bool((tensor == tensor.flatten()[0]).all())


def _shapes(model: nn.Module, shape: Sequence[int] | None) -> Iterator[tuple[int, ...]]:
    if shape is not None:
        yield tuple(shape)
    config = getattr(model, "pretrained_cfg", None) or {}  # of timm's models
    sides = [tuple(config["input_size"][1:])] if config.get("input_size") else []
    sides += [(side, side) for side in _SIDES]
    first = first_layer(model)
    if isinstance(first, nn.Linear):
        yield (first.in_features,)
    channels = first.in_channels if isinstance(first, nn.modules.conv._ConvNd) else 3
    for side in sides:
        yield (channels, _FRAMES, *side) if isinstance(first, nn.Conv3d) else (channels, *side)
