"""What OpenVINO's conversion gives, so that its CPU computes what ONNX says.

- ``TopK`` takes the lower of two indices of one value where it is ``stable``; by itself any.
- ``NonMaxSuppression`` drops boxes whose overlap *is* the threshold; ONNX, what is above it. The
  next float is the same question.
- ``ReduceMax`` of nothing but minus infinity is -3.4e38 (seen in 2026.4): attention asks so
  whether all of a row is masked.
- ``Tile`` of four axes and more with repeats that aren't constant gives what lay in memory (seen in
  2026.4): a Broadcast between two Reshapes is the same.
- What becomes a truth value and is one of an operator's several outputs isn't compiled (seen in
  2026.4): it is compared with 0.
- Blocks of weights that came in 8 bits and need 4 are packed: ONNX of our opset has no such
  integers.
- An input that no operator takes is dropped, and put back: clients give it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from converter.ir.model import TensorSpec
from emitters.openvino.engine import engine

_COUNTED = re.compile(r"_\d+$")
_ASKS = ("Equal", "NotEqual", "IsInf")
_FEW = 1024
"""Weights below which none are stored in fewer bits."""

_HANDS_ON = ("Convert", "ConvertLike", "Identity")


def mend(model: Any) -> None:
    """Changes an ``openvino.Model`` in place, its bodies too."""
    for node in model.get_ordered_ops():
        for body in bodies(node):
            mend(body)
        rewrite = _MENDED.get(node.get_type_name())
        if rewrite is not None:
            rewrite(node)
    model.validate_nodes_and_infer_types()


def number(model: Any, known: Container[str]) -> None:
    """Names what has no name of the source's by its place: OpenVINO counts all that a process
    made, and bytes would be others in each."""
    for index, node in enumerate(model.get_ordered_ops()):
        name = node.get_friendly_name()
        if name not in known and _COUNTED.search(name):
            node.set_friendly_name(f"{node.get_type_name()}:{index}")
        for body in bodies(node):
            number(body, known)


def bodies(node: Any) -> list[Any]:
    """The graphs inside of an operator."""
    kind = node.get_type_name()
    if kind == "If":
        return [node.get_function(index) for index in range(2)]
    return [node.get_function()] if kind in ("Loop", "TensorIterator") else []


def put_back(model: Any, specs: Sequence[TensorSpec], types: dict[str, str]) -> Any:
    """The model with all of these inputs, in this order.

    Args:
        model: It has some of them.
        specs: Their names and shapes.
        types: OpenVINO's type by ours.
    """
    openvino = engine()
    known = {name: node for node in model.get_parameters() for name in node.output(0).get_names()}
    if [spec.name for spec in specs] == [
        p.output(0).get_any_name() for p in model.get_parameters()
    ]:
        return model
    for spec in specs:
        if spec.name not in known:
            sizes = [size if isinstance(size, int) else -1 for size in spec.shape or ()]
            shape = (
                openvino.PartialShape(sizes)
                if spec.shape is not None
                else openvino.PartialShape.dynamic()
            )
            made = openvino.op.Parameter(getattr(openvino.Type, types[spec.dtype]), shape)
            made.set_friendly_name(spec.name)
            made.output(0).set_names({spec.name})
            known[spec.name] = made
    results, sinks = model.get_results(), model.get_sinks()
    made = openvino.Model(
        results, sinks, [known[spec.name] for spec in specs], model.get_friendly_name()
    )
    for key, value in model.get_rt_info().items():
        made.set_rt_info(value, key)
    return made


def _replace(old: Any, new: Any) -> None:
    """Gives everyone who takes ``old``'s outputs those of ``new``, which takes its name too."""
    new.set_friendly_name(old.get_friendly_name())
    for index in range(old.get_output_size()):
        _hand_on(old.output(index), new.output(index))


def _hand_on(old: Any, new: Any, but: Any = None) -> None:
    names = old.get_names()
    for user in old.get_target_inputs():
        if but is None or user.get_node().get_friendly_name() not in but:
            user.replace_source_output(new)
    old.set_names(set())
    new.set_names(names)


def _top(node: Any) -> None:
    told = node.get_attributes()
    sort = "value" if told["sort"] == "none" else told["sort"]
    made = engine().opset15.topk(
        node.input_value(0), node.input_value(1), told["axis"], told["mode"], sort,
        told["index_element_type"], stable=True,
    )  # fmt: skip
    _replace(node, made)


def _suppression(node: Any) -> None:
    given = node.input_value(3).get_node()
    while given.get_type_name() in ("Squeeze", "Reshape", "Unsqueeze"):
        given = given.input_value(0).get_node()
    if given.get_type_name() != "Constant":
        return
    limit = np.nextafter(np.float32(given.get_data().reshape(())), np.float32(np.inf))
    node.input(3).replace_source_output(engine().opset15.constant(limit).output(0))


