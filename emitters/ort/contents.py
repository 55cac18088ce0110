"""What a file's operators compute in, by the types of what they take, and their multiply-adds.

Shapes are the file's own, with its named dimensions at given sizes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir

from converter.files.reading import reading
from converter.ir.contents import DYNAMIC, Contents, Product
from converter.ir.model import BATCH, dtype_name
from emitters.ort.flatbuffer import graphs, nodes, session_of

Shape = tuple[int, ...]
_Macs = Callable[[Shape, Shape, Shape, Mapping[str, int]], int | None]
"""Of the first factor, the second, the result, and the integer attributes."""

_EIGHT = ("int8", "uint8")


@dataclass(frozen=True)
class _Kind:
    """An operator that multiplies: where its second factor is, and its multiply-adds."""

    macs: _Macs
    weights: int = 1


def _each_output(x: Shape, w: Shape, y: Shape, told: Mapping[str, int]) -> int:
    return math.prod(y) * math.prod(w[1:])


def _each_input(x: Shape, w: Shape, y: Shape, told: Mapping[str, int]) -> int:
    return math.prod(x) * math.prod(w[1:])


def _matmul(x: Shape, w: Shape, y: Shape, told: Mapping[str, int]) -> int:
    return math.prod(y) * x[-2 if told.get("transA") else -1]


def _recurrent(x: Shape, w: Shape, y: Shape, told: Mapping[str, int]) -> int:
    hidden, gates = told["hidden_size"], math.prod(w[1:]) // x[2]
    return x[0] * x[1] * w[0] * gates * (x[2] + hidden)


def _attention(x: Shape, w: Shape, y: Shape, told: Mapping[str, int]) -> int:
    return math.prod(x) * w[-1] + 2 * math.prod(x[:2]) * x[1] * w[-1] // 3


_KINDS = {
    **dict.fromkeys(("Conv", "FusedConv", "NhwcFusedConv", "ConvInteger"), _Kind(_each_output)),
    "QLinearConv": _Kind(_each_output, 3),
    "ConvTranspose": _Kind(_each_input),
    **dict.fromkeys(
        ("MatMul", "FusedMatMul", "MatMulInteger", "MatMulIntegerToFloat"), _Kind(_matmul)
    ),
    **dict.fromkeys(("DynamicQuantizeMatMul", "MatMulNBits", "Gemm", "FusedGemm"), _Kind(_matmul)),
    **dict.fromkeys(("QLinearMatMul", "QGemm"), _Kind(_matmul, 3)),
    **dict.fromkeys(("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM"), _Kind(_recurrent)),
    "Einsum": _Kind(lambda x, w, y, told: None),
    **dict.fromkeys(("Attention", "QAttention"), _Kind(_attention)),
}


def contents_of(path: Path, sizes: Mapping[str, int]) -> Contents:
    """What a file holds; see :meth:`converter.protocols.emitter.Emitter.contents`.

    Raises:
        ModelError: It is damaged.
    """
    stored: Counter[str] = Counter()
    products = []
    at = {BATCH: 1, **sizes}
    with reading(path.name):
        for graph, types in graphs(session_of(path).Model().Graph(), {}):
            for index in range(graph.InitializersLength()):
                tensor = graph.Initializers(index)
                stored[_dtype(tensor.DataType())] += tensor.RawDataLength()
            rounded = {
                node.Outputs(0) for node in nodes(graph) if _op(node) == "DynamicQuantizeLinear"
            }
            products += [
                Product(
                    _text(node.Name()),
                    _op(node),
                    _computes(node, types, rounded),
                    _count(node, types, at),
                )
                for node in nodes(graph)
                if _op(node) in _KINDS
            ]
    return Contents(path.name, products, dict(stored))


def _op(node: Any) -> str:
    return _text(node.OpType())


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def _dtype(number: int) -> str:
    return dtype_name(onnx_ir.DataType(number))


def _computes(node: Any, types: Mapping[bytes, Any], rounded: set[bytes]) -> str:
    kind = _KINDS[_op(node)]
    x, weights = (_tensor(types[node.Inputs(place)]) for place in (0, kind.weights))
    dtype, factor = (_dtype(each.ElemType()) for each in (x, weights))
    if factor in _EIGHT and (node.Inputs(0) in rounded or _op(node).startswith("DynamicQuantize")):
        return DYNAMIC
    return "int8" if dtype in _EIGHT and factor in _EIGHT else dtype


def _count(node: Any, types: Mapping[bytes, Any], sizes: Mapping[str, int]) -> int | None:
    """None where a shape isn't in the file."""
    kind = _KINDS[_op(node)]
    values = (node.Inputs(0), node.Inputs(kind.weights), node.Outputs(0))
    shapes = [_shape(types[value], sizes) for value in values]
    told = {}
    for index in range(node.AttributesLength()):
        attribute = node.Attributes(index)
        told[_text(attribute.Name())] = attribute.I()
    known = [shape for shape in shapes if shape is not None]
    return kind.macs(known[0], known[1], known[2], told) if len(known) == len(shapes) else None


def _tensor(info: Any) -> Any:
    from ort_flatbuffers_py.fbs.TensorTypeAndShape import TensorTypeAndShape

    found = TensorTypeAndShape()
    found.Init(info.Value().Bytes, info.Value().Pos)
    return found


def _shape(info: Any, sizes: Mapping[str, int]) -> Shape | None:
    shape = _tensor(info).Shape()
    if shape is None:
        return None
    dims = []
    for index in range(shape.DimLength()):
        value = shape.Dim(index).Value()
        name = _text(value.DimParam())
        size = sizes.get(name) if name else value.DimValue()
        if not size:
            return None
        dims.append(size)
    return tuple(dims)


def told(path: Path) -> Mapping[str, Any]:
    """What is in a file, for people and as JSON.

    Raises:
        ModelError: It is damaged.
    """
    with reading(path.name):
        session = session_of(path)
        counted: Counter[str] = Counter()
        for graph, _ in graphs(session.Model().Graph(), {}):
            counted.update(_op(node) for node in nodes(graph))
    return {
        "format": f"ONNX Runtime's .ort, version {_text(session.OrtVersion())}",
        "bytes": path.stat().st_size,
        "operators": dict(counted.most_common()),
        "stored": dict(contents_of(path, {}).stored),
    }
