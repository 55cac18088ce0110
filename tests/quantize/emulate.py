"""Quantization by its formulas, in float64: what a Q/DQ model has to compute, to within a step.

Written from the ONNX pages of QuantizeLinear and DequantizeLinear and the targets' documents, and
sharing no code with what is tested. Operators are ONNX's reference implementations.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.reference

from converter.precision.int8.scheme import Scheme
from tests.passes.models import Array


@dataclass(frozen=True)
class Step:
    """A tensor's scale and zero point, and the integers it has."""

    scale: float
    zero: int
    low: int
    high: int

    def round_trip(self, values: Array) -> Array:
        """What is left of real numbers that were integers in between."""
        stored = np.clip(np.round(values / self.scale) + self.zero, self.low, self.high)
        return (stored - self.zero) * self.scale


LIMITS = {"uint8": (0, 255), "int8": (-128, 127), "int16": (-32768, 32767)}


def step_of(low: float, high: float, scheme: Scheme) -> Step:
    """The quantization of a range."""
    low, high = min(low, 0.0), max(high, 0.0)
    bottom, top = LIMITS[scheme.activations]
    if scheme.symmetric:
        half = (top - bottom) // 2
        return Step(_float32(max(-low, high) / half) or 1.0, bottom + half + 1, bottom, top)
    scale = _float32((high - low) / 255) or 1.0
    zero = int(np.clip(bottom - np.round(low / scale), bottom, top))
    return Step(scale, zero, bottom, top)


def _float32(value: float) -> float:
    return float(np.float32(value))


@dataclass
class Emulation:
    """A float model, computed as a scheme would.

    Attributes:
        model: The float model.
        scheme: Whose formulas.
        ranges: Of the activations, by name.
        quantized: Names of the activations that are rounded.
        same: Sets of tensors with one scale: that of all their ranges.
        fixed: Scale and zero point of a tensor, where the target demands them.
    """

    model: onnx.ModelProto
    scheme: Scheme
    ranges: Mapping[str, tuple[float, float]]
    quantized: Collection[str]
    same: Collection[tuple[str, ...]] = ()
    fixed: Mapping[str, tuple[float, int]] = field(default_factory=dict)

    def step(self, name: str) -> Step:
        """A tensor's quantization."""
        group = next((names for names in self.same if name in names), (name,))
        for member in group:
            if member in self.fixed:
                scale, zero = self.fixed[member]
                return Step(scale, zero, *LIMITS[self.scheme.activations])
        known = [self.ranges[member] for member in group if member in self.ranges]
        return step_of(min(low for low, _ in known), max(high for _, high in known), self.scheme)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Every activation by name, in float64; rounded where it is quantized."""
        tensors = self.model.graph.initializer
        known = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in tensors}
        constants = set(known)
        known.update({name: self._rounded(name, array) for name, array in feeds.items()})
        for node in self.model.graph.node:
            inputs = self._inputs(node, known, constants)
            for name, array in zip(node.output, _compute(node, inputs), strict=True):
                known[name] = self._rounded(name, array)
        return known

    def _rounded(self, name: str, array: Array) -> Array:
        if array.dtype.kind != "f":
            return array
        wide = array.astype(np.float64)
        return self.step(name).round_trip(wide) if name in self.quantized else wide

    def _inputs(
        self, node: onnx.NodeProto, known: dict[str, Array], constants: set[str]
    ) -> list[Array | None]:
        inputs = [known[name] if name else None for name in node.input]
        if not any(name in self.quantized for name in node.input):
            return inputs
        for i, name in enumerate(node.input):
            array = known.get(name)
            if name in constants and array is not None and array.dtype.kind == "f":
                inputs[i] = self._constant(node, i, array.astype(np.float64), known)
        return inputs

    def _constant(
        self, node: onnx.NodeProto, index: int, array: Array, known: dict[str, Array]
    ) -> Array:
        if node.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
            if node.op_type not in self.scheme.matrix_ops:
                return array
            if index == 1:
                return self._weight(node, array)
            if index == 2:
                return self._bias(node, array, known)
        if node.op_type in ("Clip", "Pad", "Resize"):
            return array
        group = next((names for names in self.same if node.output[0] in names), ())
        if group:
            return self.step(node.output[0]).round_trip(array)
        return step_of(float(array.min()), float(array.max()), self.scheme).round_trip(array)

    def _weight(self, node: onnx.NodeProto, array: Array) -> Array:
        scales = self._scales(node, array)
        limit = self.scheme.weight_limit
        return np.clip(np.round(array / scales), -limit, limit) * scales

    def _scales(self, node: onnx.NodeProto, array: Array) -> Array:
        axis = _channels(node, array) if self.scheme.per_channel else None
        others = None if axis is None else tuple(i for i in range(array.ndim) if i != axis)
        largest = np.abs(array).max(axis=others, keepdims=True)
        scales = np.float32(largest / self.scheme.weight_limit).astype(np.float64)
        scales[scales == 0] = 1
        return scales

    def _bias(self, node: onnx.NodeProto, array: Array, known: dict[str, Array]) -> Array:
        if self.scheme.bias == "float32":
            return array
        scales = self._scales(node, known[node.input[1]].astype(np.float64)).reshape(-1)
        steps = self.step(node.input[0]).scale * np.tile(scales, max(array.size // scales.size, 1))
        return np.round(array / steps) * steps


def _channels(node: onnx.NodeProto, array: Array) -> int | None:
    if node.op_type == "Conv":
        return 0
    if node.op_type == "ConvTranspose":
        return 1
    if node.op_type == "Gemm":
        return 0 if any(a.name == "transB" and a.i for a in node.attribute) else 1
    return 1 if array.ndim == 2 else None


def _compute(node: onnx.NodeProto, inputs: list[Array | None]) -> list[Array]:
    """One node by ONNX's reference, in float64."""
    groups = next((a.i for a in node.attribute if a.name == "group"), 1)
    if node.op_type == "ConvTranspose" and groups > 1:
        return [_grouped(node, inputs, groups)]
    single = onnx.NodeProto()
    single.CopyFrom(node)
    single.input[:] = [f"i{k}" if array is not None else "" for k, array in enumerate(inputs)]
    feeds = {n: _wide(a) for n, a in zip(single.input, inputs, strict=True) if a is not None}
    return [np.asarray(a) for a in onnx.reference.ReferenceEvaluator(single).run(None, feeds)]


def _grouped(node: onnx.NodeProto, inputs: list[Array | None], groups: int) -> Array:
    """A ConvTranspose group by group: the reference can't have several."""
    single = onnx.NodeProto()
    single.CopyFrom(node)
    next(a for a in single.attribute if a.name == "group").i = 1
    x, w, bias = (*inputs, None)[:3]
    assert x is not None and w is not None
    biases = [None] * groups if bias is None else np.split(bias, groups)
    parts = zip(np.split(x, groups, 1), np.split(w, groups, 0), biases, strict=True)
    return np.concatenate([_compute(single, [*part])[0] for part in parts], 1)


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array
