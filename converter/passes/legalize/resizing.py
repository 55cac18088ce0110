"""Resize and Upsample where a target has no operator that samples at the same places.

It goes axis by axis: nearest is a Gather; linear adds two Gathers times their weights, cubic four,
or is a product with a constant matrix, as what is antialiased is. Indices and weights are
constants, or computed by the same formulas where sizes are free.

There, a place that nearest has half way between two samples may fall to either with scales that
float32 doesn't hold (0.3): the last bit decides, in ONNX Runtime too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnx_ir

from converter.ir.refused import Refused
from converter.passes.legalize.builder import (
    Array,
    Builder,
    DataType,
    Free,
    Size,
    Value,
    dims,
    rank,
)
from converter.passes.legalize.formulas import Numbers
from converter.passes.legalize.resize_plan import Asked, Axis, asked_of, axes_of, known_extent
from converter.passes.legalize.resize_reference import indices_of, weights_of
from converter.passes.legalize.resize_rules import Extent, nearest, originals, samples

LARGEST = 1 << 18
"""Elements of a matrix above which samples are gathered instead."""


@dataclass(frozen=True)
class _Resize:
    """One node being written: what it asks for, and where new ones go."""

    b: Builder
    asked: Asked

    def axis(self, x: Value, axis: Axis) -> Value:
        """``x`` with one axis resized."""
        rule, known = replace(self.asked.rule, extrapolation=0.0), axis.known
        if known is not None and rule.mode == "nearest" and not rule.crops:
            indices = indices_of(rule, known)
            if indices is not None:
                return self.b.op("Gather", x, indices.astype(np.int64), axis=axis.axis)
        if known is not None and (
            rule.antialias or (rule.mode == "cubic" and known.size * known.out <= LARGEST)
        ):
            weights = weights_of(rule, known)
            if weights is not None:
                return self._product(x, axis.axis, weights)
        if rule.antialias:
            raise Refused(
                "a Resize of free sizes with antialias", "fix them with --input NAME:DIMS"
            )
        return self._blended(x, axis)

    def _product(self, x: Value, axis: int, weights: Array) -> Value:
        """The product along an axis with weights [out, size]."""
        assert x.dtype is not None
        matrix, last = weights.astype(x.dtype.numpy()), rank(x) - 1
        if axis == last - 1:
            return self.b.op("MatMul", matrix, x)
        order = [a for a in range(rank(x)) if a != axis] + [axis]
        moved = self.b.op("MatMul", self.b.transpose(x, order), np.ascontiguousarray(matrix.T))
        return self.b.transpose(moved, [order.index(a) for a in range(rank(x))])

    def _blended(self, x: Value, axis: Axis) -> Value:
        """The gathered samples, or a sum of them times their weights."""
        extent = self.extent(x, axis)
        where = originals(self.asked.rule, extent)

        def taken(index: Numbers) -> Value:
            return self.b.op("Gather", x, index.of(DataType.INT64).content, axis=axis.axis)

        if self.asked.rule.mode == "nearest":
            return taken(nearest(self.asked.rule, extent, where))
        total: Value | None = None
        for sample in samples(self.asked.rule, extent, where):
            weight = _column(sample.weight, axis, x).of(x.dtype).content
            part = self.b.op("Mul", taken(sample.index), weight)
            total = part if total is None else self.b.op("Add", total, part)
        assert total is not None
        return total

    def inside(self, x: Value, axis: Axis) -> Numbers:
        """1 where the region lies in the image, else 0."""
        extent = self.extent(x, axis)
        where = originals(self.asked.rule, extent)
        inside = Numbers(self.b, 0.0).is_at_most(where) * where.is_at_most(extent.size - 1.0)
        return _column(inside, axis, x)

    def extent(self, x: Value, axis: Axis) -> Extent:
        """An axis's numbers, for the formulas."""
        b, known = self.b, axis.known
        if known is not None:
            return known_extent(known)
        size = b.size(x, axis.axis)
        count = self._out(size, axis)
        before, out = Numbers.of_size(b, size), Numbers.of_size(b, count)
        scale = out / before
        if axis.scale is not None:
            scale = Numbers(b, axis.scale)
        elif self.asked.scales is not None:
            scale = Numbers(b, b.op("Gather", self.asked.scales, np.asarray(axis.entry), axis=0))
        region = None
        if axis.region is not None:
            region = (Numbers(b, axis.region[0]), Numbers(b, axis.region[1]))
        place = Numbers.counted(b, count).of(DataType.FLOAT)
        return Extent(place, before, out, scale, region)

    def _out(self, size: Size, axis: Axis) -> Size:
        """The size of the result along an axis."""
        if isinstance(axis.out, int):
            return axis.out
        b, at = self.b, np.asarray([axis.entry])

        def make() -> Value:
            if self.asked.sizes is not None:
                return b.op("Gather", self.asked.sizes, at, axis=0)
            if axis.scale is not None and axis.scale == round(axis.scale):
                return b.op("Mul", b.value(b.vector([size])), np.asarray([int(axis.scale)]))
            if axis.scale is None and self.asked.scales is None:
                raise Refused("it has neither scales nor sizes")
            factor: Array | Value = np.asarray([axis.scale])
            if axis.scale is None:
                factor = b.op("Gather", self.asked.scales, at, axis=0)
            made = Numbers(b, b.vector([size])) * Numbers(b, factor)
            return made.floor().of(DataType.INT64).value

        return Free(axis.out, make)


def resize(b: Builder, node: onnx_ir.Node) -> Value:
    x = node.inputs[0]
    assert x is not None and x.dtype is not None
    asked = asked_of(node, rank(x))
    rule = asked.rule
    if not x.dtype.is_floating_point() and (rule.mode != "nearest" or rule.crops):
        found = x.dtype.name.lower()
        raise Refused(f"a Resize of {found} that interpolates", "cast to float32 in the model")
    axes, made = _Resize(b, asked), x
    masks: list[Numbers] = []
    for axis in sorted(axes_of(asked, dims(x), dims(node.outputs[0])), key=lambda a: a.growth):
        if rule.crops:
            masks.append(axes.inside(made, axis))
        made = axes.axis(made, axis)
    for mask in masks:
        outside = ((1.0 - mask) * rule.extrapolation).of(x.dtype).content
        made = b.op("Add", b.op("Mul", made, mask.of(x.dtype).content), outside)
    return made


def _column(numbers: Numbers, axis: Axis, x: Value) -> Numbers:
    """Numbers for each index of the result along an axis: [out, 1...]."""
    return numbers.expanded(range(1, rank(x) - axis.axis))


REWRITES = {"Resize": resize, "Upsample": resize}
