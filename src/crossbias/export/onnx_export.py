"""export_onnx: the model of a run as an ONNX file that normalizes its images itself."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from crossbias.errors import CrossbiasError
from crossbias.extras import check_installed
from crossbias.models.onnx_metadata import OnnxMetadata, Pixels
from crossbias.models.onnx_model import OnnxModel
from crossbias.networks import Network
from crossbias.networks.network import Normalization
from crossbias.networks.trace import first_line
from crossbias.report.training_data import data_title
from crossbias.runs.files import write_atomically
from crossbias.seeds import generator_for
from crossbias.train.record import normalization_of
from crossbias.trained_run import TrainedRun

_OPSET: Final = 18
_FIRST: Final = (2, 9)  # torch: its exporter by torch.export is the default from here on
_BATCH: Final = 2  # of the example: torch.export takes a batch of one for a fixed size
_TOLERANCE: Final = 1e-4  # of the largest number; rounding in float32 gives some 1e-6 of it


class Deployed(nn.Module):
    """A trained network with its normalization inside.

    Args:
        network: The network.
        pixels: What an input holds; None for vectors, which are not normalized.
        normalization: Mean and deviation of images in [0, 1].
        shape: Shape of one input.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        network: Network,
        *,
        pixels: Pixels | None,
        normalization: Normalization,
        shape: tuple[int, ...],
    ) -> None:
        super().__init__()
        self.network = network
        self.pixels = pixels
        by_channel = (1, -1, *(1 for _ in shape[1:]))
        mean, std = (torch.tensor(part).view(by_channel) for part in normalization)
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, classes) and features (B, D) of images as they come from a file."""
        if self.pixels is not None:
            images = images.float() / 255 if self.pixels == "uint8" else images
            images = (images - self.mean) / self.std
        output = self.network(images)
        return output.logits, output.features

    def example(self, shape: tuple[int, ...]) -> Tensor:
        """A batch of random inputs."""
        found = torch.rand(_BATCH, *shape, generator=generator_for(0, "export"))
        return (found * 255).to(torch.uint8) if self.pixels == "uint8" else found


def export_onnx(trained: TrainedRun, path: Path | str, *, pixels: Pixels = "float") -> OnnxMetadata:
    """Write the model of a run as an ONNX file, checked against torch.

    The file takes any number of images ``(batch, channels, height, width)`` and gives ``logits``
    and ``features``. It normalizes the images itself. Classes, size and normalization are in its
    metadata, which ``crossbias.load_model`` reads.

    Args:
        trained: The run, from ``crossbias.load_run``.
        path: The file, which ends in ``.onnx``.
        pixels: What the file takes: ``"float"``, numbers from 0 to 1, or ``"uint8"``, bytes.

    Returns:
        What the file says about itself.

    Raises:
        CrossbiasError: A package is missing, torch cannot export the network, or ONNX Runtime
            gives other numbers than torch.
    """
    path = Path(path)
    _check(path)
    metadata = _metadata(trained, pixels)
    model = Deployed(
        trained.network,
        pixels=metadata.pixels,
        normalization=normalization_of(trained.facts),
        shape=metadata.shape,
    ).eval()
    inputs = model.example(metadata.shape)
    content = _exported(model, inputs, metadata)
    _check_same(model, inputs, OnnxModel(path, content))
    write_atomically(path, lambda file: file.write(content))
    return metadata


def _check(path: Path) -> None:
    if path.suffix != ".onnx":
        raise CrossbiasError(f"an ONNX file ends in .onnx, got {path}; name it so")
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < _FIRST:
        raise CrossbiasError(
            f"exporting needs torch {'.'.join(map(str, _FIRST))} or newer, this is "
            f"{torch.__version__}; update torch: pip install -U torch"
        )
    for module in ("onnxscript", "onnxruntime"):
        check_installed(module, what="exporting an ONNX file")


def _metadata(trained: TrainedRun, pixels: Pixels) -> OnnxMetadata:
    facts, config = trained.facts, trained.config
    shape, crop = tuple(facts["shape"]), facts["pixels"]["crop"]
    images = len(shape) > 1
    return OnnxMetadata(
        classes=trained.classes,
        shape=(*shape[:-2], *(min(side, crop or side) for side in shape[-2:])) if images else shape,
        pixels=pixels if images else None,
        normalization=normalization_of(facts) if images else None,
        reading=_reading(config["data"]),
        origin={
            "crossbias": config["version"],
            "method": config["method"]["name"],
            "data": data_title(config["data"]["name"]),
            "training_data_sha256": config["data"]["hashes"].get("train"),
        },
    )


def _reading(data: Mapping[str, Any]) -> dict[str, Any]:
    """How a folder's files became pixels; nothing for data that was not read from a folder."""
    return {name: data[name] for name in ("fit", "depth") if data.get(name) is not None}


def _exported(model: Deployed, inputs: Tensor, metadata: OnnxMetadata) -> bytes:
    """The content of the file."""
    try:
        program: Any = torch.onnx.export(
            model,
            (inputs,),
            dynamo=True,
            verbose=False,
            opset_version=_OPSET,
            input_names=["images"],
            output_names=["logits", "features"],
            dynamic_shapes={"images": {0: torch.export.Dim("batch")}},
        )
        program.model.metadata_props.update(metadata.to_properties())
        content: bytes = program.model_proto.SerializeToString()
    except Exception as error:  # the exporter has many, and so do the networks of others
        raise CrossbiasError(
            f"torch {torch.__version__} cannot export this network to ONNX "
            f"({type(error).__name__}: {first_line(error)}); use crossbias.load_run in Python"
        ) from error
    return content


def _check_same(model: Deployed, inputs: Tensor, exported: OnnxModel) -> None:
    """Refuse a file that gives other numbers than the network."""
    with torch.no_grad():
        wanted = model(inputs)
    given = exported(inputs / 255 if model.pixels == "uint8" else inputs)
    for own, found in zip(wanted, given, strict=True):
        limit = _TOLERANCE * max(1.0, float(own.abs().max()))
        difference = float((own - found).abs().max())
        if not difference <= limit:  # NaN is not
            raise CrossbiasError(
                f"ONNX Runtime gives other numbers than torch for {exported.path} (they differ by "
                f"{difference:.2g}); nothing was written: use crossbias.load_run in Python"
            )
