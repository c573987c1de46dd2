"""Networks by name: the table, timm's models, and the reader's own by dotted path."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from crossbias.errors import CrossbiasError
from crossbias.networks import bagnet, papers, video
from crossbias.networks.gray import gray
from crossbias.networks.network import Network
from crossbias.networks.split import as_network
from crossbias.parameters import (
    Count,
    closest,
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
    "mlp": papers.mlp,
    "gray": gray,
    "mlp-first": papers.mlp_first,
    "bagnet18": bagnet.bagnet18,
    "bagnet18-released": bagnet.bagnet18_released,
    "resnet18-3d": video.resnet18_3d,
    "resnet18-2d": video.resnet18_2d,
}
"""The papers' own networks. Any other name is looked up in timm."""


@dataclass(frozen=True)
class Recipe:
    """A network by name and keywords, to be built for inputs of some shape.

    >>> Recipe("convnet", {"kernel": 1})
    Recipe(name='convnet', options={'kernel': 1})
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked = validated(_factory(self.name), self.options, f"network {self.name!r}")
        object.__setattr__(self, "options", checked)  # frozen; text becomes what it stands for

    def build(self, *, num_classes: int, shape: Sequence[int]) -> Network:
        """A network with fresh weights, or pretrained ones where the options ask for them.

        Args:
            num_classes: Number of logits.
            shape: Shape of one input, such as (3, 28, 28).
        """
        factory, owner = _factory(self.name), f"network {self.name!r}"
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
            raise CrossbiasError(f"{owner} takes images, but the inputs are vectors; use 'mlp'")
        model = factory(**validated(factory, fitting | dict(self.options), owner))
        return as_network(model, shape=shape)


def create_network(name: str, **options: Any) -> Network:
    """A network by name: one of ``NETWORKS``, any timm model, or ``my_package.module:function``."""
    factory, owner = _factory(name), f"network {name!r}"
    values = validated(factory, options, owner)
    missing = [
        parameter.name
        for parameter in parameters_of(factory).values()
        if parameter.default is parameter.empty and parameter.name not in values
    ]
    if missing:
        raise CrossbiasError(f"{owner} needs {', '.join(missing)}; pass it by keyword")
    return as_network(factory(**values))


def is_network(name: str) -> bool:
    """Whether a network of that name is known, here or in timm."""
    import timm

    return name in NETWORKS or bool(timm.is_model(name))


def _factory(name: str) -> Callable[..., nn.Module]:
    if ":" in name:
        factory: Callable[..., nn.Module] = imported(name)
        return factory
    if name in NETWORKS:
        return NETWORKS[name]
    if is_network(name):
        return _timm_factory(name)
    import timm

    raise CrossbiasError(
        f"there is no network {name!r}{closest(name, [*NETWORKS, *timm.list_models()])}; "
        f"there are: {', '.join(NETWORKS)}, and every classifier of timm, such as resnet18"
    )


def _timm_factory(name: str) -> Callable[..., nn.Module]:
    import timm

    def build(*, num_classes: Count, in_channels: Count = 3, pretrained: bool = False) -> nn.Module:
        try:
            model: nn.Module = timm.create_model(
                name, num_classes=num_classes, in_chans=in_channels, pretrained=pretrained
            )
        except Exception as error:
            if not pretrained:
                raise
            reason, *_ = str(error).strip().splitlines() or [type(error).__name__]
            raise CrossbiasError(
                f"the pretrained weights of {name!r} could not be loaded ({reason}); "
                f"fetch them once where there is a network connection, or use pretrained=false"
            ) from error
        return model

    return build
