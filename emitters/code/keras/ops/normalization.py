"""Normalizations and softmax."""

from __future__ import annotations

from converter.ir.refused import Refused
from emitters.code.asking import gives_one, infers
from emitters.code.context import Context
from emitters.code.keras.ops.activations import activate
from emitters.code.keras.registry import channels_last, op
from emitters.code.keras.types import dtype_argument
from emitters.code.literals import listed, real
from emitters.code.weights import is_weight


def _eps(c: Context) -> str | None:
    text = real(c.attr("epsilon", 1e-5))
    return None if text == "0.001" else text


def _axis(c: Context) -> int:
    return c.need_rank(0) - 1 if channels_last(c.node) else min(1, c.need_rank(0) - 1)


@op("BatchNormalization")
def batch(c: Context) -> None:
    """``layers.BatchNormalization``."""
    if not infers(c.node):
        raise Refused("it is in training mode", "export the model for inference")
    constants = all(is_weight(value, 1) for value in c.node.inputs[1:5])
    axis, rank = _axis(c), c.need_rank(0)
    if constants and len({c.dtype(at) for at in range(5)}) == 1 and rank > 1:
        names = ("gamma", "beta", "moving_mean", "moving_variance")
        weights = {
            name: c.weight(c.value(at), trains=at < 3) for at, name in enumerate(names, start=1)
        }
        momentum = real(c.attr("momentum", 0.9))
        c.call(
            "layers.BatchNormalization", (), (c.arg(0),), weights, "norm",
            axis=None if axis == rank - 1 else axis,
            momentum=None if momentum in ("0.99", "0.9900000095367432") else momentum,
            epsilon=_eps(c), dtype=dtype_argument(c.dtype(0)),
        )  # fmt: skip
        return
    given = ", ".join(c.arg(at) for at in (0, 3, 4))
    told = f"axis={axis}, offset={c.arg(2)}, scale={c.arg(1)}"
    eps = real(c.attr("epsilon", 1e-5))
    c.emit(f"ops.batch_normalization({given}, {told}, epsilon={eps})")


@op("LayerNormalization", legal=gives_one)
def layer(c: Context) -> None:
    """``layers.LayerNormalization``."""
    rank = c.need_rank(0)
    axis = c.attr("axis", -1) % rank
    sizes = (c.shape(0) or [])[axis:]
    constants = is_weight(c.value(1)) and (not c.has(2) or is_weight(c.value(2)))
    fits = (c.shape(1) or []) == sizes and (not c.has(2) or (c.shape(2) or []) == sizes)
    axes = list(range(axis, rank))
    if constants and fits:
        weights = {"gamma": c.weight(c.value(1))}
        if c.has(2):
            weights["beta"] = c.weight(c.value(2))
        c.call(
            "layers.LayerNormalization", (), (c.arg(0),), weights, "norm",
            axis=None if len(axes) == 1 else listed(axes), epsilon=_eps(c),
            center=None if c.has(2) else False, dtype=dtype_argument(c.dtype(0)),
        )  # fmt: skip
        return
    eps = real(c.attr("epsilon", 1e-5))
    text = f"{c.helper('layer_norm')}({c.arg(0)}, {listed(axes)}, {eps}) * {c.operand(1)}"
    c.emit(f"{text} + {c.operand(2)}" if c.has(2) else text, 6 if c.has(2) else 7)


@op("InstanceNormalization")
def instance(c: Context) -> None:
    """``layers.GroupNormalization``, each channel a group."""
    constants = is_weight(c.value(1)) and is_weight(c.value(2))
    rank, axis = c.need_rank(0), _axis(c)
    if constants:
        weights = {"gamma": c.weight(c.value(1)), "beta": c.weight(c.value(2))}
        c.call(
            "layers.GroupNormalization", (), (c.arg(0),), weights, "norm", groups=-1,
            axis=None if axis == rank - 1 else axis, epsilon=_eps(c),
            dtype=dtype_argument(c.dtype(0)),
        )  # fmt: skip
        return
    axes = [at for at in range(1, rank) if at != axis]
    eps = real(c.attr("epsilon", 1e-5))
    shape = listed([1] * axis + [-1] + [1] * (rank - axis - 1))
    scale, offset = (f"ops.reshape({c.arg(at)}, {shape})" for at in (1, 2))
    x = f"{c.helper('layer_norm')}({c.arg(0)}, {listed(axes)}, {eps})"
    c.emit(f"{x} * {scale} + {offset}", 6)


@op("LpNormalization")
def normalize(c: Context) -> None:
    """By its length along an axis."""
    p, axis = c.attr("p", 2), c.attr("axis", -1)
    c.emit(f"{c.helper('lp_normalize')}({c.arg(0)}, {p}, axis={axis})")


@op("LRN")
def local_response(c: Context) -> None:
    """Over neighbouring channels."""
    told = ", ".join(
        f"{name}={real(c.attr(name, default))}"
        for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    name = c.helper("local_response")
    c.emit(f"{name}({c.arg(0)}, {c.attr('size')}, axis={_axis(c)}, {told})")


@op("Softmax", "LogSoftmax")
def softmax(c: Context) -> None:
    """Along an axis."""
    axis = c.attr("axis", -1)
    function = "softmax" if c.node.op_type == "Softmax" else "log_softmax"
    if c.dtype(0) == "float16" and function == "softmax":
        c.emit(f"{c.helper('softmax_of_halves')}({c.arg(0)}, axis={axis})")
        return
    known = c.rank(0)
    told = ("axis", None if axis == -1 or (known and axis == known - 1) else axis)
    activate(c, "layers.Softmax" if function == "softmax" else "", f"ops.{function}", told)


@op("Hardmax")
def hardmax(c: Context) -> None:
    """One at the first of the largest."""
    c.emit(f"{c.helper('hardmax')}({c.arg(0)}, axis={c.attr('axis', -1)})")
