"""Makers of nodes along axes: reductions, Softmax, ArgMax, TopK, CumSum, normalizations."""

import numpy as np

from tests.fuzz.grow import Grower
from tests.fuzz.values import Rejected, Value

_REDUCE = (
    *("ReduceMean", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceL1"),
    *("ReduceSumSquare", "ReduceLogSumExp", "ReduceProd"),
)


def reduce(grow: Grower) -> None:
    x = grow.value(low=1)
    op, keep = grow.pick(_REDUCE), {} if grow.chance(0.3) else {"keepdims": grow.below(2)}
    if grow.chance(0.08):
        grow.put(op, [x.name], **keep)
        return
    count = grow.below(x.rank + 1, 1) if grow.chance(0.6) else 1
    axes = [int(a) for a in grow.random.choice(x.rank, count, replace=False)]
    if grow.chance(0.4):
        axes = [axis - x.rank for axis in axes]
    grow.put(op, [x.name, grow.ints(*axes)], **keep)


def reduce_integers(grow: Grower) -> None:
    x = grow.value("int64", "int32", low=1)
    op = grow.pick(["ReduceSum", "ReduceMax", "ReduceMin"])
    grow.put(op, [x.name, grow.ints(grow.axis(x))], keepdims=grow.below(2))


def softmax(grow: Grower) -> None:
    x = grow.value(low=1)
    grow.put(grow.pick(["Softmax", "Softmax", "LogSoftmax"]), [x.name], axis=grow.axis(x))


def hardmax(grow: Grower) -> None:
    x = grow.value(low=1)
    grow.put("Hardmax", [x.name], axis=grow.axis(x))


def arg(grow: Grower) -> None:
    x = grow.value(low=1)
    op, keep = grow.pick(["ArgMax", "ArgMax", "ArgMin"]), grow.below(2)
    last = {"select_last_index": 1} if grow.chance(0.15) else {}
    grow.put(op, [x.name], axis=grow.axis(x), keepdims=keep, **last)


def topk(grow: Grower) -> None:
    x = grow.value(low=1)
    axis = grow.axis(x)
    count = grow.ints(grow.below(min(x.shape[axis], 4) + 1, 1))
    names = [grow.name("v"), grow.name("v")]
    grow.put("TopK", [x.name, count], *names, axis=axis, largest=grow.below(2))


def cumsum(grow: Grower) -> None:
    x = grow.value("float32", "float32", "int64", low=1)
    axis, flags = grow.scalar(grow.axis(x)), {"exclusive": grow.below(2), "reverse": grow.below(2)}
    grow.put("CumSum", [x.name, axis], **flags)


def layer_norm(grow: Grower) -> None:
    x = grow.value(low=1)
    axis = grow.pick([-1, -1, -1, grow.axis(x)])
    if any(free >= axis % x.rank for free in x.free):
        axis = -1
    _require_several(x, axis % x.rank)
    sizes = x.shape[axis:]
    names = [x.name, grow.noise(*sizes), *([grow.noise(*sizes)] if grow.chance(0.7) else [])]
    grow.put("LayerNormalization", names, axis=axis, epsilon=grow.pick([1e-5, 1e-3]))


def instance_norm(grow: Grower) -> None:
    x = grow.value(rank=(3, 4, 5))
    _require_several(x, 2)
    channels = x.shape[1]
    names = [x.name, grow.noise(channels), grow.noise(channels)]
    grow.put("InstanceNormalization", names, epsilon=1e-3)


def lp_norm(grow: Grower) -> None:
    x = grow.value(low=1)
    grow.put("LpNormalization", [x.name], axis=grow.axis(x), p=grow.pick([1, 2]))


def _require_several(value: Value, axis: int) -> None:
    """Of a single element a normalization leaves only its own rounding."""
    if any(np.prod(array.shape[axis:]) < 2 for array in value.exact):
        raise Rejected("a single element")


MAKERS = (
    *(reduce, reduce, reduce, reduce, reduce_integers, softmax, softmax, hardmax, arg, topk),
    *(cumsum, layer_norm, layer_norm, instance_norm, lp_norm),
)
