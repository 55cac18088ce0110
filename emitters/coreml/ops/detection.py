"""NonMaxSuppression, without MIL's operation of that name: it gives a fixed number of boxes, the
last ones undefined.

Every box of a class is compared with every other one. ``ahead[i, j]``: j has the higher score, or
the same and comes first. Greedy selection is the one fixed point of

    kept[i] = valid[i] and no j: kept[j] and ahead[i, j] and overlap[i, j]

and a loop finds it: after n rounds the n highest scores are settled. A class' kept boxes are
numbered by how many kept ones are ahead, and listed by that number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.refused import Refused
from emitters.coreml import limits, sizing
from emitters.coreml.blocks import while_loop
from emitters.coreml.context import Context, Var, free
from emitters.coreml.registry import lowers

_MOST = 1 << 28
"""Pairs of boxes, of all classes and images, that are compared: 1 GB as float32."""


@lowers("NonMaxSuppression")
def non_max_suppression(context: Context, node: onnx_ir.Node) -> None:
    boxes, scores = context.var(node.inputs[0]), context.var(node.inputs[1])
    count, classes = sizing.size(context, boxes, 1), sizing.size(context, scores, 1)
    images = sizing.size(context, boxes, 0)
    known = sizing.numbers([images, classes, count, count])
    if known is not None and np.prod(known, dtype=np.float64) > _MOST:
        raise Refused(
            f"a NonMaxSuppression of {known[2]} boxes of {known[1]} classes, which would compare "
            f"more than {_MOST} pairs",
            "select the best boxes before it (TopK), or cut the model before it (--output)",
        )
    most = _scalar(context, node, 2, np.int32(0))
    if not free(most) and int(np.asarray(most)) <= 0:
        raise Refused(limits.EMPTY)
    overlap = _overlaps(context, boxes, node, _scalar(context, node, 3, np.float32(0)))
    overlap = _for_classes(context, overlap, [images, classes, count])
    rows = sizing.compute(context, "mul", images, classes)
    scores = sizing.reshape(context, scores, [rows, count])
    ahead = _ahead(context, scores, sizing.counted(context, count))
    valid = _valid(context, node, scores)
    kept = _settled(context, context.op("mul", x=overlap, y=ahead), valid, count)
    context.give(node.outputs[0], _listed(context, kept, ahead, most, classes, count))


def _scalar(context: Context, node: onnx_ir.Node, index: int, default: Any) -> Any:
    """An optional input of one element, without axes: a number, or a variable."""
    if index >= len(node.inputs) or node.inputs[index] is None:
        return default
    array = context.array(node.inputs[index])
    if array is not None:
        return type(default)(np.clip(array.item(), -(1 << 30), 1 << 30))
    return sizing.reshape(context, context.var(node.inputs[index]), [])


def _corners(context: Context, boxes: Var, *, centred: bool) -> list[tuple[Var, Var]]:
    """The lower and the upper end of each box along two axes: [images, count, 1] each."""
    parts = context.op("split", x=boxes, split_sizes=[1, 1, 1, 1], axis=2)
    ends = []
    for axis in range(2):
        first, second = parts[axis], parts[axis + 2]
        if centred:
            half = context.op("mul", x=second, y=context.number(0.5, second))
            low, high = context.op("sub", x=first, y=half), context.op("add", x=first, y=half)
        else:
            low = context.op("minimum", x=first, y=second)
            high = context.op("maximum", x=first, y=second)
        ends.append((low, high))
    return ends


def _overlaps(context: Context, boxes: Var, node: onnx_ir.Node, threshold: Any) -> Var:
    """Whether the area that two boxes share is more than that part of the area they cover: 1 or
    0, float32 [images, count, count]."""
    shared: Var = None
    area: Var = None
    for low, high in _corners(context, boxes, centred=bool(number(node, "center_point_box", 0))):
        length = context.op("sub", x=high, y=low)
        area = length if area is None else context.op("mul", x=area, y=length)
        first, last = (
            context.op(kind, x=x, y=context.op("transpose", x=x, perm=[0, 2, 1]))
            for kind, x in (("maximum", low), ("minimum", high))
        )
        common = context.op("sub", x=last, y=first)
        common = context.op("maximum", x=common, y=np.float32(0))
        shared = common if shared is None else context.op("mul", x=shared, y=common)
    both = context.op("add", x=area, y=context.op("transpose", x=area, perm=[0, 2, 1]))
    covered = context.op("sub", x=both, y=shared)
    # as ONNX Runtime divides; where nothing is shared nothing overlaps
    some = context.op("greater", x=shared, y=np.float32(0))
    one = sizing.filled(context, 1, [1, 1, 1], "fp32")
    part = context.op("real_div", x=shared, y=context.op("select", cond=some, a=covered, b=one))
    more = context.op("greater", x=part, y=threshold)
    return context.cast(context.op("logical_and", x=more, y=some), "fp32")


def _for_classes(context: Context, overlap: Var, dims: list[sizing.Size]) -> Var:
    """[images, count, count] for each class anew: [images * classes, count, count]."""
    images, classes, count = dims
    wide = sizing.reshape(context, overlap, [images, 1, count, count])
    wide = sizing.broadcast(context, wide, [1, classes, 1, 1])
    return sizing.reshape(
        context, wide, [sizing.compute(context, "mul", images, classes), count, count]
    )


def _ahead(context: Context, scores: Var, own: Var) -> Var:
    """1 where box j is looked at before box i, else 0: float32 [rows, i, j]."""
    mine = context.op("expand_dims", x=scores, axes=[2])
    other = context.op("expand_dims", x=scores, axes=[1])
    higher = context.op("greater", x=other, y=mine)
    same = context.op("equal", x=other, y=mine)
    column = context.op("expand_dims", x=own, axes=[1])
    earlier = context.op("less", x=own, y=column)
    tied = context.op("logical_and", x=same, y=earlier)
    return context.cast(context.op("logical_or", x=higher, y=tied), "fp32")


def _valid(context: Context, node: onnx_ir.Node, scores: Var) -> Var:
    """1 where the score is above the threshold: float32 [rows, count]."""
    if len(node.inputs) < 5 or node.inputs[4] is None:
        return sizing.filled(context, 1, sizing.sizes(context, scores), "fp32")
    threshold = _scalar(context, node, 4, np.float32(0))
    return context.cast(context.op("greater", x=scores, y=threshold), "fp32")


def _settled(context: Context, blocks: Var, valid: Var, count: sizing.Size) -> Var:
    """Which boxes stay: float32 [rows, count]."""
    limit = sizing.scalar(context, count)

    def more(states: list[Var]) -> Var:
        change = context.op("squeeze", x=states[2], axes=[0, 1])
        running = context.op("greater", x=change, y=np.float32(0))
        left = context.op("less", x=states[0], y=limit)
        return context.op("logical_and", x=running, y=left)

    def step(states: list[Var]) -> list[Var]:
        done, kept, _ = states
        against = context.op("mul", x=blocks, y=context.op("expand_dims", x=kept, axes=[1]))
        blocked = context.op("reduce_max", x=against, axes=[2], keep_dims=False)
        left = context.op("sub", x=np.float32(1), y=blocked)
        new = context.op("mul", x=valid, y=left)
        change = context.op("abs", x=context.op("sub", x=new, y=kept))
        changed = context.op("reduce_max", x=change, axes=[0, 1], keep_dims=True)
        return [context.op("add", x=done, y=np.int32(1)), new, changed]

    first = [np.asarray(0, np.int32), np.ones((1, 1), np.float32)]
    done, changed = (context.const(array) for array in first)
    states = [done, valid, changed]
    return while_loop(context, states, more, step)[1]


def _listed(
    context: Context, kept: Var, ahead: Var, most: Any, classes: sizing.Size, count: sizing.Size
) -> Var:
    """Image, class and box of what is kept, by image, class and score: int32 [selected, 3]."""
    before = context.op("mul", x=ahead, y=context.op("expand_dims", x=kept, axes=[1]))
    place = context.cast(context.op("reduce_sum", x=before, axes=[2], keep_dims=False), "int32")
    few = context.op("less", x=place, y=most)
    kept = context.op("logical_and", x=context.cast(kept, "bool"), y=few)
    own = sizing.counted(context, count)
    slot = context.op("expand_dims", x=own, axes=[1])
    here = context.op("equal", x=slot, y=context.op("expand_dims", x=place, axes=[1]))
    here = context.op("logical_and", x=here, y=context.op("expand_dims", x=kept, axes=[1]))
    here = context.cast(here, "int32")
    found = context.op("non_zero", x=context.op("reduce_max", x=here, axes=[2], keep_dims=False))
    box = context.op("reduce_sum", x=context.op("mul", x=here, y=own), axes=[2], keep_dims=False)
    boxes = context.op("gather_nd", x=box, indices=found)
    row = context.op("gather", x=found, indices=np.asarray([0], np.int32), axis=1)
    each = sizing.vector(context, [classes])
    image = context.op("floor_div", x=row, y=each)
    kind = context.op("sub", x=row, y=context.op("mul", x=image, y=each))
    last = context.op("expand_dims", x=boxes, axes=[1])
    return context.op("concat", values=[image, kind, last], axis=1)
