"""Makers of layers with weights or windows: convolutions, products, poolings, Resize."""

from math import prod
from typing import Any

import numpy as np

from tests.fuzz.grow import Grower
from tests.fuzz.values import Rejected, Value


def conv(grow: Grower) -> None:
    x = grow.value(rank=(3, 4, 4, 4, 5))
    _require_channels(x)
    channels, spatial = x.shape[1], x.rank - 2
    group = grow.pick([g for g in (1, 1, 1, 2, 3, channels) if channels % g == 0])
    filters = group * grow.below(4, 1)
    kernel = [grow.pick([1, 1, 2, 3, 3]) for _ in range(spatial)]
    attributes = _window(grow, kernel)
    _require_room(x, attributes)
    if group != 1 or grow.chance(0.2):
        attributes["group"] = group
    scale = (channels // group * prod(kernel)) ** -0.5
    weights = grow.noise(filters, channels // group, *kernel, scale=scale)
    bias = [grow.noise(filters)] if grow.chance(0.6) else []
    grow.put("Conv", [x.name, weights, *bias], **attributes)


def conv_transpose(grow: Grower) -> None:
    x = grow.value(rank=(3, 4, 4))
    _require_channels(x)
    channels, spatial = x.shape[1], x.rank - 2
    group = grow.pick([g for g in (1, 1, 2, channels) if channels % g == 0])
    kernel = [grow.pick([1, 2, 3]) for _ in range(spatial)]
    attributes = _window(grow, kernel, dilations=grow.chance(0.2))
    if "strides" in attributes and grow.chance(0.3):
        attributes["output_padding"] = [n - 1 for n in attributes["strides"]]
    filters = grow.below(4, 1)
    weights = grow.noise(channels, filters, *kernel, scale=0.5)
    bias = [grow.noise(filters * group)] if grow.chance(0.5) else []
    grow.put("ConvTranspose", [x.name, weights, *bias], group=group, **attributes)


def pool(grow: Grower) -> None:
    x = grow.value(rank=(3, 4, 4, 4, 5))
    op = grow.pick(["MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"])
    kernel = [grow.pick([1, 2, 2, 3]) for _ in range(x.rank - 2)]
    attributes = _window(grow, kernel, dilations=op == "MaxPool" and grow.chance(0.2))
    _require_room(x, attributes)
    if grow.chance(0.2) and "auto_pad" not in attributes:
        attributes["ceil_mode"] = 1
    if op == "AveragePool" and grow.chance(0.5):
        attributes["count_include_pad"] = 1
    grow.put(op, [x.name], **attributes)


def global_pool(grow: Grower) -> None:
    op = grow.pick(["GlobalAveragePool", "GlobalAveragePool", "GlobalMaxPool"])
    grow.put(op, [grow.value(rank=(3, 4, 4, 5)).name])


def batch_norm(grow: Grower) -> None:
    x = grow.value(rank=(2, 3, 4, 4, 4, 5))
    _require_channels(x)
    n = x.shape[1]
    names = [x.name, grow.noise(n), grow.noise(n), grow.noise(n), grow.positive(n)]
    grow.put("BatchNormalization", names, epsilon=grow.pick([1e-5, 1e-3]))


def gemm(grow: Grower) -> None:
    x = grow.value(rank=2)
    attributes: dict[str, Any] = {}
    if grow.chance(0.3):
        attributes |= {"alpha": grow.pick([0.5, 2.0]), "beta": grow.pick([0.5, 1.0, 0.0])}
    if grow.chance(0.15):
        attributes["transA"] = 1
    inner, outer = x.shape[0 if "transA" in attributes else 1], grow.below(7, 1)
    _require_fixed(x, 0 if "transA" in attributes else 1)
    sizes = (inner, outer)
    if grow.chance(0.5):
        attributes["transB"], sizes = 1, (outer, inner)
    bias = [grow.noise(*grow.pick([(outer,), (1, outer), (1,), ()]))] if grow.chance(0.7) else []
    grow.put("Gemm", [x.name, grow.noise(*sizes, scale=0.5), *bias], **attributes)


def matmul(grow: Grower) -> None:
    x = grow.value(low=1)
    _require_fixed(x, x.rank - 1)
    inner, outer = x.shape[-1], grow.below(7, 1)
    sizes = [inner, outer]
    if x.rank > 2 and grow.chance(0.2):
        outside = enumerate(x.shape[:-2])
        sizes = [*(1 if a in x.free else grow.pick([1, n]) for a, n in outside), *sizes]
    if grow.chance(0.08):
        sizes = [inner]
    product = grow.put("MatMul", [x.name, grow.noise(*sizes, scale=0.5)])
    if grow.chance(0.5) and len(sizes) > 1:
        bias = grow.noise(outer)
        grow.put("Add", [product, bias] if grow.chance(0.5) else [bias, product])


def matmul_left(grow: Grower) -> None:
    x = grow.value(low=2)
    _require_fixed(x, x.rank - 2)
    grow.put("MatMul", [grow.noise(grow.below(5, 1), x.shape[-2], scale=0.5), x.name])


def matmul_values(grow: Grower) -> None:
    x = grow.value(rank=(2, 3, 4))
    perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    turned = grow.put("Transpose", [x.name], perm=perm)
    product = grow.put("MatMul", [x.name, turned] if grow.chance(0.5) else [turned, x.name])
    if grow.chance(0.6):
        grow.put("Mul", [product, grow.number(0.125)])


def resize(grow: Grower) -> None:
    x = grow.value(rank=(3, 4, 4, 4))
    spatial = x.rank - 2
    mode = grow.pick(["nearest", "nearest", "linear", "linear", "cubic"])
    grow.refuse(spatial == 1 and mode == "cubic", "of two axes")
    places = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": grow.pick(places)}
    if mode == "nearest":
        attributes["nearest_mode"] = grow.pick(["floor", "round_prefer_floor", "ceil"])
    scales = [grow.pick([2.0, 2.0, 1.0, 3.0, 0.5]) for _ in range(spatial)]
    if grow.chance(0.5) or x.free:
        factors = grow.const(np.asarray([1, 1, *scales], np.float32), shake=False)
        grow.put("Resize", [x.name, "", factors], **attributes)
        return
    sizes = [max(1, int(n * s) + grow.below(2)) for n, s in zip(x.shape[2:], scales, strict=True)]
    if grow.chance(0.5):
        attributes["axes"] = list(range(2, x.rank))
    else:
        sizes = [*x.shape[:2], *sizes]
    grow.put("Resize", [x.name, "", "", grow.ints(*sizes)], **attributes)


def lrn(grow: Grower) -> None:
    grow.put("LRN", [grow.value(rank=4).name], size=grow.pick([3, 5]), alpha=0.1, beta=0.75)


def _window(grow: Grower, kernel: list[int], dilations: bool | None = None) -> dict[str, Any]:
    count = len(kernel)
    attributes: dict[str, Any] = {"kernel_shape": kernel}
    if grow.chance(0.3):
        attributes["strides"] = [grow.pick([1, 2, 2]) for _ in kernel]
    if grow.chance(0.2) if dilations is None else dilations:
        attributes["dilations"] = [grow.pick([1, 2]) for _ in kernel]
    kind = grow.below(10)
    if kind < 4:
        attributes["pads"] = [n // 2 for n in kernel] * 2
    elif kind < 6:
        attributes["pads"] = [grow.below(kernel[i % count]) for i in range(2 * count)]
    elif kind < 7 and "dilations" not in attributes:
        attributes["auto_pad"] = grow.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    return attributes


def _require_room(value: Value, attributes: dict[str, Any]) -> None:
    """A window that is larger than what it is on: what then comes out isn't defined."""
    kernel = attributes["kernel_shape"]
    steps = attributes.get("dilations", [1] * len(kernel))
    reach = [step * (n - 1) + 1 for step, n in zip(steps, kernel, strict=True)]
    pads = attributes.get("pads", [0] * 2 * len(kernel))
    for array in value.exact:
        for axis, size in enumerate(array.shape[2:]):
            if size + pads[axis] + pads[axis + len(kernel)] < reach[axis]:
                raise Rejected("a window larger than what it is on")


def _require_channels(value: Value) -> None:
    _require_fixed(value, 1)
    if value.shape[1] > 16:
        raise Rejected("many channels")


def _require_fixed(value: Value, axis: int) -> None:
    if axis in value.free:
        raise Rejected("its size is free")


MAKERS = (
    *(conv, conv, conv, conv, conv, conv_transpose, pool, pool, pool, global_pool, batch_norm),
    *(batch_norm, gemm, gemm, matmul, matmul, matmul_left, matmul_values, resize, resize, lrn),
)
