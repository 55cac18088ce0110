"""Finds normalizations that are spelled out: the mean, the variance, the quotient.

    x_hat = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon)        centered
    x_hat = x / sqrt(mean(x^2) + epsilon)                                not centered

PyTorch writes a quotient, TensorFlow and Keras ``x r + (b - mean r)`` with ``r`` the scale over
the root. Squares are products or powers; roots are Sqrt or Pow; a difference may be turned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir

from converter.ir.edit import attribute_int, constant_tensor, integers, static_shape
from converter.passes.fuse.patterns import either_order, input_of, producer, scalar


@dataclass(frozen=True)
class Moments:
    """A normalization up to its scale and bias.

    Attributes:
        x: What is normalized.
        axes: Over which axes, ascending; None where they or the rank aren't known.
        epsilon: Added to the variance; None where it isn't a constant.
        centered: Whether the mean is subtracted.
        mean: It, where it is.
        nodes: Everything that was read.
    """

    x: onnx_ir.Value
    axes: tuple[int, ...] | None
    epsilon: float | None
    centered: bool
    mean: onnx_ir.Value | None
    nodes: tuple[onnx_ir.Node, ...]


def inverse_root(value: onnx_ir.Value) -> tuple[onnx_ir.Value, list[onnx_ir.Node]] | None:
    """``v`` where ``value`` is 1 / sqrt(v), and the nodes of that."""
    node = producer(value, "Reciprocal", "Div", "Pow")
    if node is None:
        return None
    if node.op_type == "Pow":
        base = node.inputs[0]
        return (base, [node]) if base and scalar(input_of(node, 1)) == -0.5 else None
    if node.op_type == "Div" and scalar(node.inputs[0]) != 1:
        return None
    below = root(node.inputs[-1])
    return (below[0], [node, *below[1]]) if below is not None else None


def root(value: onnx_ir.Value | None) -> tuple[onnx_ir.Value, list[onnx_ir.Node]] | None:
    """``v`` where ``value`` is sqrt(v), and the node of that."""
    node = producer(value, "Sqrt", "Pow")
    if node is None or node.inputs[0] is None:
        return None
    if node.op_type == "Pow" and scalar(input_of(node, 1)) != 0.5:
        return None
    return node.inputs[0], [node]


def normalized(node: onnx_ir.Node) -> Moments | None:
    """The normalization whose quotient ``node`` is; None where it isn't one."""
    divides = node.op_type == "Div"
    for data, other in either_order(node)[: 1 if divides else 2]:
        found = root(other) if divides else inverse_root(other)
        if found is None:
            continue
        variance, nodes = found
        for moments in _variances(variance):
            if data is moments.x and not moments.centered:
                return _with(moments, [node, *nodes])
            centered = difference(data, moments)
            if moments.centered and centered is not None:
                return _with(moments, [node, *nodes, *centered])
    return None


def _with(moments: Moments, nodes: list[onnx_ir.Node]) -> Moments:
    every = tuple(dict.fromkeys([*nodes, *moments.nodes]))
    return Moments(moments.x, moments.axes, moments.epsilon, moments.centered, moments.mean, every)


def difference(value: onnx_ir.Value, moments: Moments) -> list[onnx_ir.Node] | None:
    """The nodes of ``value``, where it is x less its mean."""
    node = producer(value, "Sub")
    if node is None or node.inputs[0] is not moments.x:
        return None
    if node.inputs[1] is moments.mean:
        return [node]
    twin = _mean(node.inputs[1])
    if twin is None or twin[0] is not moments.x or twin[1] != moments.axes:
        return None
    return [node, twin[2]]


def _variances(value: onnx_ir.Value) -> Iterator[Moments]:
    """What ``value`` is the variance of, epsilon added: of x, and of what x is a difference of."""
    total = producer(value, "Add")
    for variance, number in either_order(total) if total is not None else ():
        mean = _mean(variance)
        if mean is None or total is None or _looks_computed(number):
            continue
        squares, axes, reduced = mean
        squared = _squared(squares)
        if squared is None:
            continue
        inner, square = squared
        nodes = (total, reduced, square)
        epsilon = scalar(number)
        yield from _centered(inner, axes, epsilon, nodes)
        yield Moments(inner, axes, epsilon, False, None, nodes)


def _looks_computed(number: onnx_ir.Value) -> bool:
    return constant_tensor(number) is None and number.producer() is not None


def _centered(
    inner: onnx_ir.Value,
    axes: tuple[int, ...] | None,
    epsilon: float | None,
    nodes: tuple[onnx_ir.Node, ...],
) -> Iterator[Moments]:
    minus = producer(inner, "Sub")
    for x, other in either_order(minus) if minus is not None else ():
        center = _mean(other)
        if center is not None and minus is not None and center[0] is x and center[1] == axes:
            yield Moments(x, axes, epsilon, True, other, (*nodes, minus, center[2]))


