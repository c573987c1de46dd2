"""Networks by name: the table, timm's models, and the reader's own by dotted path."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from crossbias.errors import CrossbiasError
from crossbias.networks import bagnet, papers, video
from crossbias.networks.heads import narrow_head
from crossbias.networks.network import Network
from crossbias.networks.split import as_network
from crossbias.networks.timm_models import timm_builder, written
from crossbias.networks.trace import first_line
from crossbias.networks.weights import is_weights_file, load_weights
from crossbias.parameters import (
    closest,
    convert,
    imported,
    parameters_of,
    takes_any_keyword,
    validated,
)

NETWORKS: dict[str, Callable[..., Network]] = {
    "convnet": papers.convnet,
    "convnet-1x1": papers.convnet_1x1,
    "convnet-end": papers.convnet_end,
    "lnl-convnet": papers.lnl_convnet,
    "simple-convnet-1": papers.simple_convnet_1,
    "simple-convnet-2": papers.simple_convnet_2,
    "small-convnet": papers.small_convnet,
    "linear": papers.linear,
    "mlp": papers.mlp,
    "mlp-first": papers.mlp_first,
    "bagnet18": bagnet.bagnet18,
    "bagnet18-released": bagnet.bagnet18_released,
    "resnet18-3d": video.resnet18_3d,
    "resnet18-2d": video.resnet18_2d,
}
"""The papers' own networks and ours. Any other name is looked up in timm."""

_TORCHVISION = "torchvision.models:"


@dataclass(frozen=True)
class Recipe:
    """A network by name and keywords, to be built for inputs of some shape.

    >>> Recipe("convnet", {"kernel": 1})
    Recipe(name='convnet', options={'kernel': 1})
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked = _checked(self.name, self.options)
        object.__setattr__(self, "options", checked)  # frozen; text becomes what it stands for

    def untrained(self) -> "Recipe":
        """The same network without weights from a hub or a file, to be filled with others."""
        kept = {key: value for key, value in self.options.items() if key != "weights"}
        return Recipe(self.name, kept | ({"pretrained": False} if "pretrained" in kept else {}))

    def build(self, *, num_classes: int, shape: Sequence[int]) -> Network:
        """A network with fresh weights, or pretrained ones where the options ask for them.

        Args:
            num_classes: Number of logits.
            shape: Shape of one input, such as (3, 28, 28).
        """
        factory = _factory(self.name)
        known = parameters_of(factory)
        sizes = {
            "num_classes": num_classes,
            "in_channels": shape[0],
            "in_features": math.prod(shape),
        }
        fitting = {name: size for name, size in sizes.items() if name in known}
        if takes_any_keyword(factory):  # as torchvision's builders: resnet18(**keywords)
            fitting["num_classes"] = num_classes
        if "in_channels" in known and len(shape) == 1:
            raise CrossbiasError(
                f"network {self.name!r} takes images, but the inputs are vectors; use 'mlp'"
            )
        return _made(self.name, _checked(self.name, fitting | dict(self.options)), shape)


def create_network(name: str, **options: Any) -> Network:
    """A network by name: one of ``NETWORKS``, any timm model, or ``my_package.module:function``.

    Args:
        name: The name.
        **options: Its keywords, and ``weights``: a file of weights to start from.
    """
    values = _checked(name, options)
    missing = [
        parameter.name
        for parameter in parameters_of(_factory(name)).values()
        if parameter.default is parameter.empty and parameter.name not in values
    ]
    if missing:
        raise CrossbiasError(f"network {name!r} needs {', '.join(missing)}; pass it by keyword")
    return _made(name, values, None)


def _checked(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a network, checked and converted from text; every network takes weights."""
    factory = _factory(name)
    known, (own, file) = parameters_of(factory), _without_file(name, options)
    values = validated(factory, own, f"network {name!r}")
    untyped = {name for name, parameter in known.items() if parameter.annotation is parameter.empty}
    read = {
        key: _literal(value) if key in untyped or key not in known else value
        for key, value in values.items()
    }
    return read | ({"weights": str(file.resolve())} if file else {})


