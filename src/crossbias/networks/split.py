"""as_network: split someone else's classifier into body and head."""

import copy
from collections.abc import Callable, Iterator, Sequence

from torch import Tensor, nn

from crossbias.errors import CrossbiasError
from crossbias.networks.bodies import HookedBody, TimmBody, is_global_pool, maps_place
from crossbias.networks.network import Network
from crossbias.networks.trace import (
    Call,
    Trace,
    equal,
    first_line,
    other_types,
    outputs_of,
    shaken,
    trace,
)


def as_network(model: nn.Module, *, shape: Sequence[int] | None = None) -> Network:
    """Split any classifier whose logits are the output of a linear layer, its head.

    The model is copied and stays as it was. A few random inputs go through the model and through
    its two parts; a split that gives other logits is refused.

    Args:
        model: The classifier. A ``Network`` is returned unchanged.
        shape: Shape of one input, such as (3, 96, 96). If not given, common ones are tried.

    Raises:
        CrossbiasError: The model cannot be split; the message says why and what to pass by hand.

    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    ...                       nn.Linear(8, 10))
    >>> as_network(model).num_features
    8
    """
    if isinstance(model, Network):
        return model
    if isinstance(model, nn.Linear):  # a head without a body
        model = nn.Sequential(nn.Flatten(), model)
    if getattr(model, "aux_logits", False):
        raise _by_hand(model, "it has auxiliary classifiers (build it with aux_logits=False)")
    if not any(isinstance(module, nn.Linear) for module in model.modules()):
        raise _by_hand(model, "it has no linear layer")
    try:
        tried = shaken(model)
    except Exception as error:  # such as a layer that waits for its first inputs
        raise _by_hand(model, f"it cannot be copied ({first_line(error)})") from error
    found = trace(tried, shape)
    if isinstance(found, str):
        if _ends_in_linear(model):  # its form says where to split it
            return _split_sequential(copy.deepcopy(model))
        raise _not_run(model, found, shape)
    head = _head_call(model, found)
    for split in _splits(model, found, head):
        if _computes_the_same(split(tried), found, head):
            return split(copy.deepcopy(model))
        _put(head.module, tried, head.layer)
    raise _by_hand(model, "body and head together would give other logits than the model")


def _head_call(model: nn.Module, found: Trace) -> Call:
    """The call of the linear layer whose output the logits are."""
    if not isinstance(found.output, Tensor) or found.output.ndim != 2:
        shape = getattr(found.output, "shape", None)
        what = type(found.output).__name__ if shape is None else f"a tensor of {tuple(shape)}"
        raise _by_hand(model, f"it gives {what} and not logits of (batch, classes)")
    linear = [call for call in found.calls if isinstance(call.module, nn.Linear)]
    heads = [call for call in linear if equal(call.output, found.output, exactly=True)]
    if not heads:
        raise _by_hand(
            model,
            "no linear layer gives its output, so something comes after the last one; take it "
            "out (softmax and log_softmax belong to the loss)",
        )
    return heads[-1]


def _splits(model: nn.Module, found: Trace, head: Call) -> Iterator[Callable[[nn.Module], Network]]:
    """Ways to split a copy of the model, the one that tells most about its layers first."""
    if _ends_in_linear(model):
        yield _split_sequential
    if all(hasattr(model, name) for name in ("forward_features", "forward_head", "get_classifier")):
        yield lambda copied: Network(TimmBody(copied), _taken_out(copied, head.layer))
    maps = maps_place(found, head)
    for place in [maps, None] if maps else [None]:
        yield lambda copied, place=place: Network(  # type: ignore[misc]
            HookedBody(copied, place), _taken_out(copied, head.layer)
        )


def _ends_in_linear(model: nn.Module) -> bool:
    """Whether a model runs its layers one after the other, the last of them linear."""
    if not isinstance(model, nn.Sequential) or type(model).forward is not nn.Sequential.forward:
        return False
    return len(model) > 1 and isinstance(model[-1], nn.Linear)


def _split_sequential(model: nn.Module) -> Network:
    """Pooling followed by flattening is left to Network, which keeps the maps."""
    assert isinstance(model, nn.Sequential)
    layers, head = list(model[:-1]), model[-1]
    if len(layers) > 2 and is_global_pool(layers[-2]) and isinstance(layers[-1], nn.Flatten):
        layers = layers[:-2]
    assert isinstance(head, nn.Linear)
    return Network(nn.Sequential(*layers), head)


def _taken_out(model: nn.Module, layer: str) -> nn.Linear:
    """The head, with an identity in its place, so that the model ends in features."""
    head = model.get_submodule(layer)
    _put(nn.Identity(), model, layer)
    assert isinstance(head, nn.Linear)
    return head


def _put(module: nn.Module, model: nn.Module, layer: str) -> None:
    parent, _, child = layer.rpartition(".")
    setattr(model.get_submodule(parent), child, module)


def _computes_the_same(network: Network, found: Trace, head: Call) -> bool:
    """Whether logits and features are the model's: logits of a head of zeros would tell little."""
    try:
        output = outputs_of(network.eval(), found.inputs)
    except Exception:  # such as a shape that the head does not take
        return False
    return equal(output.logits, found.output) and equal(output.features, head.given)


def _not_run(model: nn.Module, found: str, shape: Sequence[int] | None) -> CrossbiasError:
    """The error of a model that fails on every shape that was tried."""
    fails = f"does not run on {found}"
    if shape is None and not other_types(model):
        return _by_hand(model, f"it {fails}; pass the shape of your inputs, as shape=(3, 96, 96)")
    inputs = ", ".join(map(str, (2, *(shape or ()))))
    remedy = other_types(model) or f"try it by hand first: model(torch.rand({inputs}))"
    return CrossbiasError(f"{type(model).__name__} {fails}; {remedy}")


def _by_hand(model: nn.Module, reason: str) -> CrossbiasError:
    kind = type(model).__name__
    linear = [
        f"model.{name} ({module.in_features} to {module.out_features})"
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
    ]
    return CrossbiasError(
        f"cannot split {kind} into body and head: {reason}. Pass Network(body, head) by hand: "
        f"head is the last nn.Linear, body is everything before it and returns (batch, features) "
        f"or (batch, features, height, width). The last linear layers of {kind}: "
        f"{', '.join(linear[-4:]) or 'none'}"
    )
