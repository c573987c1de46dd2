"""Weights for networks by name: from a file, or from the hub where it can be reached."""

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from torch import Tensor, nn

from crossbias.errors import CrossbiasError
from crossbias.networks.network import Network
from crossbias.networks.trace import first_line

_SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".tar")
_INSIDE = ("state_dict", "model_state_dict", "model")  # where checkpoints keep the weights
_PATIENCE = 3.0  # seconds until a hub that does not answer counts as not there


def is_weights_file(text: str) -> bool:
    """Whether a text is the path of a file of weights, and not a name such as ``DEFAULT``."""
    return Path(text).suffix in _SUFFIXES or Path(text).is_file()


def load_weights(model: nn.Module, network: Network, path: Path) -> tuple[nn.Module, str]:
    """Put the weights of a file into a model, or into the network that was split from it.

    Args:
        model: The model. Its names are those of weights that others publish.
        network: The same model split in two. Its names are those of a run's ``model.safetensors``.
        path: A safetensors file, or a torch file, which is read without running code.

    Returns:
        The one of the two that has the weights now, and a sentence about a head that does not:
        one for another number of classes, or none in the file. Empty if all weights are used.

    Raises:
        CrossbiasError: The file cannot be read, or it has other names or shapes.
    """
    found = read_weights(path)
    target = max((model, network), key=lambda each: len(found.keys() & each.state_dict().keys()))
    head = "head" if target is network else _name_of_head(model, network.head)
    own = target.state_dict()
    kept = {name: tensor for name, tensor in found.items() if name.rpartition(".")[0] != head}
    needed = {name: tensor for name, tensor in own.items() if name.rpartition(".")[0] != head}
    answers = {name: tensor for name, tensor in found.items() if name not in kept}
    _check(kept, needed, path)
    same = {name: tensor.shape for name, tensor in answers.items()} == {
        name: tensor.shape for name, tensor in own.items() if name not in needed
    }
    target.load_state_dict(kept | answers if same else kept, strict=False)
    if same:
        return target, ""
    there = f"has {len(next(iter(answers.values())))} classes there" if answers else "is not there"
    return target, (
        f"weights from {path}: the head {there} and has {network.num_classes} classes here, so it "
        f"starts with new weights"
    )


@contextmanager
def hub_if_reachable() -> Iterator[None]:
    """Inside this, a hub that does not answer is not waited for: weights come from its cache."""
    from huggingface_hub import constants

    offline, timeout = constants.HF_HUB_OFFLINE, socket.getdefaulttimeout()
    try:
        if not offline and not _is_reachable(constants.ENDPOINT):
            constants.HF_HUB_OFFLINE = True
            socket.setdefaulttimeout(_PATIENCE)  # for weights that are elsewhere
        yield
    finally:
        constants.HF_HUB_OFFLINE = offline
        socket.setdefaulttimeout(timeout)


def _is_reachable(address: str) -> bool:
    parts = urlsplit(address)
    if parts.scheme in getproxies():
        return True  # only the proxy can tell
    answered = threading.Event()

    def connect() -> None:
        port = parts.port or (80 if parts.scheme == "http" else 443)
        with (
            suppress(OSError),
            socket.create_connection((parts.hostname or "", port), timeout=_PATIENCE),
        ):
            answered.set()

    # In a thread, since looking up the name has no limit of its own.
    threading.Thread(target=connect, daemon=True).start()
    return answered.wait(_PATIENCE)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors or torch file by name; no code of the file is run."""
    if not path.is_file():
        raise CrossbiasError(f"there is no file of weights {str(path)!r}; name one by weights=FILE")
    found: Any
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            found = load_file(path)
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # each format has errors of its own
        raise _unreadable(path, first_line(error)) from error
    for name in _INSIDE:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    if not isinstance(found, Mapping) or not all(isinstance(v, Tensor) for v in found.values()):
        raise _unreadable(path, f"it holds {type(found).__name__}, not tensors by name")
    parallel = all(name.startswith("module.") for name in found)
    return {name.removeprefix("module.") if parallel else name: v for name, v in found.items()}


def _unreadable(path: Path, reason: str) -> CrossbiasError:
    return CrossbiasError(
        f"the weights in {path} cannot be read ({reason}); save them as safetensors or with "
        f"torch.save(model.state_dict(), FILE)"
    )


def _name_of_head(model: nn.Module, head: nn.Linear) -> str:
    """The name in the model of the layer that became the head of the network."""
    return next(
        str(name)
        for name, module in reversed(list(model.named_modules()))
        if isinstance(module, nn.Linear)
        and module.weight.shape == head.weight.shape
        and torch.equal(module.weight, head.weight)
    )


def _check(kept: Mapping[str, Tensor], needed: Mapping[str, Tensor], path: Path) -> None:
    optional = {name for name in needed if name.endswith("num_batches_tracked")}
    missing = sorted(needed.keys() - kept.keys() - optional)
    strange = sorted(kept.keys() - needed.keys())
    other = [name for name in needed.keys() & kept.keys() if needed[name].shape != kept[name].shape]
    if missing:
        problem = f"it lacks {_few(missing)}"
    elif strange:
        problem = f"it has {_few(strange)}, which the network lacks"
    elif other:
        there, here = ("x".join(map(str, part[min(other)].shape)) for part in (kept, needed))
        problem = f"{min(other)} is {there} there and {here} here"
    else:
        return
    raise CrossbiasError(
        f"the weights in {path} are of another network: {problem}; name the network and the "
        f"options that they were trained with"
    )


def _few(names: list[str]) -> str:
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + more
