"""Normalizations and softmax."""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.refused import Refused
from emitters.code.asking import gives_one, infers
from emitters.code.context import Context
from emitters.code.literals import listed, real
from emitters.code.weights import is_weight
from emitters.pytorch.ops.activations import activate
from emitters.pytorch.ops.linear import dtype_argument
from emitters.pytorch.registry import op


def _eps(c: Context, default: float = 1e-5) -> str | None:
    value = c.attr("epsilon", 1e-5)
    text = real(value)
    return None if text == real(default) else text


@op("BatchNormalization")
def batch(c: Context) -> None:
    """``nn.BatchNorm2d``, and so on."""
    if not infers(c.node):
        raise Refused("it is in training mode", "export the model for inference")
    constants = all(is_weight(value, 1) for value in c.node.inputs[1:5])
    rank = c.need_rank(0)
    same = len({c.dtype(at) for at in range(5)}) == 1
    eps = _eps(c)
    if constants and same and 2 <= rank <= 5:
        size = (c.shape(1) or [0])[0]
        names = ("weight", "bias", "running_mean", "running_var")
        weights = {
            name: c.weight(c.value(at), trains=at < 3) for at, name in enumerate(names, start=1)
        }
        weights["num_batches_tracked"] = c.own(np.asarray(0, np.int64), "count", trains=False)
        kind = f"nn.BatchNorm{max(rank - 2, 1)}d"
        momentum = real(1 - float(str(np.float32(c.attr("momentum", 0.9)))))
        c.call(
            kind, (size,), (c.arg(0),), weights, "norm",
            eps=eps, momentum=None if momentum == "0.1" else momentum,
            dtype=dtype_argument(c.dtype(0)),
        )  # fmt: skip
        return
    given = ", ".join(c.arg(at) for at in (0, 3, 4, 1, 2))
    c.emit(f"F.batch_norm({given}, eps={real(c.attr('epsilon', 1e-5))})")


@op("LayerNormalization", legal=gives_one)
def layer(c: Context) -> None:
    """``nn.LayerNorm``."""
    rank = c.need_rank(0)
    axis = c.attr("axis", -1) % rank
    shape = (c.shape(0) or [])[axis:]
    if not all(isinstance(size, int) for size in shape):
        shape = (c.shape(1) or [])[-(rank - axis) :]
    if not all(isinstance(size, int) for size in shape) or len(shape) != rank - axis:
        raise Refused("the sizes that it normalizes are free", "fix them (--dim)")
    sizes = [int(size) for size in shape]  # type: ignore[arg-type]
    told = str(sizes[0]) if len(sizes) == 1 else listed(sizes)
    constants = is_weight(c.value(1)) and (not c.has(2) or is_weight(c.value(2)))
    fits = (c.shape(1) or []) == sizes and (not c.has(2) or (c.shape(2) or []) == sizes)
    if constants and fits:
        weights = {"weight": c.weight(c.value(1))}
        if c.has(2):
            weights["bias"] = c.weight(c.value(2))
        c.call(
            "nn.LayerNorm", (told,), (c.arg(0),), weights, "norm",
            eps=_eps(c), bias=None if c.has(2) else False, dtype=dtype_argument(c.dtype(0)),
        )  # fmt: skip
        return
    eps = real(c.attr("epsilon", 1e-5))
    text = f"F.layer_norm({c.arg(0)}, {listed(sizes)}, eps={eps}) * {c.operand(1)}"
    c.emit(f"{text} + {c.operand(2)}" if c.has(2) else text, 6)


@op("InstanceNormalization")
def instance(c: Context) -> None:
    """``nn.InstanceNorm2d``, and so on."""
    rank = c.need_rank(0)
    if 3 <= rank <= 5 and is_weight(c.value(1)) and is_weight(c.value(2)):
        size = (c.shape(1) or [0])[0]
        weights = {"weight": c.weight(c.value(1)), "bias": c.weight(c.value(2))}
        kind = f"nn.InstanceNorm{rank - 2}d"
        c.call(
            kind, (size,), (c.arg(0),), weights, "norm",
            eps=_eps(c), affine=True, dtype=dtype_argument(c.dtype(0)),
        )  # fmt: skip
        return
    given = f"weight={c.arg(1)}, bias={c.arg(2)}, eps={real(c.attr('epsilon', 1e-5))}"
    c.emit(f"F.instance_norm({c.arg(0)}, {given})")


@op("LpNormalization")
def normalize(c: Context) -> None:
    """By its length along an axis."""
    p, axis = c.attr("p", 2), c.attr("axis", -1)
    power = "" if p == 2 else f"p={p}, "
    c.emit(f"F.normalize({c.arg(0)}, {power}dim={axis})")


def _is_odd(node: onnx_ir.Node) -> bool:
    value = node.inputs[0]
    known = value is not None and value.shape is not None and len(value.shape) >= 3
    return known and node.attributes["size"].as_int() % 2 == 1


@op("LRN", legal=_is_odd)
def local_response(c: Context) -> None:
    """Over neighbouring channels."""
    told = ", ".join(
        f"{name}={real(c.attr(key, default))}"
        for name, key, default in (
            ("alpha", "alpha", 1e-4),
            ("beta", "beta", 0.75),
            ("k", "bias", 1.0),
        )
    )  # fmt: skip
    c.emit(f"F.local_response_norm({c.arg(0)}, {c.attr('size')}, {told})")


@op("Softmax", "LogSoftmax")
def softmax(c: Context) -> None:
    """Along an axis."""
    name = c.node.op_type
    axis = c.attr("axis", -1)
    function = "softmax" if name == "Softmax" else "log_softmax"
    if c.dtype(0) == "float16" and name == "Softmax":
        c.emit(f"{c.helper('softmax_of_halves')}({c.arg(0)}, dim={axis})")
        return
    if c.path()[1]:
        activate(c, f"nn.{name}", "", ("dim", axis))
        return
    c.emit(f"torch.{function}({c.arg(0)}, dim={axis})")


@op("Hardmax")
def hardmax(c: Context) -> None:
    """One at the first of the largest."""
    c.emit(f"{c.helper('hardmax')}({c.arg(0)}, dim={c.attr('axis', -1)})")
