"""Puts Q and DQ into a graph, and integers in the place of float weights and biases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir

from converter.errors import ModelError
from converter.ir.edit import add_constant, constant_tensor, is_op
from converter.ir.model import Model
from converter.precision.int8.activations import Affine, affine
from converter.precision.int8.placement import Placement
from converter.precision.int8.units import Unit, clip_bounds, merges
from converter.precision.int8.weights import fit_bias, store_bias, store_weight, weight_scales

Array = np.ndarray[Any, Any]


class Inserter:
    """Puts Q and DQ into a model.

    Args:
        model: The model, which is changed.
        placement: Where Q and DQ go.
        affines: Scale and zero point of activations, by tensor.
        rounded: Stored int8 weights by initializer, in the place of the nearest ones.

    Attributes:
        adjusted: How many channels got another weight scale for their bias's sake.
    """

    def __init__(
        self,
        model: Model,
        placement: Placement,
        affines: Mapping[str, Affine],
        rounded: Mapping[str, Array],
    ) -> None:
        self.graph = model.graph.graph
        self.placement, self.scheme, self.affines = placement, placement.scheme, affines
        self.rounded = rounded
        self.read = set(placement.read)
        self.adjusted = 0
        self._taken = {node.name for node in model.nodes()} | {
            value.name for node in model.nodes() for value in node.outputs
        }
        self._taken |= {value.name for value in (*self.graph.inputs, *model.initializers())}
        self._parameters: dict[Affine, tuple[onnx_ir.Value, onnx_ir.Value]] = {}
        self._stored: dict[Any, onnx_ir.Value] = {}

    def insert(self) -> None:
        replaced: list[onnx_ir.Value] = []
        for unit in self.placement.units:
            replaced += self._store_constants(unit)
            if merges(unit, self.scheme):
                replaced += self._store_matrix(self._merged(unit))
            elif unit.weight is not None:
                replaced += self._store_matrix(unit)
                self._spread_bias(unit)
            for node in unit.folded:
                _make_relu(node)
        for value in self.placement.quantized:
            self._quantize(value)
        for value in replaced:
            self._drop(value)

    # -- activations -------------------------------------------------------------------

    def _quantize(self, value: onnx_ir.Value) -> None:
        name = value.name or ""
        chosen = self.affines[name]
        scale, zero = self._parameters_of(chosen, name)
        only = name in self.placement.only
        uses = [use for use in value.uses() if only or (use.node, use.idx) in self.read]
        output = only and value.is_graph_output()
        if output:
            value.name = self._name(f"{name}_float")
        quantized = self._node("QuantizeLinear", [value, scale, zero], f"{name}_QuantizeLinear")
        integers = quantized.outputs[0]
        integers.name = self._name(f"{name}_quantized")
        integers.dtype = onnx_ir.DataType[chosen.dtype.upper()]
        restored = self._node(
            "DequantizeLinear", [integers, scale, zero], f"{name}_DequantizeLinear"
        )
        self._place_after(value, [quantized, restored])
        real = restored.outputs[0]
        real.name = name if output else self._name(f"{name}_dequantized")
        real.dtype = onnx_ir.DataType.FLOAT
        integers.shape, real.shape = value.shape, value.shape
        for use in uses:
            use.node.replace_input_with(use.idx, real)
        if output:
            self.graph.outputs[list(self.graph.outputs).index(value)] = real

    def _place_after(self, value: onnx_ir.Value, nodes: list[onnx_ir.Node]) -> None:
        producer = value.producer()
        if producer is not None:
            self.graph.insert_after(producer, nodes)
        else:
            self.graph.insert_before(next(iter(self.graph)), nodes)

    def _parameters_of(self, chosen: Affine, name: str) -> tuple[onnx_ir.Value, onnx_ir.Value]:
        if chosen not in self._parameters:
            zero = np.array(chosen.zero_point, chosen.dtype)
            self._parameters[chosen] = (
                self._constant(np.array(chosen.scale, np.float32), f"{name}_scale"),
                self._constant(zero, f"{name}_zero_point"),
            )
        return self._parameters[chosen]

    # -- biases behind a MatMul --------------------------------------------------------

    def _merged(self, unit: Unit) -> Unit:
        """A MatMul and the Add behind it as a Gemm; the Add's node becomes it."""
        assert unit.bias is not None and unit.node.name is not None
        gemm, index = unit.bias
        inputs = [*unit.node.inputs, gemm.inputs[index]]
        gemm.op_type, name = "Gemm", unit.node.name
        gemm.resize_inputs(3)
        for i, value in enumerate(inputs):
            gemm.replace_input_with(i, value)
        self.graph.remove(unit.node, safe=True)
        gemm.name = name
        self.read.update((gemm, i) for node, i in self.placement.read if node is unit.node)
        return replace(unit, node=gemm, bias=(gemm, 2), folded=unit.folded[1:])

    def _spread_bias(self, unit: Unit) -> None:
        """Gives a float bias two dimensions: with one, the target would make a float Gemm of it.

        That is where every size is known; elsewhere it leaves the two apart.
        """
        first = unit.node.inputs[0]
        sized = first is not None and first.shape is not None and first.shape.is_static()
        if not self.scheme.merges_bias or not sized:
            return
        if unit.bias is None or unit.bias[0] is unit.node:
            return
        node, index = unit.bias
        value = node.inputs[index]
        assert value is not None
        wide = self._constant(_array(value).reshape(1, -1), f"{value.name}_row")
        node.replace_input_with(index, wide)
        self._drop(value)

    # -- constants ---------------------------------------------------------------------

    def _store_constants(self, unit: Unit) -> list[onnx_ir.Value]:
        """Constant inputs of operators without weights: as activations are."""
        done = []
        for index in unit.constants:
            value = unit.node.inputs[index]
            assert value is not None
            array = _array(value)
            if unit.node.op_type in self.scheme.shared_ops:
                chosen = self.affines[unit.end.name or ""]
            else:
                chosen = affine(float(array.min()), float(array.max()), self.scheme)
            scale, zero = self._parameters_of(chosen, value.name or "")
            key = (value.name, chosen)
            if key not in self._stored:
                self._stored[key] = self._restored(
                    value, chosen.store(array), [scale, zero], None, unit.node
                )
            unit.node.replace_input_with(index, self._stored[key])
            done.append(value)
        return done

    def _store_matrix(self, unit: Unit) -> list[onnx_ir.Value]:
        assert unit.weight is not None
        value = unit.node.inputs[unit.weight]
        assert value is not None
        alpha, beta = _take_factors(unit.node)
        weight = _array(value) * np.float32(alpha) if alpha != 1.0 else _array(value)
        bias = None
        if unit.bias is not None:
            bias = _bias(unit, weight) * np.float32(beta)
        scale = self._input_scale(unit)
        scales = weight_scales(weight, unit.axis, self.scheme.weight_limit)
        integer_bias = bias is not None and scale is not None and self._wants_integer_bias(unit)
        if integer_bias:
            fitted = fit_bias(scales, weight, unit.axis, bias, scale)  # type: ignore[arg-type]
            self.adjusted += int((fitted != scales).sum())
            scales = fitted
        self._replace_weight(unit, value, weight, scales, alpha)
        done = [value]
        if bias is not None and unit.bias is not None:
            old = unit.bias[0].inputs[unit.bias[1]]
            assert old is not None
            if integer_bias:
                assert scale is not None
                stored, steps = store_bias(bias, scales, scale)
                new = self._restored(old, stored, self._steps(old, steps, stored), 0, unit.bias[0])
            elif beta != 1.0:
                new = self._constant(bias, f"{old.name}_scaled")
            else:
                return done
            unit.bias[0].replace_input_with(unit.bias[1], new)
            done.append(old)
        return done

    def _replace_weight(
        self, unit: Unit, value: onnx_ir.Value, weight: Array, scales: Array, alpha: float
    ) -> None:
        assert unit.weight is not None
        key = (value.name, unit.axis, scales.tobytes(), alpha)
        if key not in self._stored:
            given = self.rounded.get(value.name or "")
            if given is None:
                stored = store_weight(weight, scales, unit.axis, self.scheme.weight_limit)
            elif given.shape == weight.shape and given.dtype == np.int8:
                stored = given if alpha >= 0 else -given
            else:
                raise ModelError(
                    f"the rounded weight {value.name} is {given.dtype}{list(given.shape)}; "
                    f"int8{list(weight.shape)} was expected",
                    code="precision-unavailable",
                )
            steps = self._steps(value, scales, stored)
            self._stored[key] = self._restored(value, stored, steps, unit.axis, unit.node)
        unit.node.replace_input_with(unit.weight, self._stored[key])

    def _wants_integer_bias(self, unit: Unit) -> bool:
        """A bias behind a MatMul is the kernel's own only where the kernel writes integers."""
        assert unit.bias is not None
        own = unit.bias[0] is unit.node or unit.node.op_type in self.scheme.output_ops
        return self.scheme.bias == "int32" and own

    def _input_scale(self, unit: Unit) -> float | None:
        value = unit.node.inputs[unit.activations[0]]
        assert value is not None
        chosen = self.affines.get(value.name or "")
        return None if chosen is None else chosen.scale

    def _restored(
        self,
        value: onnx_ir.Value,
        stored: Array,
        parameters: list[onnx_ir.Value],
        axis: int | None,
        before: onnx_ir.Node,
    ) -> onnx_ir.Value:
        """The real numbers of a constant stored as integers: its DequantizeLinear's output."""
        name = value.name or ""
        integers = self._constant(stored, f"{name}_quantized")
        attributes = {} if axis is None else {"axis": axis}
        node = self._node(
            "DequantizeLinear", [integers, *parameters], f"{name}_DequantizeLinear", attributes
        )
        self.graph.insert_before(before, node)
        result = node.outputs[0]
        result.name = self._name(f"{name}_dequantized")
        result.dtype, result.shape = onnx_ir.DataType.FLOAT, integers.shape
        return result

    def _steps(self, value: onnx_ir.Value, scales: Array, stored: Array) -> list[onnx_ir.Value]:
        """Scales, and zero points of 0, which ONNX Runtime's kernels want to see."""
        zeros = np.zeros(scales.shape, stored.dtype)
        return [
            self._constant(scales, f"{value.name}_scale"),
            self._constant(zeros, f"{value.name}_zero_point"),
        ]

    # -- small parts -------------------------------------------------------------------

    def _constant(self, array: Array, name: str) -> onnx_ir.Value:
        return add_constant(self.graph, self._name(name), array)

    def _node(
        self,
        op: str,
        inputs: list[onnx_ir.Value],
        name: str,
        attributes: Mapping[str, int] | None = None,
    ) -> onnx_ir.Node:
        return onnx_ir.node(op, inputs, dict(attributes or {}), name=self._name(name))

    def _name(self, wanted: str) -> str:
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name

    def _drop(self, value: onnx_ir.Value) -> None:
        """Takes away a constant that nothing reads any more."""
        if list(value.uses()) or value.is_graph_output():
            return
        if value.is_initializer():
            self.graph.initializers.pop(value.name or "", None)
        elif value.producer() is not None and value.producer().graph is self.graph:  # type: ignore[union-attr]
            self.graph.remove(value.producer(), safe=True)  # type: ignore[arg-type]


