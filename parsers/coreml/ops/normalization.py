"""Normalizations (``normalization``)."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads
from parsers.coreml.sizes import rank as rank_of
from parsers.coreml.values import like, size_of

FLOAT = onnx_ir.DataType.FLOAT


@reads("batch_norm")
def batch_norm(reader: Reader, op: Operation) -> None:
    x = reader.value(op, "x")
    mean, variance = like(reader, op, "mean", x), like(reader, op, "variance", x)
    inputs = [x, *_scale(reader, op, x), mean, variance]
    reader.give(op, reader.node("BatchNormalization", inputs, _epsilon(reader, op)))


@reads("instance_norm")
def instance_norm(reader: Reader, op: Operation) -> None:
    x = reader.value(op, "x")
    inputs = [x, *_scale(reader, op, x)]
    reader.give(op, reader.node("InstanceNormalization", inputs, _epsilon(reader, op)))


def _epsilon(reader: Reader, op: Operation) -> dict[str, float]:
    return {"epsilon": float(reader.setting(op, "epsilon", 1e-5))}


def _scale(reader: Reader, op: Operation, x: onnx_ir.Value) -> list[onnx_ir.Value]:
    """gamma and beta, a number for each channel: ones and zeros where they are left out."""
    made = []
    for name, number in (("gamma", 1), ("beta", 0)):
        value = like(reader, op, name, x)
        made.append(value or _filled(reader, x, [1], number))
    return made


def _filled(reader: Reader, x: onnx_ir.Value, axes: list[int], number: int) -> onnx_ir.Value:
    sizes = [size_of(x, axis) for axis in axes]
    if None in sizes:
        raise Refusal(f"{x.name} has a free size along an axis that is normalized")
    dtype = (x.dtype or FLOAT).numpy()
    return reader.const(np.full([size or 0 for size in sizes], number, dtype))


@reads("layer_norm")
def layer_norm(reader: Reader, op: Operation) -> None:
    """LayerNormalization where the axes are the last ones; else what it stands for."""
    x = reader.value(op, "x")
    rank = rank_of(x)
    axes = sorted(int(axis) % rank for axis in reader.setting(op, "axes", list(range(rank))))
    free = any(size_of(x, axis) is None for axis in axes)
    if axes != list(range(rank - len(axes), rank)) or (free and not reader.has(op, "gamma")):
        reader.give(op, _layer_norm(reader, op, x, axes))
        return
    gamma = like(reader, op, "gamma", x) or _filled(reader, x, axes, 1)
    beta = like(reader, op, "beta", x)
    inputs = [x, gamma] if beta is None else [x, gamma, beta]
    attributes = _epsilon(reader, op) | {"axis": axes[0]}
    reader.give(op, reader.node("LayerNormalization", inputs, attributes))


def _layer_norm(reader: Reader, op: Operation, x: onnx_ir.Value, axes: list[int]) -> onnx_ir.Value:
    """(x - mean) / sqrt(variance + epsilon) in float32, as ONNX's LayerNormalization computes."""
    wide, over, keep = reader.cast(x, FLOAT), reader.ints(axes), {"keepdims": 1}
    mean = reader.node("ReduceMean", [wide, over], keep)
    away = reader.node("Sub", [wide, mean])
    squares = reader.node("Mul", [away, away])
    variance = reader.node("ReduceMean", [squares, over], keep)
    epsilon = reader.number(float(reader.setting(op, "epsilon", 1e-5)), wide)
    spread = reader.node("Sqrt", [reader.node("Add", [variance, epsilon])])
    assert x.dtype is not None
    normal = reader.cast(reader.node("Div", [away, spread]), x.dtype)
    rank = rank_of(x)
    others = reader.ints([axis for axis in range(rank) if axis not in axes])
    for name, kind in (("gamma", "Mul"), ("beta", "Add")):
        value = like(reader, op, name, x)
        if value is not None:
            spreadable = reader.node("Unsqueeze", [value, others]) if len(axes) < rank else value
            normal = reader.node(kind, [normal, spreadable])
    return normal


@reads("l2_norm")
def l2_norm(reader: Reader, op: Operation) -> None:
    """x / sqrt(sum of squares + epsilon), over the last three axes."""
    x = reader.value(op, "x")
    squares = reader.node("ReduceSumSquare", [x, reader.ints([-3, -2, -1])], {"keepdims": 1})
    epsilon = reader.number(float(reader.setting(op, "epsilon", 1e-6)), x)
    length = reader.node("Sqrt", [reader.node("Add", [squares, epsilon])])
    reader.give(op, reader.node("Div", [x, length]))


@reads("local_response_norm")
def local_response_norm(reader: Reader, op: Operation) -> None:
    """LRN, of four axes as ONNX Runtime has it; of an even size, which side has one channel more
    isn't documented."""
    x, size = reader.value(op, "x"), int(reader.setting(op, "size"))
    if size % 2 == 0:
        raise Refusal("an even size: the documentation doesn't say which side has one channel more")
    attributes = {
        "size": size,
        "alpha": float(reader.setting(op, "alpha", 1e-4)),
        "beta": float(reader.setting(op, "beta", 0.75)),
        "bias": float(reader.setting(op, "k", 1.0)),
    }
    if rank_of(x) == 4:
        reader.give(op, reader.node("LRN", [x], attributes))
        return
    each = [0, 0, -1, 1] if rank_of(x) == 3 else [0, 0, 0, -1]
    found = reader.node("LRN", [reader.node("Reshape", [x, reader.ints(each)])], attributes)
    shape = reader.node("Shape", [x], dtype=onnx_ir.DataType.INT64)
    reader.give(op, reader.node("Reshape", [found, shape]))
