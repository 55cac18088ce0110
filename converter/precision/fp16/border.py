"""Where to go from float32 to half a precision and back, so that casts cost the least.

Each node that may compute in half a precision saves something there: half of the bytes it moves,
most of the time of its multiply-adds. Each tensor that goes from one type to the other costs a
pass over it. Which nodes to leave in float32 between those that have to stay is then a minimum
cut. The casts at the model's own border are what was asked for and cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import onnx_ir

from converter.ir.min_cut import ENDLESS, MinCut
from converter.ir.model import BATCH
from converter.precision.fp16.graph import Network, Place

CAST_BYTES = 6
"""Bytes that a Cast moves for each element: 4 on one side, 2 on the other."""

CAST_ALONE = 256
"""What a Cast costs however small it is, in bytes moved."""

BYTES_A_MAC = 1 / 8
"""What a multiply-add saves in half a precision, in bytes moved: accelerators do some 20 in
float32 in the time in which they move a byte, and 16 times as many in float16."""

FREE_SIZE = 64
"""The size of a free dimension other than the batch, for counting."""


def stay_wide(network: Network, forced: Collection[Place], macs: Mapping[str, int]) -> set[Place]:
    """The places that are best in float32.

    Args:
        network: Of the model.
        forced: Those that have to be.
        macs: Multiply-adds by node name.
    """
    cut = MinCut()
    variables = {place: cut.variable() for place in network.places}
    for place in (network.wide, network.narrow):
        variables[place] = cut.variable()
    for place, variable in variables.items():
        if place in forced or place.fixed is True:
            cut.zero(variable, ENDLESS)
        elif place.fixed is False:
            cut.one(variable, ENDLESS)
        elif place.node is not None:
            cut.one(variable, 1 + _gain(place.node, network, macs))
    _cast_costs(network, cut, variables)
    solved = cut.solve()
    return {place for place, variable in variables.items() if variable in solved}


def _cast_costs(network: Network, cut: MinCut, variables: dict[Place, int]) -> None:
    readers: dict[onnx_ir.Value, dict[Place, None]] = {}
    for read in network.reads:
        border = isinstance(read.where, onnx_ir.Graph) and read.by.fixed is not None
        if read.value in network.makers and not border:
            readers.setdefault(read.value, {})[read.by] = None
    for value, places in readers.items():
        maker = network.makers[value]
        if value.is_graph_input() and maker.fixed is not None:
            continue  # one cast at the border, in any case
        cost = CAST_ALONE + CAST_BYTES * elements(value)
        others = [variables[place] for place in places if place is not maker]
        if not others:
            continue
        down, up = cut.variable(), cut.variable()
        cut.pair(down, variables[maker], cost)
        cut.pair(variables[maker], up, cost)
        for other in others:
            cut.pair(other, down, ENDLESS)
            cut.pair(up, other, ENDLESS)


def _gain(node: onnx_ir.Node, network: Network, macs: Mapping[str, int]) -> int:
    slots = network.slots[node]
    values = [node.inputs[place] for place in slots.with_node]
    values += [node.outputs[place] for place in slots.outputs]
    moved = sum(2 * elements(value) for value in values if value is not None)
    return moved + int(BYTES_A_MAC * macs.get(node.name or "", 0))


def elements(value: onnx_ir.Value) -> int:
    """How many elements a value has, free dimensions at :data:`FREE_SIZE`, the batch at 1."""
    shape = value.const_value.shape if value.const_value is not None else value.shape
    if shape is None:
        return FREE_SIZE
    return math.prod(
        dim if isinstance(dim, int) else 1 if dim.value == BATCH else FREE_SIZE for dim in shape
    )
