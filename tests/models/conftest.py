"""Small ONNX files with known weights, written by hand."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

WEIGHTS = np.array([[4, -3], [-5, 2], [1, 1]], dtype=np.float32)  # (channels, classes)


def answers(images: np.ndarray) -> np.ndarray:
    """What the files compute, as NumPy does: channel means of (n, 3, H, W) times the weights."""
    return images.mean((2, 3)) @ WEIGHTS


@pytest.fixture
def onnx_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a file that averages each channel and multiplies by ``WEIGHTS``."""

    def write(
        shape: Sequence[object] = ("batch", 3, 4, 4),
        *,
        kind: str = "FLOAT",
        softmax: bool = False,
        features: bool = False,
        channels_last: bool = False,
        name: str = "model.onnx",
        metadata: dict[str, str] | None = None,
    ) -> Path:
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        axes = [1, 2] if channels_last else [2, 3]
        channels = int(str(shape[3 if channels_last else 1]))
        constants = [
            numpy_helper.from_array(WEIGHTS[:channels], "weights"),
            numpy_helper.from_array(np.array(axes, dtype=np.int64), "axes"),
        ]
        nodes = [
            helper.make_node("Cast", ["images"], ["floats"], to=TensorProto.FLOAT),
            helper.make_node("ReduceMean", ["floats", "axes"], ["features"], keepdims=0),
            helper.make_node("MatMul", ["features", "weights"], ["scores"]),
            helper.make_node("Softmax" if softmax else "Identity", ["scores"], ["answers"]),
        ]
        outputs = [helper.make_tensor_value_info("answers", TensorProto.FLOAT, [shape[0], 2])]
        if features:
            table = helper.make_tensor_value_info("features", TensorProto.FLOAT, [shape[0], 3])
            outputs.append(table)
        taken = helper.make_tensor_value_info("images", getattr(TensorProto, kind), list(shape))
        graph = helper.make_graph(nodes, "classifier", [taken], outputs, constants)
        opsets = [helper.make_opsetid("", 18)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        helper.set_model_props(model, metadata or {})
        onnx.checker.check_model(model)
        path = tmp_path / name
        onnx.save(model, path)
        return path

    return write
