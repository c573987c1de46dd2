"""OnnxModel: a classifier in an ONNX file, run by ONNX Runtime on the CPU."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.extras import check_installed
from crossbias.models.onnx_metadata import OnnxMetadata
from crossbias.networks.trace import first_line

_TYPES: Final[dict[str, type[np.generic]]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
}
_CHANNELS: Final = (1, 3)  # of images: gray, or red, green and blue
_SCORES: Final = ("logits", "probabilities")  # names of outputs that tell what they are
_FEATURES: Final = ("features", "embeddings", "embedding")


@dataclass(frozen=True)
class OnnxInput:
    """The one input of a file.

    Args:
        name: Its name.
        kind: The type of its numbers.
        batch: How many samples it takes at once; None for any number.
        shape: Shape of one sample with its channels first, None for a size that is left open.
        channels_last: Whether the file has the channels last, as TensorFlow has.
    """

    name: str
    kind: type[np.generic]
    batch: int | None
    shape: tuple[int | None, ...]
    channels_last: bool

    @classmethod
    def of(cls, found: Any, path: Path) -> "OnnxInput":
        """What ONNX Runtime says about the input of a file."""
        sizes = tuple(size if isinstance(size, int) and size > 0 else None for size in found.shape)
        if found.type not in _TYPES or len(sizes) not in (2, 4, 5):
            raise CrossbiasError(
                f"{path} takes {found.type} of {len(sizes)} dimensions as its input "
                f"{found.name!r}; it must take images (batch, channels, height, width), clips or "
                f"vectors, as floating-point numbers or bytes"
            )
        batch, *rest = sizes
        last = len(rest) == 3 and rest[2] in _CHANNELS and rest[0] not in _CHANNELS
        shape = (rest[2], *rest[:2]) if last else tuple(rest)
        return cls(found.name, _TYPES[found.type], batch, shape, last)

    @property
    def takes_bytes(self) -> bool:
        """Whether it takes pixels from 0 to 255 as they are in a file."""
        return self.kind is np.uint8

    def array(self, inputs: Tensor) -> NDArray[Any]:
        """A batch as the file takes it."""
        found = inputs.detach().cpu()
        if self.channels_last:
            found = found.movedim(1, -1)
        if self.takes_bytes:
            found = found.mul(255).round().clamp(0, 255)
        return np.ascontiguousarray(found.numpy().astype(self.kind))


class OnnxModel:
    """A file and how to run it; called with a batch, it gives scores, and features if it has any.

    Args:
        path: The file.
        content: What it will hold, where it is not written yet.

    Attributes:
        input: What it takes.
        scores: The name of the output with logits or probabilities.
        features: The name of the output with features, if there is one.
        metadata: What crossbias wrote into the file, if crossbias did.
    """

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        self.path = path
        self._session = _session(path, content)
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if len(inputs) != 1:
            names = ", ".join(each.name for each in inputs) or "none"
            raise CrossbiasError(
                f"{path} has {len(inputs)} inputs ({names}); a classifier of images has one"
            )
        self.input = OnnxInput.of(inputs[0], path)
        properties = self._session.get_modelmeta().custom_metadata_map
        self.metadata = OnnxMetadata.from_properties(properties, str(path))
        self.scores = _scores(outputs, path)
        self.features = _features(outputs, self.scores)

    def __call__(self, inputs: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Scores of a batch, and its features if the file gives them."""
        names = [self.scores, *([self.features] if self.features else [])]
        array, size = self.input.array(inputs), self.input.batch or len(inputs)
        parts = [self._run(names, array[at : at + size]) for at in range(0, len(array), size)]
        found = [torch.from_numpy(np.concatenate(each)) for each in zip(*parts, strict=True)]
        return (found[0], found[1]) if self.features else found[0]

    def _run(self, names: list[str], array: NDArray[Any]) -> list[NDArray[Any]]:
        """The outputs for some samples; copies of the last fill up a fixed number of them."""
        missing = (self.input.batch or len(array)) - len(array)
        filled = np.concatenate([array, np.repeat(array[-1:], missing, 0)]) if missing else array
        try:
            found = self._session.run(names, {self.input.name: filled})
        except Exception as error:  # ONNX Runtime has a class of its own for every failure
            raise CrossbiasError(
                f"ONNX Runtime cannot run {self.path} on inputs of {filled.shape} "
                f"({first_line(error)}); check the size of the images and the file"
            ) from error
        return [part[: len(array)] for part in found]


def _session(path: Path, content: bytes | None) -> Any:
    check_installed("onnxruntime", what=f"{path}", instead="pass a callable, my_module:load_model")
    import onnxruntime

    if content is None and not path.is_file():
        raise CrossbiasError(f"there is no file {path}; name an ONNX file that exists")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors come as exceptions, and warnings are about the file
    try:
        return onnxruntime.InferenceSession(
            content or path, sess_options=options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # each kind of damage has a class of its own
        raise CrossbiasError(
            f"ONNX Runtime cannot load {path} ({first_line(error)}); check that it is an ONNX "
            f"file, whole and with its external data beside it"
        ) from error


def _scores(outputs: Sequence[Any], path: Path) -> str:
    """The output with the answers: the one that is called so, or the first."""
    found = next((each for each in outputs if each.name in _SCORES), outputs[0])
    if found.type not in _TYPES or len(found.shape or (0,)) > 2:
        raise CrossbiasError(
            f"{path} gives {found.type} of {len(found.shape)} dimensions as {found.name!r}; it "
            f"must give logits or probabilities (batch, classes); of a converted scikit-learn "
            f"model, leave out ZipMap"
        )
    return str(found.name)


def _features(outputs: Sequence[Any], scores: str) -> str | None:
    """The output with features: the one that is called so, or the second of two tables."""
    tables = [
        each.name
        for each in outputs
        if each.name != scores and each.type in _TYPES and len(each.shape) == 2
    ]
    named = [name for name in tables if name in _FEATURES]
    return next(iter(named or (tables if len(tables) == 1 else [])), None)
