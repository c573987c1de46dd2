"""Heads of models that somebody else draws, for few classes."""

import math

from torch import nn

# A layer of torch is 1 / sqrt(3 features) wide. Published heads of 1,000 classes are up to four
# times as wide; those that this is about, 25 times.
_WIDEST = 4


def narrow_head(model: nn.Module, num_classes: int) -> None:
    """Draw a new head again, as torch does by default, if its logits would start far apart.

    EfficientNets of timm and torchvision draw their head 1 / sqrt(3 classes) wide. With 1,000
    classes that is what torch does. With two classes and 1,280 features, logits start at around
    10, and fine-tuning takes its first hundreds of steps to forget them.

    Args:
        model: A model whose head is not trained yet; its head may be changed in place.
        num_classes: Number of logits.
    """
    heads = [
        module for module in model.modules()
        if isinstance(module, nn.Linear) and module.out_features == num_classes
    ]  # fmt: skip
    if not heads:
        return
    head = heads[-1]
    width = float(head.weight.detach().square().mean().sqrt())
    if width > _WIDEST / math.sqrt(3 * head.in_features):
        head.reset_parameters()
