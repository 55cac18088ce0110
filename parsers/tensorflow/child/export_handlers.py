"""Handlers of ours for tf2onnx: operators that it lacks, or translates wrongly.

Registered in tf2onnx's own table when this module is imported. Each says what the TensorFlow
operator computes (its page in the raw_ops reference) and what it becomes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tf2onnx import utils
from tf2onnx.handler import tf_op


def _const(ctx: Any, name: str, value: Any) -> str:
    return str(ctx.make_const(utils.make_name(name), np.asarray(value)).output[0])


def _replace(ctx: Any, node: Any, last: Any) -> None:
    """Let `last` stand for `node`, under its output's name."""
    dtype, shape = ctx.get_dtype(node.output[0]), ctx.get_shape(node.output[0])
    ctx.replace_all_inputs(node.output[0], last.output[0])
    for name in ctx.outputs:
        if name == node.output[0]:
            ctx.outputs[ctx.outputs.index(name)] = last.output[0]
    ctx.remove_node(node.name)
    ctx.set_dtype(last.output[0], dtype)
    if shape is not None:
        ctx.set_shape(last.output[0], shape)


def _one(ctx: Any, node: Any) -> str:
    return _const(ctx, node.name, np.array(1, _numpy_type(ctx, node.input[0])))


def _numpy_type(ctx: Any, name: str) -> Any:
    return utils.map_onnx_to_numpy_type(ctx.get_dtype(name))


def _refuse(node: Any, why: str) -> None:
    raise ValueError(f"{node.type} {why}")


