"""Small ONNX files with known weights, written by hand."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

WEIGHTS = np.array([[4, -3], [-5, 2], [1, 1]], dtype=np.float32)  # (channels, classes)


def answers(images: np.ndarray) -> np.ndarray:
    """What the files compute, as NumPy does: channel means of (n, 3, H, W) times the weights."""
    return images.mean((2, 3)) @ WEIGHTS


def write_onnx(
    path: Path,
    shape: Sequence[object],
    *,
    kind: str,
    softmax: bool,
    features: bool,
    channels_last: bool,
    metadata: dict[str, str],
) -> None:
    """Write a file that averages each channel and multiplies by ``WEIGHTS``."""
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
        table = helper.make_tensor_value_info("features", TensorProto.FLOAT, [shape[0], channels])
        outputs.append(table)
    taken = helper.make_tensor_value_info("images", getattr(TensorProto, kind), list(shape))
    graph = helper.make_graph(nodes, "classifier", [taken], outputs, constants)
    opsets = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    helper.set_model_props(model, metadata)
    onnx.checker.check_model(model)
    onnx.save(model, path)