def _largest(node: Any) -> None:
    ops, data = engine().opset15, node.input_value(0)
    kind = data.get_element_type()
    if node.input_value(1).get_node().get_type_name() != "Constant":
        return
    if not kind.is_real() or not _is_asked(node.output(0)):
        return
    users = list(node.output(0).get_target_inputs())
    least = ops.constant(np.array(-np.inf, np.float32), kind)
    alone = ops.reduce_logical_and(
        ops.equal(data, least), node.input_value(1), keep_dims=node.get_attributes()["keep_dims"]
    )
    made, names = ops.select(alone, least, node.output(0)), node.output(0).get_names()
    for user in users:
        user.replace_source_output(made.output(0))
    node.output(0).set_names(set())
    made.output(0).set_names(names)


def _is_asked(output: Any) -> bool:
    """Whether a comparison with infinity takes it."""
    kinds = [
        (user.get_node(), user.get_node().get_type_name()) for user in output.get_target_inputs()
    ]
    return any(
        kind in _ASKS or (kind in _HANDS_ON and _is_asked(node.output(0))) for node, kind in kinds
    )


def _tile(node: Any) -> None:
    ops, data, repeats = engine().opset15, node.input_value(0), node.input_value(1)
    rank = data.get_partial_shape().rank
    fixed = repeats.get_node().get_type_name() == "Constant"
    if (
        fixed
        or rank.is_dynamic
        or repeats.get_partial_shape() != engine().PartialShape([rank.get_length()])
    ):
        return
    axes, places = rank.get_length(), ops.constant(np.array([1], np.int64))
    sizes, repeats = ops.shape_of(data, "i64"), ops.convert(repeats, "i64")
    pairs = ops.concat([ops.unsqueeze(repeats, places), ops.unsqueeze(sizes, places)], 1)
    target = ops.reshape(pairs, ops.constant(np.array([2 * axes], np.int64)), False)
    apart = ops.unsqueeze(data, ops.constant(np.arange(0, 2 * axes, 2)))
    made = ops.reshape(ops.broadcast(apart, target), ops.multiply(sizes, repeats), False)
    _replace(node, made)


def _pack(node: Any) -> None:
    """Of an int8 constant that has scales: a number for each row, of which a Reshape makes blocks.

    The engine takes blocks of 4 bits rightly where they are an axis of their own (2026.4).
    """
    openvino, chain = engine(), _chain(node)
    if node.get_element_type() != openvino.Type.i8 or node.get_byte_size() < _FEW or not chain:
        return
    data, (scaled, scales, made) = node.get_data(), chain
    block = data.shape[1]
    if made[1] % block or data.min() < -8 or data.max() > 7:
        return
    shape = [made[0], made[1] // block, block]
    flat = data.reshape(-1).view(np.uint8) & 15
    pairs = openvino.Tensor(flat[::2] | flat[1::2] << 4, shape, openvino.Type.i4)
    _replace(node, openvino.op.Constant(pairs, False))
    numbers = scales.get_data().reshape([*shape[:2], 1])
    for user in scales.output(0).get_target_inputs():
        if user.get_node().get_name() == scaled.get_name():
            user.replace_source_output(openvino.opset15.constant(numbers).output(0))


def _chain(node: Any) -> tuple[Any, Any, list[int]] | None:
    """Of a constant of rows that are cast, multiplied with scales and reshaped to two axes: what
    multiplies, its scales, and those axes."""
    found = [node]
    for kind in ("Convert", "Multiply", "Reshape"):
        users = list(found[-1].output(0).get_target_inputs())
        if len(users) != 1 or users[0].get_node().get_type_name() != kind:
            return None
        found.append(users[0].get_node())
    shapes = [each.output(0).get_partial_shape() for each in (node, found[-1])]
    if any(shape.is_dynamic or len(shape) != 2 for shape in shapes):
        return None
    values = [found[2].input_value(index).get_node() for index in range(2)]
    scales = [value for value in values if value.get_type_name() == "Constant"]
    rows = next(iter(node.get_output_shape(0)))
    if len(scales) != 1 or list(scales[0].get_output_shape(0)) != [rows, 1]:
        return None
    return found[2], scales[0], list(found[-1].get_output_shape(0))


def _truth(node: Any) -> None:
    openvino, data = engine(), node.input_value(0)
    if node.get_element_type() != openvino.Type.boolean or data.get_node().get_output_size() == 1:
        return
    zero = openvino.op.Constant(data.get_element_type(), openvino.Shape([]), [0])
    _replace(node, openvino.opset15.not_equal(data, zero))


_MENDED = {
    "Constant": _pack,
    "Convert": _truth,
    "NonMaxSuppression": _suppression,
    "ReduceMax": _largest,
    "Tile": _tile,
    "TopK": _top,
}
