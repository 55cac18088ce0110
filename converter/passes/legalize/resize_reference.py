"""What ONNX Runtime's own Resize does along an axis of known sizes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import constant_value
from converter.passes.legalize.resize_rules import Rule
from converter.runtime.ort import OrtSession

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Along:
    """A known axis that is resized.

    Attributes:
        size, out: Before and after.
        scale: What ONNX divides by.
        region: Start and end of the part that is cut out.
        stretched: Whether its scale follows from the two sizes.
    """

    size: int
    out: int
    scale: float
    region: tuple[float, float] | None = None
    stretched: bool = False


@lru_cache(maxsize=256)
def indices_of(rule: Rule, axis: Along) -> Array | None:
    """The sample that nearest takes for each index of the result: int32. Where a place lies half
    way between two, the last bit of its rounding decides, which is the runtime's own.

    None where the result's size follows from several axes, by ``keep_aspect_ratio_policy``.
    """
    row = np.arange(axis.size, dtype=np.float32).reshape(1, 1, 1, -1)
    made = _resized(rule, axis, row)
    return None if made is None else np.asarray(made[0, 0, 0], np.int32)


@lru_cache(maxsize=64)
def weights_of(rule: Rule, axis: Along) -> Array | None:
    """The matrix [out, size] whose product resizes the axis: a row of samples, resized, says what
    each of them adds to the result.

    None where the result's size follows from several axes.
    """
    rows = np.eye(axis.size, dtype=np.float32).reshape(1, 1, axis.size, axis.size)
    made = _resized(rule, axis, rows)
    return None if made is None else np.ascontiguousarray(made[0, 0].T)


def _resized(rule: Rule, axis: Along, image: Array) -> Array | None:
    """The last axis of an image, resized."""
    constants = {"x": image, "roi": np.asarray(axis.region or (0.0, 1.0), np.float32)}
    if axis.stretched:
        constants["sizes"] = np.asarray([axis.out], np.int64)
    else:
        constants["scales"] = np.asarray([axis.scale], np.float32)
    session = OrtSession(_model(rule, constants), plain=True)
    made: Array = session.run({})["y"]
    session.close()
    return made if made.shape[-1] == axis.out else None


def _model(rule: Rule, constants: dict[str, Array]) -> onnx_ir.Model:
    inputs = [constant_value(name, array) for name, array in constants.items()]
    given: list[onnx_ir.Value | None] = [*inputs]
    if "sizes" in constants:
        given.insert(2, None)
    attributes: dict[str, str | int | float | list[int]] = {
        "mode": rule.mode,
        "coordinate_transformation_mode": rule.coordinates,
        "nearest_mode": rule.nearest,
        "antialias": int(rule.antialias),
        "cubic_coeff_a": rule.cubic_a,
        "exclude_outside": int(rule.exclude),
        "axes": [3],
    }
    node = onnx_ir.node("Resize", given, attributes, name="resize")
    node.outputs[0].name, node.outputs[0].type = "y", inputs[0].type
    graph = onnx_ir.Graph(
        [], node.outputs, nodes=[node], initializers=inputs, opset_imports={"": 20}, name="one"
    )
    return onnx_ir.Model(graph, ir_version=9)
