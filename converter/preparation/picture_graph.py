"""A picture's preparation as ONNX operators in front of a model.

    Given:   the model takes float[batch, 3, 224, 224]
    Result:  it takes uint8[batch, height, width, 3], of any size or of its own

The sizes and places are :mod:`converter.preparation.stages`' (which are torchvision's), worked out
from ``Shape``. Resize of 8-bit pixels with antialiasing rounds as Pillow does, after each axis.
Values become ``(v - mean / scale) * (scale / std)``, so that the factor can go into a convolution
that pads, and the shift too where none does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from converter.errors import UsageError
from converter.ir.model import Model, TensorSpec, dtype_from_name
from converter.passes.legalize.builder import Builder, Size, plain
from converter.preparation.inputs import Picture

Array = np.ndarray[Any, Any]
Value = onnx_ir.Value
DataType = onnx_ir.DataType

_MODES: Mapping[str, Mapping[str, Any]] = {
    "bilinear": {"mode": "linear", "antialias": 1, "exclude_outside": 1},
    "bicubic": {"mode": "cubic", "antialias": 1, "exclude_outside": 1, "cubic_coeff_a": -0.5},
}
"""Resize's attributes by Pillow's filters, but for ``nearest``."""


@dataclass(frozen=True)
class Placed:
    """Where a picture's pixels are in the model's; each [2], of height and width.

    Attributes:
        size: Of the picture, int64.
        scale, offset: In the model's picture, y is ``y * scale + offset``; float32; None for 1 and
            0.
    """

    size: Value
    scale: Value | None = None
    offset: Value | None = None


def require_expressible(picture: Picture) -> None:
    """Refuses what operators can't resize as Pillow does, at any size.

    Raises:
        UsageError: It says what.
    """
    sizes = picture.height, picture.width
    problem = ""
    if picture.interpolation not in (*_MODES, "nearest"):
        problem = f"ONNX's Resize has no filter {picture.interpolation}"
    elif picture.color in ("rgba", "bgra") and picture.interpolation != "nearest":
        problem = "Pillow weighs pixels by their transparency when it resizes, and Resize doesn't"
    elif (sizes[0] is None) != (sizes[1] is None):
        problem = "the model's picture has a free height or width, and not both"
    elif picture.fill is None and _is_cut(picture):
        before = picture.resize
        if not picture.crop:
            problem = "a picture that is larger than the model's after resizing isn't cropped"
        elif isinstance(before, tuple) and any(b < (s or 0) for b, s in zip(before, sizes)):  # noqa: B905
            problem = "the picture is smaller than the model's after resizing"
    elif picture.fill is not None and sizes[0] is None:
        problem = "a picture is filled up to the model's size, which is free"
    if problem:
        raise UsageError(
            f"--prepare graph: {problem}",
            code="preparation",
            hint="Leave --prepare graph out. Then files are prepared outside of the graph.",
        )


def _is_cut(picture: Picture) -> bool:
    """Whether something is cut out of the resized picture."""
    sizes = picture.height, picture.width
    return None not in sizes and bool(picture.longest or picture.resize not in (None, sizes))


def put_picture(model: Model, picture: Picture, spec: TensorSpec, *, whole: bool) -> Placed | None:
    """Has a model take 8-bit pixels, channels last, in the place of an input, whose name stays.

    Args:
        model: Of the pipeline's opset; changed in place.
        picture: How they become the input.
        spec: The input.
        whole: Whether they come in any size, and are resized.

    Returns:
        Where they are in the model's picture; None where that is outside's to know.

    Raises:
        UsageError: Operators can't do it.
    """
    if whole:
        require_expressible(picture)
    value = next(item for item in model.graph.graph.inputs if item.name == spec.name)
    node = node_behind(model, value)
    shape = spec.shape or ()
    batch = [shape[0]] if len(shape) == 4 else []
    rows = shape[-3:] if picture.layout == "HWC" else (*shape[-2:], shape[-3])
    if whole:
        names = ("height", "width")
        taken = model.symbols
        rows = (*(f"picture_{n}" if n in taken else n for n in names), rows[2])
    value.type = onnx_ir.TensorType(DataType.UINT8)
    value.shape = onnx_ir.Shape([*batch, *rows[:2], len(picture.mean)])
    made = _Picture(Builder(node, model.opset), picture, spec)
    x = made.build.unsqueeze(value, [] if batch else [0])
    placed = None
    if whole:
        x, placed = made.fitted(x)
    x = made.typed(made.valued(x))
    made.build.put([made.build.squeeze(x, [] if batch else [0])])
    model.meanings.pop(spec.name, None)
    layout = "NHWC"[len(batch) == 0 :]
    model.describe(spec.name, layout=layout, meaning="image", value_range=(0.0, 255.0))
    return placed


def node_behind(model: Model, value: Value) -> onnx_ir.Node:
    """An Identity between an input and all that takes it, first in the graph."""
    graph = model.graph.graph
    name = f"{value.name}/prepare"
    node = onnx_ir.node("Identity", [value], name=name)
    inner = node.outputs[0]
    inner.name, inner.type, inner.shape = f"{name}d", value.type, value.shape
    for use in [use for use in value.uses() if use.node is not node]:
        use.node.replace_input_with(use.idx, inner)
    for place, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[place] = inner
    first = next(iter(graph), None)
    if first is None:
        graph.append(node)
    else:
        graph.insert_before(first, node)
    return node


class _Picture:
    """The operators of one picture.

    Args:
        build: What writes them.
        picture: What they do.
        spec: The input that they make.
    """

    def __init__(self, build: Builder, picture: Picture, spec: TensorSpec) -> None:
        self.build, self.picture, self.spec = build, picture, spec

    def fitted(self, x: Value) -> tuple[Value, Placed]:
        """A picture of any size, resized, and cut or filled up; where its pixels are then."""
        b, known = self.build, self.picture
        size = b.op("Shape", x, start=1, end=3)
        before = self._before(size)
        if before is None:
            return x, Placed(size)
        wanted = np.array([known.height or 0, known.width or 0], np.int64)
        outer = [b.size(x, 0), b.size(x, 3)]
        free = not wanted.all()
        sizes = list(before) if isinstance(before, np.ndarray) else [None, None]
        if known.interpolation == "nearest":
            x = self._nearest(x, size, before)
        else:
            x = self._resized(x, size, before)
        x.shape = onnx_ir.Shape([plain(outer[0]), *map(_number, sizes), plain(outer[1])])
        scale = b.op("Div", *(b.cast(self._value(v), DataType.FLOAT) for v in (before, size)))
        if free or (known.fill is None and not _is_cut(known)):
            return x, Placed(size, scale)
        if known.fill is not None:
            x, offset = self._filled(x, before, wanted)
        else:
            x, offset = self._cut(x, before, wanted)
        x = b.reshape(x, [outer[0], *map(int, wanted), outer[1]])
        return x, Placed(size, scale, b.cast(offset, DataType.FLOAT))

    def _resized(self, x: Value, size: Value, before: Array | Value) -> Value:
        """Antialiased. ONNX Runtime resizes along rows first, and so does Pillow, but for heights
        that shrink by more than twice as much as widths (``ImagingResampleInner``, 13.0). All
        sizes are given: ONNX Runtime's optimizer loses those of some axes."""
        b, mode = self.build, _MODES[self.picture.interpolation]
        height, width = (np.array([axis], np.int64) for axis in (0, 1))
        less = b.op("Sub", size, before)
        lower, narrower = b.op("Gather", less, height), b.op("Gather", less, width)
        most = b.op("Max", b.op("Add", narrower, narrower), np.array([0], np.int64))
        ends = (b.op("Gather", self._value(v), height) for v in (before, size))
        rows = b.op("Where", b.op("Greater", lower, most), *ends)
        shape = [plain(item) for item in b.sizes(x)]
        batch, columns = (b.op("Shape", x, start=at, end=at + 1) for at in (0, 2))
        channels = np.array(shape[3:], np.int64)
        sizes = b.op("Concat", batch, rows, columns, channels, axis=0)
        x = b.op("Resize", x, None, None, sizes, **mode)
        x.shape = onnx_ir.Shape([shape[0], None, *shape[2:]])
        sizes = b.op("Concat", batch, before, channels, axis=0)
        return b.op("Resize", x, None, None, sizes, **mode)

    def _nearest(self, x: Value, size: Value, before: Array | Value) -> Value:
        """Rows and columns that are taken as Pillow takes them: it adds steps up."""
        b = self.build
        steps = b.op("Div", *(b.cast(self._value(v), DataType.DOUBLE) for v in (size, before)))
        for axis in (0, 1):
            at = np.array([axis], np.int64)
            step, count = b.op("Gather", steps, at), b.op("Gather", self._value(before), at)
            others = b.op("Expand", step, b.op("Sub", count, np.array([1], np.int64)))
            first = b.op("Mul", step, np.array(0.5, np.float64))
            sums = b.op("CumSum", b.op("Concat", first, others, axis=0), np.array(0, np.int64))
            x = b.op("Gather", x, b.cast(b.op("Floor", sums), DataType.INT64), axis=axis + 1)
        return x

    def _value(self, operand: Array | Value) -> Value:
        value = self.build.value(operand)
        assert value is not None
        return value

    def _before(self, size: Value) -> Array | Value | None:
        """Height and width to resize to, int64 [2]; None for no other than they are."""
        b, known = self.build, self.picture
        wanted = None if known.height is None else np.array([known.height, known.width], np.int64)
        one = np.array([1], np.int64)
        if known.longest is not None:
            return self._within(size, known.longest)
        if known.fill is not None:  # as large as fits
            own = b.cast(size, DataType.DOUBLE)
            assert wanted is not None
            ratio = b.reduce("ReduceMin", b.op("Div", wanted.astype(np.float64), own), [0])
            return b.op("Max", b.cast(b.op("Round", b.op("Mul", own, ratio)), DataType.INT64), one)
        if known.resize is None:
            return wanted
        if isinstance(known.resize, tuple):
            return np.array(known.resize, np.int64)
        shorter = b.reduce("ReduceMin", size, [0])
        longer = b.op("Mul", size, np.array([known.resize], np.int64))
        return b.op("Max", b.op("Div", longer, shorter), one)

    def _within(self, size: Value, longest: int) -> Value:
        """The longer side at most so long, both the nearest multiples."""
        b, step = self.build, np.array([self.picture.multiple], np.int64)
        own, unit = b.cast(size, DataType.DOUBLE), step.astype(np.float64)
        ratio = b.op("Div", np.array([longest], np.float64), b.reduce("ReduceMax", own, [0]))
        sides = b.op("Mul", own, b.op("Min", ratio, np.array([1], np.float64)))
        count = b.cast(b.op("Round", b.op("Div", sides, unit)), DataType.INT64)
        return b.op("Max", b.op("Mul", count, step), step)

    def _cut(self, x: Value, before: Array | Value, wanted: Array) -> tuple[Value, Value]:
        b = self.build
        left = b.cast(b.op("Sub", before, wanted), DataType.FLOAT)
        start = b.cast(b.op("Round", b.op("Mul", left, np.array(0.5, np.float32))), DataType.INT64)
        x = b.op("Slice", x, start, b.op("Add", start, wanted), np.array([1, 2], np.int64))
        return x, b.op("Neg", start)

    def _filled(self, x: Value, before: Array | Value, wanted: Array) -> tuple[Value, Value]:
        b = self.build
        left = b.op("Sub", wanted, before)
        half = b.op("Mul", b.cast(left, DataType.DOUBLE), np.array(0.5, np.float64))
        start = b.cast(b.op("Round", b.op("Sub", half, np.array(0.1, np.float64))), DataType.INT64)
        pads = b.op("Concat", start, b.op("Sub", left, start), axis=0)
        grey = np.array(self.picture.fill or 0, np.uint8)
        return b.op("Pad", x, pads, grey, np.array([1, 2], np.int64)), start

    def valued(self, x: Value) -> Value:
        """Pixels as values, in the input's order of channels and axes."""
        b, known = self.build, self.picture
        mean, std = (np.array(part, np.float64) for part in (known.mean, known.std))
        shift, factor = mean / known.scale, known.scale / std
        plain_ = not shift.any() and (factor == 1).all()
        if not plain_ or self.spec.is_float:
            x = b.cast(x, DataType.FLOAT)  # first: some runtimes take uint8 nowhere else
        if known.color.startswith("bgr"):
            order = np.array([2, 1, 0, 3][: len(known.mean)], np.int64)
            x = b.op("Gather", x, order, axis=3)
        first = known.layout == "CHW"
        if first:
            x = b.transpose(x, (0, 3, 1, 2))
        if shift.any():
            x = b.op("Sub", x, _by_channel(shift, first))
        if (factor != 1).any():
            x = b.op("Mul", x, _by_channel(factor, first))
        return x

    def typed(self, x: Value) -> Value:
        """Values in the input's type; as the integers that stand for them, where it has a scale."""
        b, spec = self.build, self.spec
        dtype = dtype_from_name(spec.dtype)
        if spec.scale is None:
            return b.cast(x, dtype)
        zero = np.array(spec.zero_point or 0, dtype.numpy())
        return b.op(
            "QuantizeLinear", b.cast(x, DataType.FLOAT), np.array(spec.scale, np.float32), zero
        )


def _by_channel(values: Array, first: bool) -> Array:
    made = values.astype(np.float32)
    if (made == made[0]).all():
        made = made[:1]
    return made.reshape(-1, 1, 1) if first else made


def _number(size: Size | None) -> int | None:
    return None if size is None else int(size)  # type: ignore[arg-type]
