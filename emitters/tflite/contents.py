"""What a file's operators compute in, by the types of the tensors that they take; how many
multiply-adds they have, by their shapes.

Shapes that hang on free dimensions aren't in the file: LiteRT is asked for them.
"""

from __future__ import annotations

import math
import mmap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from converter.errors import ModelyardError
from converter.ir.contents import DYNAMIC, Contents, Product
from converter.ir.model import BATCH
from converter.options.request import Request
from emitters.tflite.float16_constants import SMALLEST
from emitters.tflite.session import open_file
from modelyard.containers.tflite import unpack

Shape = tuple[int, ...]

_NAMES: dict[int, str] = {
    code: name for name, code in vars(schema.BuiltinOperator).items() if not name.startswith("_")
}
_TYPES: dict[int, str] = {
    code: name.lower() for name, code in vars(schema.TensorType).items() if name[:1] != "_"
}  # FLOAT32, INT8...
_EIGHT = ("int8", "uint8", "int4")


@dataclass(frozen=True)
class _Kind:
    """An operator that multiplies: which inputs its factors are, and its multiply-adds by the
    shapes of the first, the second and the result."""

    x: int
    weights: int
    macs: Callable[[Shape, Shape, Shape], int]


def _each_output(x: Shape, weights: Shape, y: Shape) -> int:
    return math.prod(y) * math.prod(weights[1:])


_KINDS = {
    "CONV_2D": _Kind(0, 1, _each_output),  # [O, H, W, I]
    "CONV_3D": _Kind(0, 1, lambda x, w, y: math.prod(y) * math.prod(w[:4])),  # [D, H, W, I, O]
    "DEPTHWISE_CONV_2D": _Kind(0, 1, lambda x, w, y: math.prod(y) * math.prod(w[1:3])),
    "FULLY_CONNECTED": _Kind(0, 1, _each_output),  # [O, I]
    "TRANSPOSE_CONV": _Kind(2, 1, lambda x, w, y: math.prod(x) * math.prod(w[:3])),
    "CONV_3D_TRANSPOSE": _Kind(2, 1, lambda x, w, y: math.prod(x) * math.prod(w[:4])),
    "BATCH_MATMUL": _Kind(0, 1, lambda x, w, y: math.prod(y) * (math.prod(x[-2:]) // y[-2])),
}

_WHY = (
    "LiteRT computes float16 models in float32, and constants stay float32 that have fewer than "
    f"{SMALLEST} elements or that float16 doesn't hold exactly"
)


def contents_of(path: Path, request: Request, sizes: Mapping[str, int]) -> Contents:
    """What a file holds; see :meth:`converter.protocols.emitter.Emitter.contents`.

    Args:
        path: The file.
        request: Its ``threads``.
        sizes: Of free dimensions, by name.

    Raises:
        ModelError: It is damaged.
    """
    with path.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    model = unpack(content, path.name)
    found = list(_operators(model))
    shapes = _shapes(model, path, request, sizes, found)
    products = [
        Product(_text(graph.tensors[op.outputs[0]].name), name, _computes(graph, op, name), macs)
        for (graph, op, name), macs in zip(found, shapes, strict=True)
    ]
    return Contents(path.name, products, _stored(model), _WHY)


def _operators(model: Any) -> Iterator[tuple[Any, Any, str]]:
    """The operators that multiply, each with its graph and what it is called."""
    for graph in model.subgraphs:
        for op in graph.operators:
            code = model.operatorCodes[op.opcodeIndex]
            name = _NAMES.get(max(code.builtinCode, code.deprecatedBuiltinCode), "")
            if name in _KINDS:
                yield graph, op, name


def _computes(graph: Any, op: Any, name: str) -> str:
    kind = _KINDS[name]
    x, weights = (_TYPES[graph.tensors[op.inputs[i]].type] for i in (kind.x, kind.weights))
    if weights in _EIGHT and x in _EIGHT:
        return "int8"
    if weights in _EIGHT:
        return {"float32": DYNAMIC, "int16": "int16x8"}.get(x, x)
    return x


def _shapes(
    model: Any,
    path: Path,
    request: Request,
    sizes: Mapping[str, int],
    operators: list[tuple[Any, Any, str]],
) -> list[int | None]:
    """The multiply-adds of each operator; None where a shape in a body is free."""
    known: dict[int, Shape] = {}
    main = model.subgraphs[0]
    if any(_is_free(graph.tensors[i]) for graph, op, _ in operators for i in _used(op)):
        wanted = sorted({i for graph, op, _ in operators if graph is main for i in _used(op)})
        known = _asked(path, request, sizes, wanted)
    counts: list[int | None] = []
    for graph, op, name in operators:
        kind, own = _KINDS[name], known if graph is main else {}
        places = (op.inputs[kind.x], op.inputs[kind.weights], op.outputs[0])
        shapes = [own.get(int(i)) or _shape(graph.tensors[i]) for i in places]
        counts.append(None if None in shapes else kind.macs(*shapes))  # type: ignore[arg-type]
    return counts


def _used(op: Any) -> list[int]:
    return [int(i) for i in (*op.inputs, *op.outputs) if i >= 0]


def _is_free(tensor: Any) -> bool:
    signature = tensor.shapeSignature
    return signature is not None and bool(np.any(np.asarray(signature) < 0))


def _shape(tensor: Any) -> Shape | None:
    return None if _is_free(tensor) else tuple(int(size) for size in tensor.shape)


def _asked(
    path: Path, request: Request, sizes: Mapping[str, int], tensors: list[int]
) -> dict[int, Shape]:
    """The shapes of tensors of the main graph; none where LiteRT can't say them."""
    try:
        session = open_file(path, request, xnnpack=False, again=True)
        try:
            at = {BATCH: 1, **sizes}
            shapes = {
                spec.name: [at.get(dim, 1) if isinstance(dim, str) else dim for dim in spec.shape]
                for spec in session.inputs
                if spec.shape is not None
            }
            return session.shapes(shapes, tensors)
        finally:
            session.close()
    except ModelyardError:  # it may refuse zeros, as an index or a size: the count is left out
        return {}


def _stored(model: Any) -> dict[str, int]:
    sums: Counter[str] = Counter()
    seen: set[int] = set()
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            data = model.buffers[tensor.buffer].data
            if data is not None and tensor.buffer not in seen:
                seen.add(tensor.buffer)
                sums[_TYPES[tensor.type]] += len(data)
    return dict(sums)


def _text(name: bytes | str | None) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else name or ""