def _without_file(name: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], Path | None]:
    """The network's own options, and the file of weights that ``weights`` names.

    A reader's own network may have a parameter of that name, which then takes what is no file.
    """
    own, weights = dict(options), options.get("weights")
    takes_it = ":" in name and not name.startswith(_TORCHVISION)
    passed_on = takes_it and "weights" in parameters_of(_factory(name))
    if not isinstance(weights, str | Path) or (passed_on and not is_weights_file(str(weights))):
        return own, None
    return {key: value for key, value in own.items() if key != "weights"}, Path(weights)


def _literal(value: Any) -> Any:
    """What a text stands for where no annotation tells: numbers, truth values, none, or text.

    >>> _literal("64"), _literal("0.1"), _literal("true"), _literal("2,2"), _literal("avg")
    (64, 0.1, True, (2, 2), 'avg')
    """
    if isinstance(value, str) and "," in value:
        return tuple(_literal(part) for part in value.split(",") if part)
    for kind in (bool, int, float):
        with suppress(CrossbiasError):
            return convert(value, kind, "")
    return None if value == "none" else value


def _made(name: str, options: Mapping[str, Any], shape: Sequence[int] | None) -> Network:
    """Build a model, split it, and give it the weights of a file if the options name one."""
    own, file = _without_file(name, options)
    try:
        model = _factory(name)(**own)
    except CrossbiasError:
        raise
    except (TypeError, ValueError) as error:
        raise CrossbiasError(
            f"network {name!r} cannot be built with {written(own)} "
            f"({type(error).__name__}: {first_line(error)}); give or change an option with --set "
            f"network.NAME=VALUE"
        ) from error
    if not isinstance(model, nn.Module):
        raise CrossbiasError(f"{name!r} made a {type(model).__name__}, not a torch model")
    if "num_classes" in own and _draws_a_head(name, model, own):
        narrow_head(model, own["num_classes"])
    network = as_network(model, shape=shape)
    if not file:
        return network
    target, note = load_weights(model, network, file)
    network = network if target is network else as_network(model, shape=shape)
    network.note = note
    return network


def _draws_a_head(name: str, model: nn.Module, options: Mapping[str, Any]) -> bool:
    """Whether the head of a model is new and not the reader's own.

    With pretrained weights and the number of classes that they were trained for, the head is
    theirs.
    """
    if ":" in name:
        return name.startswith(_TORCHVISION) and not options.get("weights")
    published = getattr(model, "pretrained_cfg", None) or {}
    same = published.get("num_classes") == options["num_classes"]
    return name not in NETWORKS and not (options.get("pretrained") and same)


def is_network(name: str) -> bool:
    """Whether a network of that name is known, here or in timm."""
    import timm

    return name in NETWORKS or bool(timm.is_model(name))


def _factory(name: str) -> Callable[..., nn.Module]:
    if ":" in name:
        return _own_factory(name)
    if name in NETWORKS:
        return NETWORKS[name]
    if is_network(name):
        return timm_builder(name)
    import timm

    raise CrossbiasError(
        f"there is no network {name!r}{closest(name, [*NETWORKS, *timm.list_models()])}; "
        f"there are: {', '.join(NETWORKS)}, and every classifier of timm, such as resnet18"
    )


def _own_factory(name: str) -> Callable[..., nn.Module]:
    """A subclass of nn.Module, or a function that makes a model; other classes are not called."""
    found: Callable[..., nn.Module] = imported(name)
    if not callable(found) or (isinstance(found, type) and not issubclass(found, nn.Module)):
        raise CrossbiasError(
            f"{name!r} is not a torch model; name a subclass of nn.Module, or a function that "
            f"makes a model"
        )
    return found
