"""Layers that training needs, kept in what tf2onnx makes.

    Given:   FusedBatchNormV3(Conv2D(x)); PreventGradient(x, "modelyard.dropout 0.5")
    Result:  Conv, BatchNormalization; Dropout (otherwise one Conv with other weights; x)

An operator has to stand for a Dropout, which is nothing where nothing trains: PreventGradient,
whose text says which. The momentum of a FusedBatchNormV3 goes the same way, in a factor that counts
for nothing there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from tf2onnx import utils
from tf2onnx.handler import tf_op
from tf2onnx.onnx_opset.nn import BatchNorm
from tf2onnx.optimizer import back_to_back_optimizer

DROPOUT = "modelyard.dropout "
"""What the text of an operator begins with that stands for a Dropout; its rate follows."""

_FUSED = ("Conv", "BatchNormalization")


@contextmanager
def kept() -> Iterator[None]:
    """Has tf2onnx fold no BatchNormalization into a Conv."""
    known = back_to_back_optimizer._func_map
    fuse = known.pop(_FUSED, None)
    try:
        yield
    finally:
        if fuse is not None:
            known[_FUSED] = fuse


@tf_op("PreventGradient")
class Dropout:
    """Nothing, or a Dropout."""

    @classmethod
    def version_13(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        said = node.get_attr_value("message") or b""
        text = said.decode() if isinstance(said, bytes) else said
        if not text.startswith(DROPOUT):
            node.type = "Identity"
            return
        rate = np.array(float(text[len(DROPOUT) :]), np.float32)
        ratio = ctx.make_const(utils.make_name(node.name), rate)
        node.type = "Dropout"
        ctx.replace_inputs(node, [node.input[0], ratio.output[0]])


@tf_op("FusedBatchNormV3")
class Momentum(BatchNorm):  # type: ignore[misc]
    """tf2onnx's, with its momentum."""

    @classmethod
    def version_9(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        factor = node.get_attr_value("exponential_avg_factor", 1.0)
        trains = node.get_attr_value("is_training", True)
        super().version_6(ctx, node, **kwargs)
        if not trains and factor != 1.0:
            node.set_attr("momentum", 1 - factor)
