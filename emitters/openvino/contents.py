"""What an IR's operators compute in, their multiply-adds, and what its constants take."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from converter.errors import ModelError
from converter.ir.contents import Contents, Product
from converter.ir.model import BATCH
from emitters.openvino.engine import core, engine, words
from emitters.openvino.mending import bodies
from emitters.openvino.session import TYPES, borders_of

_HANDS_ON = frozenset(
    {"Convert", "Multiply", "Reshape", "Squeeze", "Subtract", "Transpose", "Unsqueeze"}
)
"""What lies between integers and what multiplies: scales, zero points, moves."""

_STEPS = 12
_EIGHT = ("int8", "uint8")


def contents_of(path: Path, sizes: Mapping[str, int]) -> Contents:
    """See :meth:`converter.protocols.emitter.Emitter.contents`.

    Raises:
        ModelError: It is damaged.
    """
    model = _read(path)
    _size(model, {BATCH: 1, **sizes})
    stored: Counter[str] = Counter()
    products = []
    for node in _nodes(model):
        kind = node.get_type_name()
        if kind == "Constant":
            stored[_type(node.output(0))] += node.get_byte_size()
        elif kind in _KINDS:
            factors, macs = _KINDS[kind]
            name = node.get_friendly_name()
            products.append(Product(name, kind, _computes(node, factors), _count(node, macs)))
    return Contents(path.name, products, dict(stored))


def told(path: Path) -> Mapping[str, Any]:
    """What is in a file, for people and as JSON.

    Raises:
        ModelError: It is damaged.
    """
    found = _read(path)
    counted = Counter(node.get_type_name() for node in _nodes(found))
    return {
        "format": "OpenVINO's IR",
        "bytes": sum(each.stat().st_size for each in (path, path.with_suffix(".bin"))),
        "operators": dict(counted.most_common()),
        "stored": dict(contents_of(path, {}).stored),
    }


def _read(path: Path) -> Any:
    try:
        return core().read_model(path)
    except Exception as error:  # RuntimeError and what it makes of C++'s
        raise ModelError(
            f"OpenVINO refuses {path.name}: {words(error)}", code="runtime-failed"
        ) from error


def _nodes(model: Any) -> Iterator[Any]:
    for node in model.get_ordered_ops():
        yield node
        for body in bodies(node):
            yield from _nodes(body)


def _size(model: Any, sizes: Mapping[str, int]) -> None:
    """Gives free dimensions these sizes, 1 where they have none; where the model then doesn't fit,
    they stay free."""
    shapes = {
        name: [size if isinstance(size, int) else sizes.get(size, 1) for size in shape]
        for name, shape in borders_of(model)["inputs"]
        if shape is not None
    }
    try:
        model.reshape({name: engine().PartialShape(shape) for name, shape in shapes.items()})
    except RuntimeError:
        return


def _type(output: Any) -> str:
    kind = str(output.get_element_type().get_type_name())
    return TYPES.get(kind, kind)


def _computes(node: Any, factors: tuple[int, int]) -> str:
    """``int8`` where both factors are integers of eight bits with scales; else the result's."""
    found = [_stored(node.input_value(index)) for index in factors]
    return "int8" if all(kind in _EIGHT for kind in found) else _type(node.output(0))


def _stored(output: Any) -> str:
    """The type of integers that an output's numbers were before; its own where there were none."""
    for _ in range(_STEPS):
        node = output.get_node()
        if _type(output) in _EIGHT:
            return _type(output)
        if node.get_type_name() == "FakeQuantize":
            return "uint8" if node.get_attributes()["levels"] <= 256 else _type(output)
        if node.get_type_name() not in _HANDS_ON:
            break
        output = node.input_value(0)
    return _type(output)


_Macs = Callable[[Any, list[int]], float]
"""Of an operator, and the shape of its result."""


def _count(node: Any, macs: _Macs) -> float | None:
    shapes = [port.get_partial_shape() for port in (*node.input_values(), node.output(0))]
    if any(shape.is_dynamic for shape in shapes):
        return None
    return macs(node, list(node.output(0).get_shape()))


def _shape(node: Any, index: int) -> list[int]:
    return list(node.input_value(index).get_shape())


def _matmul(node: Any, made: list[int]) -> float:
    inner = _shape(node, 0)[-2 if node.get_attributes()["transpose_a"] else -1]
    return math.prod(made) * inner


def _recurrent(weights: int) -> _Macs:
    """Where the weights of the input are; those of the state are the next."""

    def macs(node: Any, made: list[int]) -> float:
        per_step = sum(math.prod(_shape(node, weights + index)[1:]) for index in range(2))
        return math.prod(made[:-1]) * per_step

    return macs


def _attention(node: Any, made: list[int]) -> float:
    query, keys = _shape(node, 0), _shape(node, 1)
    return math.prod(query) * keys[-2] + math.prod(made) * keys[-2]


_KINDS: Mapping[str, tuple[tuple[int, int], _Macs]] = {
    "Convolution": ((0, 1), lambda n, made: math.prod(made) * math.prod(_shape(n, 1)[1:])),
    "GroupConvolution": ((0, 1), lambda n, made: math.prod(made) * math.prod(_shape(n, 1)[2:])),
    "ConvolutionBackpropData": (
        (0, 1),
        lambda n, made: math.prod(_shape(n, 0)) * math.prod(_shape(n, 1)[1:]),
    ),
    "GroupConvolutionBackpropData": (
        (0, 1),
        lambda n, made: math.prod(_shape(n, 0)) * math.prod(_shape(n, 1)[2:]),
    ),
    "MatMul": ((0, 1), _matmul),
    "ScaledDotProductAttention": ((0, 1), _attention),
    "LSTMSequence": ((0, 4), _recurrent(4)),
    "GRUSequence": ((0, 3), _recurrent(3)),
    "RNNSequence": ((0, 3), _recurrent(3)),
}
"""Operators that multiply: where their factors are, and their multiply-adds."""
