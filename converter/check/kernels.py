"""Which int8 layers of an ONNX file ONNX Runtime really computes in int8.

A quantized layer is a float operator between DequantizeLinear and QuantizeLinear. ONNX Runtime's
optimizer puts an int8 kernel in the place of such a group where it has one (its
``graph_transformer_utils.cc``); elsewhere it converts to float32, computes, and converts back,
which is slower than float32 alone.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import onnx

from converter.ir.facts import MATRIX_PRODUCTS
from converter.runtime.ort import optimized

_BORDERS = ("QuantizeLinear", "DequantizeLinear")
INT8 = ("QLinearConv", "QLinearMatMul", "QGemm", "MatMulIntegerToFloat", "ConvInteger")


@dataclass(frozen=True)
class Kernels:
    """How the quantized layers of a file run.

    Attributes:
        fused: Layers with an int8 kernel.
        in_float: By operator, layers whose inputs are int8 in the file and that compute in float32.
        borders: QuantizeLinear and DequantizeLinear that run: between integers and floats.
    """

    fused: int
    in_float: dict[str, int]
    borders: int


def kernels_of(path: Path) -> Kernels:
    """What ONNX Runtime's optimizer makes of the quantized layers of a file, on the CPU.

    Raises:
        ModelError: It refuses the file.
    """
    with tempfile.TemporaryDirectory(prefix="modelyard-") as folder:
        made = Path(folder) / "optimized.onnx"
        optimized(path, made)
        graph = onnx.load(made, load_external_data=False).graph
    widened = {
        name for node in graph.node if node.op_type == "DequantizeLinear" for name in node.output
    }
    names = [  # whatever domain and prefix they have
        node.op_type.removeprefix("Fused")
        for node in graph.node
        if widened.intersection(node.input)
    ]
    in_float = Counter(name for name in names if name in MATRIX_PRODUCTS)
    fused = sum(node.op_type in INT8 for node in graph.node)
    stored = {tensor.name for tensor in graph.initializer}
    borders = sum(node.op_type in _BORDERS and node.input[0] not in stored for node in graph.node)
    return Kernels(fused, dict(sorted(in_float.items())), borders)
