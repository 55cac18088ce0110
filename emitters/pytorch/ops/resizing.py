"""Pictures of other sizes, and samples at places."""

from __future__ import annotations

import onnx_ir

from converter.ir.edit import attribute_ints, constant, integers
from converter.ir.refused import Refused
from emitters.code.context import Context, shape_of
from emitters.code.literals import listed, number
from emitters.pytorch.registry import op

_MODES = {1: "linear", 2: "bilinear", 3: "trilinear"}


def _text(node: onnx_ir.Node, name: str, default: str) -> str:
    found = node.attributes.get(name)
    return found.as_string() if found is not None else default


def _is_usual(node: onnx_ir.Node) -> bool:
    """Whether ``F.interpolate`` samples at the same places."""
    return _way(node) is not None


def _way(node: onnx_ir.Node) -> tuple[str, bool] | None:
    """The mode, and whether corners are aligned."""
    shape = shape_of(node.inputs[0])
    if shape is None or not 3 <= len(shape) <= 5:
        return None
    rank, space = len(shape), len(shape) - 2
    attributes = node.attributes
    mode = _text(node, "mode", "nearest")
    at = _text(node, "coordinate_transformation_mode", "half_pixel")
    axes = attribute_ints(node, "axes")
    if axes is not None or ("antialias" in attributes and attributes["antialias"].as_int()):
        return None
    if _text(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    if at == "tf_crop_and_resize" or not _scales_space(node, rank):
        return None
    if mode == "nearest":
        rounding = _text(node, "nearest_mode", "round_prefer_floor")
        usual = at == "asymmetric" and rounding == "floor"
        return ("nearest", False) if usual or _is_repeated(node, at, rounding) else None
    if at not in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        return None
    if at == "pytorch_half_pixel" and not _is_larger(node, space):
        return None
    if mode == "linear":
        return _MODES[space], at == "align_corners"
    usual = space == 2 and abs(_float(node, "cubic_coeff_a", -0.75) + 0.75) < 1e-7
    outside = attributes.get("exclude_outside")
    if not usual or (outside is not None and outside.as_int()):
        return None
    return "bicubic", at == "align_corners"


def _float(node: onnx_ir.Node, name: str, default: float) -> float:
    found = node.attributes.get(name)
    return found.as_float() if found is not None else default


def _given(node: onnx_ir.Node) -> tuple[list[float] | None, list[int] | None]:
    """Its scales and sizes, what is constant of them."""
    scales = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    sizes = integers(node.inputs[3]) if len(node.inputs) > 3 else None
    found = [float(item) for item in scales.reshape(-1)] if scales is not None else None
    return found or None, sizes or None


def _scales_space(node: onnx_ir.Node, rank: int) -> bool:
    scales, sizes = _given(node)
    if scales is not None:
        return len(scales) == rank and scales[:2] == [1, 1]
    shape = shape_of(node.inputs[0]) or []
    if sizes is None or len(sizes) != rank:
        return False
    return sizes[1] == shape[1] and (sizes[0] == shape[0])


def _is_larger(node: onnx_ir.Node, space: int) -> bool:
    scales, sizes = _given(node)
    if sizes is not None:
        return all(size > 1 for size in sizes[-space:])
    shape = (shape_of(node.inputs[0]) or [])[-space:]
    return scales is not None and all(
        isinstance(size, int) and size * scale >= 2
        for size, scale in zip(shape, scales[-space:], strict=True)
    )


def _is_repeated(node: onnx_ir.Node, at: str, rounding: str) -> bool:
    """Whether each element is only repeated: then all ways of rounding from its middle agree."""
    if at not in ("half_pixel", "pytorch_half_pixel") or not rounding.startswith("round"):
        return False
    scales, sizes = _given(node)
    if scales is not None:
        return all(scale == int(scale) and scale >= 1 for scale in scales)
    shape = shape_of(node.inputs[0]) or []
    return sizes is not None and all(
        isinstance(old, int) and new % old == 0 for old, new in zip(shape, sizes, strict=True)
    )


@op("Resize", legal=_is_usual)
def resize(c: Context) -> None:
    """``F.interpolate``."""
    way = _way(c.node)
    assert way is not None
    mode, aligned = way
    scales, sizes = _given(c.node)
    space = c.need_rank(0) - 2
    if scales is not None:
        told = [number(scale) for scale in scales[2:]]
        same = len(set(told)) == 1
        told_ = told[0] if same else f"({', '.join(told)})"
        how = f"scale_factor={told_}"
    else:
        assert sizes is not None
        how = f"size={listed(sizes[-space:])}"
    more = ", align_corners=True" if aligned else ""
    c.emit(f'F.interpolate({c.arg(0)}, {how}, mode="{mode}"{more})')


def _is_sampled(node: onnx_ir.Node) -> bool:
    shape = shape_of(node.inputs[0])
    mode = _text(node, "mode", "linear")
    return shape is not None and (len(shape) == 4 or (len(shape) == 5 and mode != "cubic"))


@op("GridSample", legal=_is_sampled)
def grid_sample(c: Context) -> None:
    """At places that are given."""
    modes = {"linear": "bilinear", "cubic": "bicubic", "bilinear": "bilinear"}
    mode = str(c.attr("mode", "linear"))
    how = modes.get(mode, mode)
    padding = c.attr("padding_mode", "zeros")
    told = f'mode="{how}", padding_mode="{padding}"'
    aligned = bool(c.attr("align_corners", 0))
    c.emit(f"F.grid_sample({c.arg(0)}, {c.arg(1)}, {told}, align_corners={aligned})")


@op("AffineGrid")
def affine_grid(c: Context) -> None:
    """Places of a turned picture."""
    size = c.sizes(1)
    if size is None:
        raise Refused("its size is computed", "make it constant")
    told = ", ".join(c.element(item) for item in size)
    aligned = bool(c.attr("align_corners", 0))
    c.emit(f"F.affine_grid({c.arg(0)}, ({told}), align_corners={aligned})")
