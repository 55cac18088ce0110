"""Has operators that a target knows with channels last run so, each by itself.

    Given:   y = Conv(x, W)                        x, y: [N, C, H, W]
    Result:  a = Transpose(x, perm=[0, 2, 3, 1])
             b = channels-last::Conv(a, W)         a, b: [N, H, W, C]
             y = Transpose(b, perm=[0, 3, 1, 2])
    where    channels-last::Conv(a, W) = Transpose(Conv(Transpose(a, perm=first), W), perm=last)
is a function of the model. The pass ``transposes`` then moves and cancels what is around them.

Weights stay as ONNX has them: their lowering writes them in the target's order.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir

from converter.ir.definitions import schema_of
from converter.ir.edit import is_op, is_used

CHANNELS_LAST = "modelyard.channels-last"
"""The domain of operators that take their channels last."""

SPATIAL = (
    "AveragePool", "Conv", "ConvTranspose", "DepthToSpace", "LRN", "MaxPool", "Resize",
    "SpaceToDepth",
)  # fmt: skip
"""Operators of ONNX whose first input has channels in axis 1, and targets' in the last; others can
do with either."""


def function(op_type: str, opset: int) -> str:
    """What an operator is with channels last, in ONNX's text form. Besides ONNX's attributes it has
    the orders of axes that bring channels ``first`` and ``last``."""
    schema = schema_of(op_type, opset)
    assert schema is not None
    x, *others = (each.name for each in schema.inputs)
    kinds = {
        name: each.type.name.lower()  # type: ignore[attr-defined]  # an enum, which stubs don't say
        for name, each in sorted(schema.attributes.items())
    }
    given = ", ".join(f"{name}: {kind} = @{name}" for name, kind in kinds.items())
    given = f" <{given}>" if given else ""
    return f"""<domain: "{CHANNELS_LAST}">
        {op_type} <{", ".join([*kinds, "first", "last"])}> ({", ".join([x, *others])}) => (y) {{
            whole = Transpose <perm: ints = @first> ({x})
            made = {op_type}{given} ({", ".join(["whole", *others])})
            y = Transpose <perm: ints = @last> (made)
        }}"""


def put_last(node: onnx_ir.Node, kinds: Sequence[str] = SPATIAL) -> bool:
    """Has a node take its channels last, where it is one of such operators.

    Values need known ranks; an operator whose input has none is left alone, and so is one that
    has no channels, or whose second output is used.
    """
    source, output = node.inputs[0] if node.inputs else None, node.outputs[0]
    if not is_op(node, *kinds) or source is None or source.shape is None:
        return False
    if len(source.shape) < 3 or output.shape is None:
        return False
    if any(is_used(node, place) for place in range(1, len(node.outputs))):
        return False
    rank = len(source.shape)
    last = [0, *range(2, rank), 1]
    first = [0, rank - 1, *range(1, rank - 1)]
    before = _transpose(source, last, f"{node.name}_channels_last")
    output.shape = onnx_ir.Shape([output.shape[axis] for axis in last])
    after = _transpose(output, first, f"{node.name}_channels_first")
    given, graph = after.outputs[0], node.graph
    assert graph is not None
    graph.insert_before(node, before)
    graph.insert_after(node, after)
    output.replace_all_uses_with(given, replace_graph_outputs=True)
    after.replace_input_with(0, output)
    if given.is_graph_output():
        output.name, given.name = given.name, output.name
    node.replace_input_with(0, before.outputs[0])
    node.domain = CHANNELS_LAST
    for name, order in (("first", first), ("last", last)):
        node.attributes[name] = onnx_ir.AttrInt64s(name, order)
    return True


def _transpose(source: onnx_ir.Value, perm: list[int], name: str) -> onnx_ir.Node:
    assert source.shape is not None
    made = onnx_ir.node("Transpose", [source], {"perm": perm}, name=name)
    made.outputs[0].name = name
    made.outputs[0].type = source.type
    made.outputs[0].shape = onnx_ir.Shape([source.shape[axis] for axis in perm])
    return made
