"""Models of timm by name, with timm's own options."""

import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from torch import nn

from crossbias.errors import CrossbiasError
from crossbias.networks.trace import first_line
from crossbias.networks.weights import hub_if_reachable
from crossbias.parameters import Count, parameters_of, unknown


def timm_builder(name: str) -> Callable[..., nn.Module]:
    """A function that builds a model of timm; its keywords are the options of the network."""
    import timm

    def build(
        *, num_classes: Count, in_channels: Count = 3, pretrained: bool = False, **options: Any
    ) -> nn.Module:
        given: dict[str, Any] = {"num_classes": num_classes, "in_chans": in_channels, **options}
        try:
            with hub_if_reachable() if pretrained else nullcontext():
                model: nn.Module = timm.create_model(name, pretrained=pretrained, **given)
        except Exception as error:
            raise _not_built(name, error, pretrained, options) from error
        return model

    return build


def _not_built(
    name: str, error: Exception, pretrained: bool, options: Mapping[str, Any]
) -> Exception:
    """What to say about a model of timm that could not be made."""
    strange = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if strange and strange[1] in options:
        known = [key for key in _options_of(name) if key not in ("num_classes", "in_chans")]
        listing = "beside pretrained and weights, its parameters are"
        return unknown(f"network {name!r} has no parameter", strange[1], known, listing)
    if pretrained:
        return CrossbiasError(
            f"the pretrained weights of {name!r} could not be loaded ({first_line(error)}); pass "
            f"a file of weights (--set network.weights=FILE), fetch them once where there is a "
            f"network connection, or use pretrained=false"
        )
    if options:
        return CrossbiasError(
            f"network {name!r} cannot be built with {written(options)} ({first_line(error)}); "
            f"change these options or leave them out"
        )
    return error


def written(options: Mapping[str, Any]) -> str:
    """Options as one types them, for error messages."""
    return ", ".join(f"{key}={value}" for key, value in options.items()) or "no options"


def _options_of(name: str) -> list[str]:
    import timm

    return list(parameters_of(type(timm.create_model(name))))
