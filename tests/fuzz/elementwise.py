"""Makers of elementwise nodes: one or more operands, broadcasting, comparisons, types."""

from typing import Any

import numpy as np
from onnx import TensorProto

from tests.fuzz.grow import Grower
from tests.fuzz.values import Value

_UNARY = (
    *("Relu", "Relu", "Relu", "Sigmoid", "Sigmoid", "Tanh", "Neg", "Abs", "Exp", "Erf", "Softplus"),
    *("HardSwish", "HardSigmoid", "LeakyRelu", "Elu", "Selu", "Gelu", "Identity", "Identity"),
    *("Softsign", "Sin", "Cos", "Mish", "ThresholdedRelu", "Celu", "Floor", "Ceil", "Round"),
)
_POSITIVE = ("Sqrt", "Log", "Reciprocal")
_BINARY = ("Add", "Add", "Mul", "Mul", "Sub", "Sub", "Div", "Max", "Min", "PRelu")


def unary(grow: Grower) -> None:
    op = grow.pick(_UNARY)
    attributes: dict[str, Any] = {}
    if op == "Gelu" and grow.chance(0.4):
        attributes = {"approximate": "tanh"}
    if op in ("LeakyRelu", "Elu") and grow.chance(0.5):
        attributes = {"alpha": grow.pick([0.1, 0.3, 1.0])}
    if op == "HardSigmoid" and grow.chance(0.5):
        attributes = {"alpha": 1 / 6, "beta": 0.5}
    grow.put(op, [grow.value().name], **attributes)


def of_positive(grow: Grower) -> None:
    low = grow.put("Add", [grow.put("Abs", [grow.value().name]), grow.number(0.1)])
    grow.put(grow.pick(_POSITIVE), [low])


def with_constant(grow: Grower) -> None:
    x = grow.value()
    sizes = [1 if axis in x.free or grow.chance(0.4) else n for axis, n in enumerate(x.shape)]
    sizes = sizes[grow.below(x.rank + 1) :] if x.rank and grow.chance(0.6) else sizes
    if grow.chance(0.1) and x.rank < 5:
        sizes = [1] * (x.rank + 1)
    op = grow.pick(_BINARY)
    other = grow.positive(*sizes) if op == "Div" else grow.noise(*sizes)
    second = op == "PRelu" or grow.chance(0.7) or op == "Div"
    grow.put(op, [x.name, other] if second else [other, x.name])


def with_scalar(grow: Grower) -> None:
    x = grow.value()
    number = grow.number(grow.pick([0.0, 1.0, 2.0, 0.5, -1.0, 3.0, 6.0, 1 / 6, 0.125]))
    op = grow.pick(["Add", "Mul", "Sub", "Max", "Min"])
    grow.put(op, [x.name, number] if grow.chance(0.7) else [number, x.name])


def divided(grow: Grower) -> None:
    x = grow.value()
    if grow.chance(0.7):
        grow.put("Div", [x.name, grow.number(grow.pick([2.0, 6.0, 8.0, 1.4142135]))])
    else:
        low = grow.put("Add", [grow.put("Exp", [x.name]), grow.number(1.0)])
        grow.put("Div", [grow.number(1.0), low])


def with_value(grow: Grower) -> None:
    x = grow.value()
    other = grow.broadcasting(x)
    op = grow.pick(["Add", "Add", "Mul", "Sub", "Max", "Min"])
    grow.put(op, [x.name, other.name] if grow.chance(0.5) else [other.name, x.name])


def several(grow: Grower) -> None:
    x = grow.value()
    names = [x.name, *(grow.broadcasting(x).name for _ in range(grow.below(3)))]
    grow.put(grow.pick(["Sum", "Mean", "Max", "Min"]), names)


def clip(grow: Grower) -> None:
    low = grow.number(grow.pick([-0.5, 0.0, -1.0])) if grow.chance(0.7) else ""
    high = grow.number(grow.pick([0.7, 1.0, 6.0])) if grow.chance(0.7) else ""
    names = [grow.value().name, low, high]
    while not names[-1]:
        names.pop()
    if all(grow.constants[n].rank == 0 for n in names[1:] if n in grow.constants):
        grow.put("Clip", names)


def power(grow: Grower) -> None:
    exponent, whole = grow.pick([2.0, 2.0, 3.0, 1.0]), grow.chance(0.2)
    x = grow.value().name
    grow.put("Pow", [x, grow.ints(int(exponent)) if whole else grow.number(exponent)])


def compared(grow: Grower) -> None:
    x = grow.value()
    other = grow.broadcasting(x).name if grow.chance(0.4) else grow.number(0.1)
    grow.put(grow.pick(["Greater", "Less", "GreaterOrEqual", "LessOrEqual"]), [x.name, other])


def logic(grow: Grower) -> None:
    x = grow.value("bool")
    if grow.chance(0.4):
        grow.put("Not", [x.name])
    else:
        grow.put(grow.pick(["And", "Or", "Xor"]), [x.name, grow.broadcasting(x).name])


def where(grow: Grower) -> None:
    x = grow.value()
    masks = [v for v in grow.pool.values() if v.kind == "bool" and _reaches(v, x)]
    if masks and grow.chance(0.8):
        mask = grow.pick(masks).name
    else:
        sizes = [1 if axis in x.free else n for axis, n in enumerate(x.shape)]
        mask = grow.const(grow.random.random(sizes) < 0.5)
    other = grow.broadcasting(x).name if grow.chance(0.5) else grow.number(0.25)
    grow.put("Where", [mask, x.name, other] if grow.chance(0.5) else [mask, other, x.name])


def cast(grow: Grower) -> None:
    x = grow.value("float32", "int64", "int32", "bool")
    kinds = {"float32": "FLOAT", "int64": "INT64", "int32": "INT32", "bool": "BOOL"}
    target = grow.pick([k for k in kinds if k != x.kind])
    is_float = x.kind == "float32"
    name = grow.put("Mul", [x.name, grow.number(2.0)]) if is_float else x.name
    grow.put("Cast", [name], to=getattr(TensorProto, kinds[target]))


def to_float(grow: Grower) -> None:
    grow.put("Cast", [grow.value("int64", "int32", "bool").name], to=TensorProto.FLOAT)


def integers(grow: Grower) -> None:
    x = grow.value("int64", "int32")
    number = grow.const(np.asarray(grow.pick([2, 3, -2, 5]), np.dtype(x.kind)))
    op = grow.pick(["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min"])
    if grow.chance(0.3):
        grow.put(grow.pick(["Add", "Sub", "Mul"]), [x.name, grow.broadcasting(x).name])
    elif grow.chance(0.3):
        grow.put(grow.pick(["Neg", "Abs", "Sign"]), [x.name])
    else:
        grow.put(op, [x.name, number])


def _reaches(one: Value, other: Value) -> bool:
    return one.rank <= other.rank and all(
        low.shape[axis] in (1, high.shape[axis - low.ndim + high.ndim])
        for low, high in zip(one.exact, other.exact, strict=True)
        for axis in range(low.ndim)
    )


MAKERS = (
    *(unary, unary, unary, of_positive, with_constant, with_constant, with_constant, with_scalar),
    *(with_scalar, divided, with_value, with_value, with_value, several, clip, power, compared),
    *(logic, where, where, cast, to_float, to_float, integers),
)
