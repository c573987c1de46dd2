"""OutsideModel: a classifier that somebody else trained, as a network that can be judged."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from crossbias.errors import CrossbiasError
from crossbias.networks.network import Network, Normalization
from crossbias.networks.split import as_network
from crossbias.networks.trace import device_of, first_line
from crossbias.types import Output

Answered = Literal["logits", "probabilities"]
"""What a model gives for each class."""

_SUM = 5e-3  # how far the probabilities of a sample may be from 1: half precision, many classes


class OutsideModel(nn.Module):
    """Any callable on a batch of images that gives logits or probabilities.

    The callable gets a ``(B, C, H, W)`` float tensor, normalized as was chosen for the model. It
    returns an array or a tensor ``(B, classes)``; with two classes also ``(B,)`` or ``(B, 1)``,
    which is about the second class. It may return features ``(B, D)`` as well: as a pair, or as
    ``logits`` and ``features`` of an object or of a dictionary.

    Args:
        model: The callable.
        name: What messages call it.
        classes: Names of the classes, in the order of its outputs; None where nobody says.
        answered: Whether it gives logits or probabilities. If left out, the first batch tells.
        normalization: Mean and deviation that images in [0, 1] are normalized with; None where
            nobody says.
        shape: Shape of one input, None for a size that it leaves open; None where nobody says.
        reading: Options with which image files become its images, where it says so.

    >>> model = OutsideModel(lambda images: images.flatten(1)[:, :2], name="first pixels")
    >>> model(torch.tensor([[[[3.0, 1.0]]]]))
    tensor([[3., 1.]])
    """

    def __init__(
        self,
        model: Callable[[Tensor], Any],
        *,
        name: str = "the model",
        classes: Sequence[str] | None = None,
        answered: Answered | None = None,
        normalization: Normalization | None = None,
        shape: Sequence[int | None] | None = None,
        reading: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.model = model  # a torch model becomes a part of this one, with its device and mode
        self.name = name
        self.classes = None if classes is None else tuple(classes)
        self.answered = answered
        self.normalization = normalization
        self.shape = None if shape is None else tuple(shape)
        self.reading = dict(reading or {})

    def forward(self, inputs: Tensor) -> Tensor | Output:
        """Logits of a batch, with features where the model gives them."""
        self._check_shape(inputs)
        scores, features = _parts(self._called(inputs))
        logits = self._logits(_tensor(scores, self.name), len(inputs))
        if features is None:
            return logits
        found = _tensor(features, self.name)
        if found.ndim != 2 or len(found) != len(inputs):
            return logits  # maps or sequences: which numbers describe the image is not known
        return Output(logits, found, None)

    def _called(self, inputs: Tensor) -> Any:
        try:
            return self.model(inputs)
        except CrossbiasError:
            raise
        except Exception as error:  # a stranger's model may raise anything
            raise CrossbiasError(
                f"{self.name} fails on a batch of {_written(inputs.shape)} "
                f"({type(error).__name__}: {first_line(error)}); check what it takes"
            ) from error

    def _check_shape(self, inputs: Tensor) -> None:
        """Refuse inputs of another size or number of channels than the model takes."""
        given, taken = tuple(inputs.shape[1:]), self.shape
        if taken is None or fits(given, taken):
            return
        raise CrossbiasError(
            f"{self.name} takes inputs of {_written(taken)}, but the data has {_written(given)}; "
            f"{_remedy(given, taken)}"
        )

    def _logits(self, scores: Tensor, samples: int) -> Tensor:
        """What the model gives as logits, (B, classes)."""
        if scores.ndim == 1 or scores.shape[1:] == (1,):
            scores = self._both(scores.reshape(-1))
        if scores.ndim != 2 or len(scores) != samples:
            raise CrossbiasError(
                f"{self.name} gives {_written(scores.shape)} for a batch of {samples}; it must "
                f"give one number for each sample and class"
            )
        if self.classes is not None and scores.shape[1] != len(self.classes):
            raise CrossbiasError(
                f"{self.name} gives {scores.shape[1]} numbers for each sample, but "
                f"{len(self.classes)} classes are named ({', '.join(self.classes)}); name one "
                f"class for each output, in their order"
            )
        if bool(bad := int((~scores.isfinite()).any(1).sum())):
            raise CrossbiasError(
                f"{self.name} gives values that are not finite for {bad} of {samples} samples; "
                f"check how its images are normalized, and its weights"
            )
        self.answered = self.answered or self._seen(scores)
        if self.answered == "logits":
            return scores
        self._check_probabilities(scores)
        return scores.log()  # whose soft-max are the probabilities again

    def _both(self, second: Tensor) -> Tensor:
        """Two columns from one number about the second of two classes."""
        if self.answered is None:
            raise CrossbiasError(
                f"{self.name} gives one number for each sample; say whether it is a logit or a "
                f"probability of the second class: --outputs logits or --outputs probabilities "
                f"(in Python: outputs=)"
            )
        first = 1 - second if self.answered == "probabilities" else torch.zeros_like(second)
        return torch.stack([first, second], 1)

    def _seen(self, scores: Tensor) -> Answered:
        """Probabilities if all rows can be that, logits if none of them looks like it."""
        if are_probabilities(scores):
            return "probabilities"
        if bool(((scores >= 0) & (scores <= 1)).all()):
            raise CrossbiasError(
                f"{self.name} gives numbers from 0 to 1 that do not sum to 1; if they are logits, "
                f"say --outputs logits (in Python: outputs='logits'); if they are independent "
                f"probabilities, make them exclusive first"
            )
        return "logits"

    def _check_probabilities(self, scores: Tensor) -> None:
        if are_probabilities(scores):
            return
        low, sums = float(scores.min()), scores.sum(1)
        worst = float(sums[(sums - 1).abs().argmax()])
        what = f"a negative one, {low:.4g}" if low < 0 else f"a row that sums to {worst:.4g}"
        raise CrossbiasError(
            f"{self.name} is taken to give probabilities, but gives {what}; if it gives logits, "
            f"say --outputs logits (in Python: outputs='logits')"
        )


def as_module(model: nn.Module | Callable[[Tensor], Any]) -> nn.Module:
    """A torch model as it is, any other callable as an ``OutsideModel``."""
    if isinstance(model, nn.Module):
        return model
    if not callable(model):
        raise CrossbiasError(
            f"a model is a torch model or a callable on a batch of images, got a "
            f"{type(model).__name__}; pass crossbias.load_model(file) for a file"
        )
    return OutsideModel(model, name=getattr(model, "__name__", type(model).__name__))


def with_features(model: nn.Module, shape: Sequence[int]) -> nn.Module:
    """The model split before its last linear layer, so that it gives features; or as it is.

    Args:
        model: Any torch model; one that gives features already stays as it is.
        shape: Shape of one input.
    """
    inner = model.model if isinstance(model, OutsideModel) else model
    if not isinstance(inner, nn.Module) or isinstance(inner, Network):
        return model
    try:
        split = as_network(inner, shape=shape).to(device_of(inner))
    except CrossbiasError:  # what it cannot be tested for is said in the findings
        return model
    if not isinstance(model, OutsideModel):
        return split
    return OutsideModel(
        split, name=model.name, classes=model.classes, answered="logits",
        normalization=model.normalization, shape=model.shape, reading=model.reading,
    )  # fmt: skip


def fits(given: Sequence[int], taken: Sequence[int | None]) -> bool:
    """Whether inputs of a shape are what a model takes; None is a size that it leaves open.

    >>> fits((3, 64, 64), (3, None, None)), fits((1, 64, 64), (3, None, None))
    (True, False)
    """
    return len(given) == len(taken) and all(
        wanted in (None, size) for size, wanted in zip(given, taken, strict=True)
    )


def _remedy(given: Sequence[int], taken: Sequence[int | None]) -> str:
    """How to load images as a model takes them."""
    if len(given) != len(taken) or len(taken) != 3:
        return "give it data of that shape"
    wanted = []
    if taken[0] not in (None, given[0]):
        wanted.append(f"channels={taken[0]}")
    if taken[1] == taken[2] and taken[1] is not None and (taken[1], taken[2]) != tuple(given[1:]):
        wanted.append(f"size={taken[1]}")
    if not wanted:
        return "give it images of that size"
    settings = " ".join(f"--set {setting}" for setting in wanted)
    return f"read images of a folder with {settings} (in Python: {', '.join(wanted)})"


def _parts(found: Any) -> tuple[Any, Any]:
    """Scores and features, in whatever the model put them."""
    if isinstance(found, Mapping):
        named = [found[name] for name in ("logits", "probabilities") if name in found]
        return (named[0] if named else found), found.get("features")
    if hasattr(found, "logits"):  # ours, and those of Hugging Face's transformers
        return found.logits, getattr(found, "features", None)
    if isinstance(found, tuple) and len(found) == 2:
        return found[0], found[1]
    return found, None


def _tensor(found: Any, name: str) -> Tensor:
    """A result as a float tensor; arrays of any library become one."""
    if isinstance(found, Tensor):
        return found.detach().float()
    array = np.asarray(found)
    if array.dtype.kind not in "fiu":
        raise CrossbiasError(
            f"{name} gives a {type(found).__name__}; it must give an array or a tensor of logits "
            f"or probabilities, or a pair of these and features"
        )
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


def are_probabilities(scores: Tensor) -> bool:
    """Whether every row can be the probabilities of exclusive classes.

    >>> are_probabilities(torch.tensor([[0.25, 0.75]])), are_probabilities(torch.tensor([[2, -1]]))
    (True, False)
    """
    return _off(scores) <= _SUM


def _off(scores: Tensor) -> float:
    """How far the rows are from probabilities; infinity if one is negative."""
    if bool((scores < 0).any()):
        return float("inf")
    return float((scores.sum(1) - 1).abs().max())


def _written(shape: Sequence[int | None]) -> str:
    """A shape in words.

    >>> _written((3, None, 64))
    '3 x any x 64'
    """
    return " x ".join("any" if size is None else str(size) for size in shape)