def _squared(value: onnx_ir.Value) -> tuple[onnx_ir.Value, onnx_ir.Node] | None:
    node = producer(value, "Mul", "Pow")
    if node is None or node.inputs[0] is None:
        return None
    product = node.op_type == "Mul" and node.inputs[0] is node.inputs[1]
    power = node.op_type == "Pow" and _two(input_of(node, 1))
    return (node.inputs[0], node) if product or power else None


def _two(value: onnx_ir.Value | None) -> bool:
    tensor = constant_tensor(value)
    return tensor is not None and tensor.size == 1 and float(tensor.numpy().reshape(())) == 2


def _mean(
    value: onnx_ir.Value | None,
) -> tuple[onnx_ir.Value, tuple[int, ...] | None, onnx_ir.Node] | None:
    """What ``value`` is the mean of, dimensions kept; over which axes; by which node."""
    node = producer(value, "ReduceMean")
    if node is None or node.inputs[0] is None or attribute_int(node, "keepdims", 1) != 1:
        return None
    shape, axes = static_shape(node.inputs[0]), integers(input_of(node, 1))
    if shape is None or axes is None:
        return node.inputs[0], None, node
    return node.inputs[0], tuple(sorted(axis % len(shape) for axis in axes)), node


@dataclass(frozen=True)
class Spread:
    """``x r + (b - mean r)``, the form that saves a subtraction.

    Attributes:
        moments: What is normalized.
        scale, bias: Constants, where there are any.
    """

    moments: Moments
    scale: onnx_ir.Value | None
    bias: onnx_ir.Value | None


def spread(node: onnx_ir.Node) -> Spread | None:
    """The normalization that ends in the sum ``node``; None where it isn't one."""
    pairs = either_order(node)
    for first, second in pairs[:1] if node.op_type == "Sub" else pairs:
        product = producer(first, "Mul")
        for x, factor in either_order(product) if product is not None else ():
            inverse = _scaled_inverse(factor)
            if inverse is None or product is None:
                continue
            variance, scale, nodes = inverse
            for moments in _variances(variance):
                rest = _rest(second, moments, factor, node.op_type == "Sub")
                if moments.centered and moments.x is x and rest is not None:
                    every = [node, product, *nodes, *rest[1]]
                    return Spread(_with(moments, every), scale, rest[0])
    return None


def _scaled_inverse(
    value: onnx_ir.Value,
) -> tuple[onnx_ir.Value, onnx_ir.Value | None, list[onnx_ir.Node]] | None:
    plain = inverse_root(value)
    if plain is not None:
        return plain[0], None, plain[1]
    product = producer(value, "Mul")
    for inner, scale in either_order(product) if product is not None else ():
        found = inverse_root(inner)
        if found is not None and product is not None and constant_tensor(scale) is not None:
            return found[0], scale, [product, *found[1]]
    return None


def _rest(
    value: onnx_ir.Value, moments: Moments, factor: onnx_ir.Value, subtracted: bool
) -> tuple[onnx_ir.Value | None, list[onnx_ir.Node]] | None:
    """The bias in ``b - mean r``, and the nodes; the whole is subtracted where b is missing."""
    bare = _mean_product(value, moments, factor, negative=not subtracted)
    if bare is not None:
        return None, bare
    node = producer(value, "Sub", "Add")
    if node is None or subtracted:
        return None
    pairs = either_order(node)
    for bias, product in pairs[:1] if node.op_type == "Sub" else pairs:
        found = _mean_product(product, moments, factor, negative=node.op_type == "Add")
        if found is not None and constant_tensor(bias) is not None:
            return bias, [node, *found]
    return None


def _mean_product(
    value: onnx_ir.Value, moments: Moments, factor: onnx_ir.Value, *, negative: bool
) -> list[onnx_ir.Node] | None:
    """The nodes of ``mean r``, or of ``-mean r`` where that is wanted."""
    outer = producer(value, "Neg")
    if negative and outer is not None and outer.inputs[0] is not None:
        inner = _mean_product(outer.inputs[0], moments, factor, negative=False)
        return [outer, *inner] if inner is not None else None
    product = producer(value, "Mul")
    for mean, other in either_order(product) if product is not None else ():
        turned = producer(mean, "Neg") if negative else None
        center = turned.inputs[0] if turned is not None else mean
        if (turned is not None) == negative and center is moments.mean and other is factor:
            assert product is not None
            return [product, *([turned] if turned is not None else [])]
    return None
