"""Pictures of other sizes."""

from __future__ import annotations

import onnx_ir

from converter.ir.edit import attribute_ints, constant, integers
from emitters.code.context import Context, shape_of
from emitters.code.keras.registry import channels_last, op
from emitters.code.literals import listed


def _text(node: onnx_ir.Node, name: str, default: str) -> str:
    found = node.attributes.get(name)
    return found.as_string() if found is not None else default


def _factors(node: onnx_ir.Node) -> list[int] | None:
    """How often each row and column is repeated, where that is all it does."""
    shape = shape_of(node.inputs[0])
    if shape is None or len(shape) != 4 or attribute_ints(node, "axes") is not None:
        return None
    if "antialias" in node.attributes and node.attributes["antialias"].as_int():
        return None
    if _text(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    scales = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    sizes = integers(node.inputs[3]) if len(node.inputs) > 3 else None
    if scales is not None and scales.size == 4:
        found = [float(item) for item in scales.reshape(-1)]
    elif sizes is not None and len(sizes) == 4:
        own = [shape[i] for i in (0, 3, 1, 2)] if channels_last(node) else shape
        if not all(isinstance(old, int) and old > 0 for old in own):
            return None
        found = [new / int(old) for new, old in zip(sizes, own, strict=True)]  # type: ignore[arg-type]
    else:
        return None
    whole = found[:2] == [1, 1] and all(f == int(f) >= 1 for f in found)
    return [int(factor) for factor in found[2:]] if whole else None


def _is_usual(node: onnx_ir.Node) -> bool:
    """Whether ``layers.UpSampling2D`` samples at the same places."""
    if _factors(node) is None:
        return False
    at = _text(node, "coordinate_transformation_mode", "half_pixel")
    mode = _text(node, "mode", "nearest")
    if mode == "nearest":
        rounding = _text(node, "nearest_mode", "round_prefer_floor")
        middle = at in ("half_pixel", "pytorch_half_pixel") and rounding.startswith("round")
        return middle or (at == "asymmetric" and rounding == "floor")
    floats = (onnx_ir.DataType.FLOAT,)
    dtype = node.inputs[0].dtype if node.inputs[0] is not None else None
    return mode == "linear" and at == "half_pixel" and dtype in floats


@op("Resize", legal=_is_usual)
def resize(c: Context) -> None:
    """``layers.UpSampling2D``."""
    factors = _factors(c.node)
    assert factors is not None
    x = c.arg(0) if channels_last(c.node) else f"ops.transpose({c.arg(0)}, (0, 2, 3, 1))"
    if str(c.attr("mode", "nearest")) == "nearest":
        for axis, factor in enumerate(factors, 1):
            x = f"ops.repeat({x}, {factor}, axis={axis})" if factor > 1 else x
    else:
        first = 1 if channels_last(c.node) else 2
        sizes = ", ".join(f"ops.shape({c.arg(0)})[{a}] * {f}" for a, f in enumerate(factors, first))
        x = f'ops.image.resize({x}, ({sizes}), "bilinear", data_format="channels_last")'
    c.emit(x if channels_last(c.node) else f"ops.transpose({x}, {listed([0, 3, 1, 2])})")
