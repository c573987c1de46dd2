"""Bodies made of someone else's model: its features, and the maps that it pools into them."""

from typing import Literal, NamedTuple

from torch import Tensor, nn

from crossbias.networks.trace import Call, Trace, equal


class MapsPlace(NamedTuple):
    """Where a model has the maps that it pools."""

    layer: str
    at: Literal["input", "output", "rectified output"]


def maps_place(found: Trace, head: Call) -> MapsPlace | None:
    """Maps whose average the head sees, or else what the last pooling layer is given."""
    last = {call.layer: call for call in found.calls}  # a layer may be called several times
    spatial = [call for call in found.calls if last[call.layer] is call and _is_maps(call.output)]
    # Where one contains the other, or an average follows: the largest, and of those the last.
    spatial.sort(key=lambda call: call.output[0, 0].numel())
    for call in reversed(spatial):
        if equal(call.output.flatten(2).mean(2), head.given):
            return MapsPlace(call.layer, "output")
        if equal(call.output.relu().flatten(2).mean(2), head.given):
            return MapsPlace(call.layer, "rectified output")
    for number, call in reversed(list(enumerate(found.calls))):
        later = [other.output for other in found.calls[number:] if _is_maps(other.output)]
        if is_global_pool(call.module) and all(maps[0, 0].numel() == 1 for maps in later):
            return MapsPlace(call.layer, "input")
    return None


class TimmBody(nn.Module):
    """Feature maps and pooled features through timm's own two calls."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.channels_last = getattr(model, "output_fmt", "NCHW") == "NHWC"

    def forward(self, inputs: Tensor) -> tuple[Tensor | None, Tensor]:
        """Maps, and features."""
        found = self.model.forward_features(inputs)  # type: ignore[operator]
        maps = found if found.ndim == 4 else None  # tokens of a transformer are not maps
        if maps is not None and self.channels_last:
            maps = found.permute(0, 3, 1, 2)
            found = maps.permute(0, 2, 3, 1)  # the features come of the maps, for their gradient
        features = self.model.forward_head(found, pre_logits=True)  # type: ignore[operator]
        return maps, features


class HookedBody(nn.Module):
    """Features of a model without its head, and the maps it pools, if their place is known."""

    def __init__(self, model: nn.Module, place: MapsPlace | None) -> None:
        super().__init__()
        self.model = model
        self.place = place

    def forward(self, inputs: Tensor) -> tuple[Tensor | None, Tensor]:
        """Maps, and features."""
        if self.place is None:
            return None, self.model(inputs)
        layer, seen = self.model.get_submodule(self.place.layer), list[Tensor]()
        # The model rectifies them once more, which changes nothing.
        rectified = self.place.at == "rectified output"

        def keep(_layer: nn.Module, _given: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
            seen.append(output.relu() if rectified else output)
            return seen[-1] if rectified else None

        if self.place.at == "input":
            hook = layer.register_forward_pre_hook(lambda _layer, given: seen.extend(given))
        else:
            hook = layer.register_forward_hook(keep)
        with hook:
            features = self.model(inputs)
        return seen[-1], features


def _is_maps(output: object) -> bool:
    return isinstance(output, Tensor) and output.ndim in (4, 5) and output.numel() > 0


def is_global_pool(module: nn.Module) -> bool:
    """Whether a layer averages maps over all of space."""
    return isinstance(module, nn.AdaptiveAvgPool2d) and module.output_size in (1, (1, 1))
