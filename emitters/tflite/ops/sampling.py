"""GridSample, AffineGrid and RoiAlign: pixels at places that are computed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product

import numpy as np
import onnx_ir

from emitters.lowering.refused import Refused
from emitters.lowering.resize_rules import Sample, cubic_weights
from emitters.tflite import build
from emitters.tflite.algebra import Numbers, extent
from emitters.tflite.context import Context
from emitters.tflite.graph import Array, DataType, Tensor, known
from emitters.tflite.registry import lowers


@lowers("GridSample")
def grid_sample(context: Context, node: onnx_ir.Node) -> None:
    """GATHER of the pixels around each place, times their weights: one for nearest, 2 an axis for
    linear, 4 for cubic. Each pixel's index is reflected or cut by itself, as in ONNX Runtime's
    ``grid_sample.cc``."""
    x, grid = context.tensor(node.inputs[0]), context.tensor(node.inputs[1])
    if x.dtype != DataType.FLOAT or grid.dtype != DataType.FLOAT:
        raise Refused(f"a GridSample of {x.dtype.name.lower()} at {grid.dtype.name.lower()}")
    rank = x.rank - 2
    mode = _text(node, "mode", "linear").removeprefix("bi")
    padding = _text(node, "padding_mode", "zeros")
    aligned = node.attributes.get("align_corners")
    corners = aligned is not None and aligned.as_int() == 1
    if mode not in ("nearest", "linear", "cubic") or (mode == "cubic" and rank != 2):
        raise Refused(f"a GridSample of {rank} axes with mode {mode}")
    points = merged(context, grid, 1, grid.rank - 1)
    spec = (points.shape[:2], DataType.FLOAT, None)
    options = {"num": rank, "axis": 2}
    places = context.emit_many("UNPACK", [points], [spec] * rank, options=options)[::-1]
    sizes = [extent(context, size) for size in x.shape[2:]]
    taps = [
        _padded(_around(mode, _denormalized(place, size, corners)), size, padding, corners)
        for place, size in zip((Numbers(context, p) for p in places), sizes, strict=True)
    ]
    image = build.transpose(context, x, [0, *range(2, x.rank), 1])
    image = merged(context, image, 1, image.rank - 1)
    made = _summed(context, image, x.shape[2:], taps)
    made = _opened(context, made, 1, grid.shape[1:-1])
    context.give(
        node.outputs[0], build.transpose(context, made, [0, rank + 1, *range(1, rank + 1)])
    )


def _denormalized(place: Numbers, size: Numbers, corners: bool) -> Numbers:
    """Where -1 ... 1 is among pixels."""
    if corners:
        return (place + 1.0) / 2.0 * (size - 1.0)
    return ((place + 1.0) * size - 1.0) / 2.0


def _around(mode: str, where: Numbers) -> list[Sample[Numbers]]:
    """The pixels that are added, and their weights, along one axis."""
    if mode == "nearest":
        return [Sample(where.round(), Numbers(where.context, 1.0))]
    low = where.floor()
    part = where - low
    if mode == "linear":
        return [Sample(low, 1.0 - part), Sample(low + 1.0, part)]
    weights = cubic_weights(part, -0.75)
    return [Sample(low + (i - 1.0), weight) for i, weight in enumerate(weights)]


def _padded(
    samples: list[Sample[Numbers]], size: Numbers, padding: str, corners: bool
) -> list[Sample[Numbers]]:
    """The samples with indices inside the image."""
    found: list[Sample[Numbers]] = []
    last = size - 1.0
    for index, weight in ((sample.index, sample.weight) for sample in samples):
        inside = index
        if padding == "reflection":
            inside = _reflected(index, size, corners)
        inside = inside.at_least(0.0).at_most(last)
        if padding == "zeros":
            weight = weight * abs(index - inside).is_at_most(0.5)
        found.append(Sample(inside, weight))
    return found


def _reflected(index: Numbers, size: Numbers, corners: bool) -> Numbers:
    """An index thrown back at both borders, again and again: half a pixel outside, or at the
    centre of the outermost ones."""
    low = 0.0 if corners else -0.5
    span = (size - 1.0 if corners else size).at_least(1.0)
    away = abs(index - low)
    turns = (away / span).floor()
    rest = away - turns * span
    odd = turns - (turns / 2.0).floor() * 2.0
    return rest + odd * (span - rest * 2.0) + low


def _summed(
    context: Context, image: Tensor, dims: Sequence[int | str], taps: list[list[Sample[Numbers]]]
) -> Tensor:
    """The weighted sum of pixels [N, P, C] of an image [N, pixels, C]; taps are [N, P]."""
    columns = [[(tap.index.integers(), tap.weight) for tap in axis] for axis in taps]
    total: Numbers | None = None
    for choice in product(*columns):
        flat = _flat(context, [index for index, _ in choice], dims)
        pixels = context.emit(
            "GATHER",
            [image, flat],
            (*flat.shape, image.shape[-1]),
            options={"axis": 1, "batchDims": 1},
        )
        weight = reduce(lambda a, b: a * b, [weight for _, weight in choice])
        part = Numbers(context, pixels)
        if weight.array is None or (weight.array != 1).any():
            part = part * weight.reshaped((*weight.shape, 1))
        total = part if total is None else total + part
    assert total is not None
    return total.tensor


def _flat(context: Context, indices: list[Tensor], dims: Sequence[int | str]) -> Tensor:
    """Indices along axes of some sizes as one: int32."""
    whole = indices[0]
    for index, dim in zip(indices[1:], dims[1:], strict=True):
        size = (
            context.constant(np.asarray(dim, np.int32))
            if isinstance(dim, int)
            else build.reshape(context, context.size(dim), ())
        )
        whole = build.binary(context, "ADD", build.binary(context, "MUL", whole, size), index)
    return whole


# -- shapes ------------------------------------------------------------------------------


def merged(context: Context, x: Tensor, begin: int, end: int) -> Tensor:
    """``x`` with the axes from ``begin`` to before ``end`` as one."""
    inner = known(x.shape[begin:end])
    if inner is not None:
        size: int | str = int(np.prod(inner))
        return build.reshape(context, x, (*x.shape[:begin], size, *x.shape[end:]))
    size = "*".join(map(str, x.shape[begin:end]))
    sizes = context.sizes((*x.shape[:begin], -1, *x.shape[end:]))
    return context.emit("RESHAPE", [x, sizes], (*x.shape[:begin], size, *x.shape[end:]))


def _opened(context: Context, x: Tensor, axis: int, dims: Sequence[int | str]) -> Tensor:
    """``x`` with several axes in the place of one."""
    return build.reshape(context, x, (*x.shape[:axis], *dims, *x.shape[axis + 1 :]))


# -- AffineGrid --------------------------------------------------------------------------


@lowers("AffineGrid")
def affine_grid(context: Context, node: onnx_ir.Node) -> None:
    """FULLY_CONNECTED of the matrices with the constant places of all pixels."""
    theta, shape = context.tensor(node.inputs[0]), list(context.shape(node.outputs[0]))
    size = context.array(node.inputs[1])
    dims = [int(n) for n in size[2:]] if size is not None else known(shape[1:-1])
    if dims is None or theta.dtype != DataType.FLOAT:
        raise Refused("an AffineGrid whose size is computed", "fix it with --input NAME:DIMS")
    aligned = node.attributes.get("align_corners")
    corners = aligned is not None and aligned.as_int() == 1
    if corners and 1 in dims:
        raise Refused(
            "an AffineGrid with align_corners and one pixel along an axis, where runtimes"
            " disagree: it is -1, 0 or 1",
            "export it with align_corners off",
        )
    base = _base(list(dims), corners)
    weights = context.constant(base, f"{node.name}_places")
    made = context.emit(
        "FULLY_CONNECTED",
        [theta, weights, None],
        (*theta.shape[:2], len(base)),
        options={"fusedActivationFunction": 0, "keepNumDims": True},
    )
    made = build.transpose(context, made, [0, 2, 1])
    context.give(node.outputs[0], _opened(context, made, 1, list(dims)))


def _base(dims: list[int], corners: bool) -> Array:
    """(x, y, 1) or (x, y, z, 1) of each pixel in -1 ... 1: [pixels, axes + 1]."""
    axes = [
        np.linspace(-1, 1, size) if corners else (2 * np.arange(size) + 1) / size - 1
        for size in dims
    ]
    places = np.meshgrid(*axes, indexing="ij")[::-1]
    columns = [place.ravel() for place in places]
    return np.stack([*columns, np.ones_like(columns[0])], axis=1).astype(np.float32)


def _text(node: onnx_ir.Node, name: str, default: str) -> str:
    attribute = node.attributes.get(name)
    return attribute.as_string() if attribute is not None else default
