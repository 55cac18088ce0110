"""Has every operator that TFLite knows with channels last run so, with the fewest transposes.

    Given:   y = Conv(x, W)                        x, y: [N, C, H, W]
    Result:  a = Transpose(x, perm=[0, 2, 3, 1])
             b = channels-last::Conv(a, W)         a, b: [N, H, W, C]
             y = Transpose(b, perm=[0, 3, 1, 2])
    and then the pass ``transposes`` moves and cancels these for the graph as a whole.

Weights stay as ONNX has them: their lowering writes them in TFLite's order.
"""

from __future__ import annotations

import onnx_ir

from converter import plugins
from converter.ir.edit import all_nodes, count_of, is_op
from emitters.tflite.registry import CHANNELS_LAST

SPATIAL = frozenset(
    {"AveragePool", "Conv", "ConvTranspose", "DepthToSpace", "GlobalAveragePool",
     "GlobalMaxPool", "LRN", "MaxPool", "Resize", "SpaceToDepth"}
)  # fmt: skip
"""Operators of ONNX whose first input has channels in axis 1, and TFLite's in the last."""

_MOVABLE = frozenset({"GlobalAveragePool", "GlobalMaxPool"})


def make_channels_last(model: onnx_ir.Model) -> int:
    """Rewrites the model in place; gives how many Transposes it has then.

    Values need known ranks; an operator whose input has none is left alone, and so is one that
    has no channels, or whose second output is used.
    """
    for node in all_nodes(model):
        if _takes_images(node):
            _wrap(node)
    model.opset_imports.setdefault(CHANNELS_LAST, 1)
    plugins.load("passes", "transposes").call(model)
    return count_of(model, "Transpose")


def _takes_images(node: onnx_ir.Node) -> bool:
    if not is_op(node, *(SPATIAL - _MOVABLE)) or not node.inputs or node.inputs[0] is None:
        return False
    x = node.inputs[0]
    if x.shape is None or len(x.shape) < 3 or node.outputs[0].shape is None:
        return False
    return not any(out.uses() or out.is_graph_output() for out in node.outputs[1:])


def _wrap(node: onnx_ir.Node) -> None:
    source, output = node.inputs[0], node.outputs[0]
    assert source is not None and source.shape is not None and output.shape is not None
    rank = len(source.shape)
    last = [0, *range(2, rank), 1]
    first = [0, rank - 1, *range(1, rank - 1)]
    before = _transpose(source, last, f"{node.name}_channels_last")
    whole, output.shape = output.shape, onnx_ir.Shape([output.shape[axis] for axis in last])
    after = _transpose(output, first, f"{node.name}_channels_first")
    after.outputs[0].shape = whole
    graph = node.graph
    assert graph is not None
    graph.insert_before(node, before)
    graph.insert_after(node, after)
    uses = [use for use in output.uses() if use.node is not after]
    for use in uses:
        use.node.replace_input_with(use.idx, after.outputs[0])
    _hand_over(output, after.outputs[0], graph)
    node.replace_input_with(0, before.outputs[0])
    node.domain = CHANNELS_LAST


def _transpose(source: onnx_ir.Value, perm: list[int], name: str) -> onnx_ir.Node:
    assert source.shape is not None
    made = onnx_ir.node("Transpose", [source], {"perm": perm}, name=name)
    made.outputs[0].name = name
    made.outputs[0].type = source.type
    made.outputs[0].shape = onnx_ir.Shape([source.shape[axis] for axis in perm])
    return made


def _hand_over(
    old: onnx_ir.Value, new: onnx_ir.Value, graph: onnx_ir.Graph | onnx_ir.Function
) -> None:
    """Where ``old`` is an output of its graph, ``new`` is that instead, by the same name."""
    if not old.is_graph_output():
        return
    for place, value in enumerate(graph.outputs):
        if value is old:
            graph.outputs[place] = new
    old.name, new.name = new.name, old.name