@tf_op("Erfc")
class Erfc:
    """``1 - erf(x)``."""

    @classmethod
    def version_13(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        erf = ctx.make_node("Erf", [node.input[0]])
        _replace(ctx, node, ctx.make_node("Sub", [_one(ctx, node), erf.output[0]]))


@tf_op("Expm1")
class Expm1:
    """``exp(x) - 1``, as ONNX Runtime's own Elu computes it."""

    @classmethod
    def version_13(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        exp = ctx.make_node("Exp", [node.input[0]])
        _replace(ctx, node, ctx.make_node("Sub", [exp.output[0], _one(ctx, node)]))


@tf_op("Bucketize")
class Bucketize:
    """How many boundaries a value isn't below; a NaN is below none, as std::upper_bound has it."""

    @classmethod
    def version_13(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        """Unsqueeze, Less, Not, Cast, ReduceSum."""
        boundaries = np.array(node.get_attr_value("boundaries"), np.float32)
        values = ctx.make_node("Cast", [node.input[0]], attr={"to": 1}).output[0]
        last = _const(ctx, node.name, np.array([-1], np.int64))
        column = ctx.make_node("Unsqueeze", [values, last]).output[0]
        below = ctx.make_node("Less", [column, _const(ctx, node.name, boundaries)]).output[0]
        above = ctx.make_node("Not", [below]).output[0]
        ones = ctx.make_node("Cast", [above], attr={"to": 6}).output[0]
        _replace(ctx, node, ctx.make_node("ReduceSum", [ones, last], attr={"keepdims": 0}))


# -- resizing --------------------------------------------------------------------------


def _constant(node: Any, index: int) -> Any:
    """The value of an input, computed where it doesn't depend on the model's inputs."""
    return _value(node.inputs[index], 8)


def _value(node: Any, depth: int) -> Any:
    """A constant's value, or what follows from constants and known shapes; else None.

    An unknown dimension of a shape is -1 in it.
    """
    if node.is_const():
        return node.get_tensor_value(as_list=False)
    if node.type == "Shape":
        shape = node.graph.get_shape(node.input[0])
        return None if shape is None else np.array(shape)
    if node.type not in _FOLDED or not depth:
        return None
    values = [_value(n, depth - 1) for n in node.inputs]
    if any(v is None for v in values):
        return None
    if node.type == "Cast":
        return values[0].astype(utils.map_onnx_to_numpy_type(node.get_attr_value("to")))
    return _FOLDED[node.type](*values)


def _sliced(data: Any, starts: Any, ends: Any, axes: Any) -> Any:
    return data[int(starts[0]) : int(ends[0])]


_FOLDED: dict[str, Callable[..., Any]] = {
    "Identity": lambda x: x,
    "Cast": lambda x: x,
    "Slice": _sliced,
    "Div": lambda x, y: x / y if np.issubdtype(x.dtype, np.floating) else x // y,
}


def _sizes(ctx: Any, node: Any) -> tuple[int, int, int, int] | None:
    """Height and width before and after, or None where one isn't known."""
    shape, size = ctx.get_shape(node.input[0]), _constant(node, 1)
    if shape is None or size is None or min(shape[1], shape[2]) < 1:
        return None
    return int(shape[1]), int(shape[2]), int(size[0]), int(size[1])


def _as_matrices(ctx: Any, node: Any, rows: Any, columns: Any) -> None:
    """``rows @ image @ columns^T`` for each channel: what every separable resize is.

    Args:
        ctx: The graph.
        node: The node whose input 0 is [batch, height, width, channels].
        rows: float32 [new height, height].
        columns: float32 [new width, width].
    """
    shape = ctx.get_shape(node.input[0])
    image = ctx.make_node("Cast", [node.input[0]], attr={"to": 1}).output[0]
    flat = _const(ctx, node.name, np.array([0, rows.shape[1], -1], np.int64))
    lines = ctx.make_node("Reshape", [image, flat]).output[0]
    mixed = ctx.make_node("MatMul", [_const(ctx, node.name, rows), lines]).output[0]
    back = np.array([-1, rows.shape[0], columns.shape[1], shape[3]], np.int64)
    wide = ctx.make_node("Reshape", [mixed, _const(ctx, node.name, back)]).output[0]
    _replace(ctx, node, ctx.make_node("MatMul", [_const(ctx, node.name, columns), wide]))


def _basis(size: int, rows: bool) -> Any:
    """An image [1, size, 1, size] (or [1, 1, size, size]) with a channel for each pixel."""
    eye = np.eye(size, dtype=np.float32)
    return eye[None, :, None, :] if rows else eye[None, None, :, :]


def _by_matrices(ctx: Any, node: Any, resize: Any) -> None:
    """Translate by what TensorFlow's own kernel makes of each pixel.

    `resize` takes a basis image, its new size and the axis (0 for rows), and gives the result.
    """
    sizes = _sizes(ctx, node)
    if sizes is None or ctx.get_shape(node.input[0])[3] < 1:
        _refuse(node, "needs fixed heights, widths and channels")
        return
    height, width, new_height, new_width = sizes
    # In a graph of its own: the one that is being translated is the default.
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        rows = resize(_basis(height, True), [new_height, 1], 0)[0, :, 0, :]
        columns = resize(_basis(width, False), [1, new_width], 1)[0, 0, :, :]
        rows, columns = session.run([rows, columns])
    _as_matrices(ctx, node, rows, columns)


@tf_op(["ResizeBilinear", "ResizeNearestNeighbor"])
class Resize:
    """tf2onnx gives the ratio of sizes, rounded: a result may come out a pixel short.

    Nearest with half_pixel_centers takes ``floor((i + 0.5) * scale)``, which is ONNX's half_pixel
    rounded up at ties.
    """

    @classmethod
    def version_13(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        """Transpose, Resize to a size, Transpose."""
        image, mode = node.input[0], "nearest"
        if node.type == "ResizeBilinear":
            image = ctx.make_node("Cast", [image], attr={"to": 1}).output[0]
            mode = "linear"
        turned = ctx.make_node("Transpose", [image], attr={"perm": [0, 3, 1, 2]}).output[0]
        coordinates, nearest = "asymmetric", "floor"
        if node.get_attr_value("align_corners"):
            coordinates, nearest = "align_corners", "round_prefer_ceil"
        if node.get_attr_value("half_pixel_centers"):
            coordinates, nearest = "half_pixel", "round_prefer_ceil"
        options = {"mode": mode, "coordinate_transformation_mode": coordinates}
        options["nearest_mode"] = nearest
        size = cls._whole_size(ctx, node, turned)
        resized = ctx.make_node("Resize", [turned, "", "", size], attr=options).output[0]
        _replace(ctx, node, ctx.make_node("Transpose", [resized], attr={"perm": [0, 2, 3, 1]}))

    @staticmethod
    def _whole_size(ctx: Any, node: Any, turned: str) -> str:
        """The size of all four dimensions: batch and channels stay."""
        size = ctx.make_node("Cast", [node.input[1]], attr={"to": 7}).output[0]
        shape = ctx.make_node("Shape", [turned]).output[0]
        first, last = (_const(ctx, node.name, np.array([i], np.int64)) for i in (0, 2))
        kept = ctx.make_node("Slice", [shape, first, last]).output[0]
        return str(ctx.make_node("Concat", [kept, size], attr={"axis": 0}).output[0])


@tf_op("ResizeBicubic")
class ResizeBicubic:
    """TensorFlow rounds the position to 1/1024 of a pixel, which ONNX's Resize doesn't."""

    @classmethod
    def version_13(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        options = {
            "align_corners": bool(node.get_attr_value("align_corners")),
            "half_pixel_centers": bool(node.get_attr_value("half_pixel_centers")),
        }
        _by_matrices(
            ctx, node, lambda x, size, _: tf.raw_ops.ResizeBicubic(images=x, size=size, **options)
        )


@tf_op("ResizeArea")
class ResizeArea:
    """The mean over the area that a pixel covers; tf2onnx takes single pixels instead."""

    @classmethod
    def version_13(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        corners = bool(node.get_attr_value("align_corners"))
        _by_matrices(
            ctx,
            node,
            lambda x, size, _: tf.raw_ops.ResizeArea(images=x, size=size, align_corners=corners),
        )


@tf_op("ScaleAndTranslate")
class ScaleAndTranslate:
    """Resizing with antialiasing, and with Lanczos, Gaussian and Mitchell filters."""

    @classmethod
    def version_13(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        scale, shift = _constant(node, 2), _constant(node, 3)
        if scale is None or shift is None or min(scale) <= 0:
            _refuse(node, "needs a fixed scale and translation")
        kernel = node.get_attr_value("kernel_type").decode()
        antialias = bool(node.get_attr_value("antialias"))

        def resize(image: Any, size: list[int], axis: int) -> Any:
            along = [float(scale[i]) if i == axis else 1.0 for i in (0, 1)]
            moved = [float(shift[i]) if i == axis else 0.0 for i in (0, 1)]
            return tf.raw_ops.ScaleAndTranslate(
                images=image,
                size=size,
                scale=along,
                translation=moved,
                kernel_type=kernel,
                antialias=antialias,
            )

        _by_matrices(ctx, node, resize)
