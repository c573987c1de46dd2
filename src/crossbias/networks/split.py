"""as_network: split someone else's classifier into body and head."""

import copy

from torch import Tensor, nn

from crossbias.errors import CrossbiasError
from crossbias.networks.network import Network


def as_network(model: nn.Module) -> Network:
    """Split a timm or torchvision classifier, or a Sequential ending in a Linear.

    The model is copied and stays as it was.

    Args:
        model: The classifier. A ``Network`` is returned unchanged.

    Raises:
        CrossbiasError: The model is of another kind; the message says what to pass by hand.

    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    ...                       nn.Linear(8, 10))
    >>> as_network(model).num_features
    8
    """
    if isinstance(model, Network):
        return model
    model = copy.deepcopy(model)
    if isinstance(model, nn.Sequential) and len(model) > 1 and isinstance(model[-1], nn.Linear):
        return _split_sequential(model)
    if all(hasattr(model, name) for name in ("forward_features", "forward_head", "get_classifier")):
        return _split_timm(model)
    if type(model).forward.__module__.startswith("torchvision.models."):
        return _split_torchvision(model)
    raise _by_hand(model, "it is neither a timm nor a torchvision classifier nor a Sequential")


def _split_sequential(model: nn.Sequential) -> Network:
    """Pooling followed by flattening is left to Network, which keeps the maps."""
    layers, head = list(model[:-1]), model[-1]
    if len(layers) > 2 and _is_global_pool(layers[-2]) and isinstance(layers[-1], nn.Flatten):
        layers = layers[:-2]
    assert isinstance(head, nn.Linear)
    return Network(nn.Sequential(*layers), head)


def _split_timm(model: nn.Module) -> Network:
    classifier = model.get_classifier()  # type: ignore[operator]
    if not isinstance(classifier, nn.Linear):
        raise _by_hand(model, "its classifier is not one linear layer")
    return Network(_TimmBody(_without(model, classifier)), classifier)


def _split_torchvision(model: nn.Module) -> Network:
    """The last linear layer is the head; a global pooling module tells where the maps are."""
    if getattr(model, "aux_logits", False):
        raise _by_hand(model, "it has auxiliary classifiers (build it with aux_logits=False)")
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise _by_hand(model, "it has no linear layer")
    return Network(_TorchvisionBody(_without(model, linear[-1])), linear[-1])


def _without(model: nn.Module, classifier: nn.Linear) -> nn.Module:
    """Put an identity in the classifier's place, so that the model ends in features."""
    name = next(name for name, module in model.named_modules() if module is classifier)
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, nn.Identity())
    return model


class _TimmBody(nn.Module):
    """Feature maps and pooled features through timm's own two calls."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.channels_last = getattr(model, "output_fmt", "NCHW") == "NHWC"

    def forward(self, inputs: Tensor) -> tuple[Tensor | None, Tensor]:
        found = self.model.forward_features(inputs)  # type: ignore[operator]
        maps = found if found.ndim == 4 else None  # tokens of a transformer are not maps
        if maps is not None and self.channels_last:
            maps = found.permute(0, 3, 1, 2)
            found = maps.permute(0, 2, 3, 1)  # the features come of the maps, for their gradient
        features = self.model.forward_head(found, pre_logits=True)  # type: ignore[operator]
        return maps, features


class _TorchvisionBody(nn.Module):
    """Features of a torchvision model without its classifier, and the maps it pooled."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        # Squeeze-and-excitation blocks pool too; the classifier's pooling comes last.
        self.pools = [name for name, module in model.named_modules() if _is_global_pool(module)]

    def forward(self, inputs: Tensor) -> tuple[Tensor | None, Tensor]:
        if not self.pools:
            return None, self.model(inputs)
        pool, seen = self.model.get_submodule(self.pools[-1]), list[Tensor]()
        with pool.register_forward_pre_hook(lambda _pool, given: seen.extend(given)):
            features = self.model(inputs)
        return seen[0], features


def _is_global_pool(module: nn.Module) -> bool:
    return isinstance(module, nn.AdaptiveAvgPool2d) and module.output_size in (1, (1, 1))


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