def _array(value: onnx_ir.Value) -> Array:
    tensor = constant_tensor(value)
    assert tensor is not None
    array: Array = tensor.numpy()
    return array


def _bias(unit: Unit, weight: Array) -> Array:
    """A bias as one number for each output channel, whatever shape it was broadcast from."""
    assert unit.bias is not None
    value = unit.bias[0].inputs[unit.bias[1]]
    assert value is not None
    array = _array(value).reshape(-1)
    if array.size > 1 or unit.node.op_type != "Gemm":
        return array
    transposed = unit.node.attributes.get_int("transB", 0)
    return np.broadcast_to(array, (weight.shape[0 if transposed else 1],))


def _take_factors(node: onnx_ir.Node) -> tuple[float, float]:
    """A Gemm's alpha and beta, which go into the stored numbers: kernels know neither."""
    if node.op_type != "Gemm":
        return 1.0, 1.0
    alpha = node.attributes.get_float("alpha", 1.0)
    beta = node.attributes.get_float("beta", 1.0)
    for name in ("alpha", "beta"):
        node.attributes.pop(name, None)
    return alpha, beta


def _make_relu(node: onnx_ir.Node) -> None:
    """A Clip at 0 with no upper bound becomes a Relu, which quantization is known to do."""
    if is_op(node, "Clip") and clip_bounds(node) == (0.0, float("inf")):
        node.op_type = "Relu"
        node.resize_inputs(1)
