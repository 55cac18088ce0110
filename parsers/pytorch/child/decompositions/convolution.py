"""Transposed convolutions that grow by a stride and more behind.

ONNX Runtime refuses those: where a dilation is the larger one, torch allows them.

    n more elements behind  =  n // stride more zeros behind the input, and n % stride more elements
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

from typing import Any

import torch

from .definition import Definition, value

_ATEN = torch.ops.aten


def _transposed(
    x: Any, weight: Any, bias: Any = None, stride: Any = (1,), padding: Any = (0,),
    output_padding: Any = (0,), groups: int = 1, dilation: Any = (1,),
) -> Any:  # fmt: skip
    """conv_transpose2d, and so on; with an input without a batch too"""
    axes = weight.dim() - 2
    stride, more = _each(stride, axes), _each(output_padding, axes)
    ends = [n // s for n, s in zip(more, stride)]
    rest = [n % s for n, s in zip(more, stride)]
    if any(ends):
        x = _ATEN.constant_pad_nd.default(x, [n for end in ends[::-1] for n in (0, end)])
    lone = x.dim() == axes + 1
    x = x.unsqueeze(0) if lone else x
    told = (_each(padding, axes), _each(dilation, axes), True, rest, groups)
    made = _ATEN.convolution.default(x, weight, bias, stride, *told)
    return made.squeeze(0) if lone else made


def _convolution(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
                 transposed: bool, output_padding: Any, groups: int) -> Any:  # fmt: skip
    axes = weight.dim() - 2
    if not transposed or not _grows(_each(output_padding, axes), _each(stride, axes)):
        return NotImplemented
    return _transposed(x, weight, bias, stride, padding, output_padding, groups, dilation)


def _each(given: Any, axes: int) -> list[Any]:
    return [*given] * (axes if len(given) == 1 else 1)


def _grows(more: Any, strides: Any) -> bool:
    """Whether there is more behind on some axis than ONNX Runtime takes."""
    pairs = [*zip(more, strides)]
    return any(isinstance(n, int) and isinstance(s, int) and n >= s > 0 for n, s in pairs)


def _needed(node: Any) -> bool:
    names = [argument.name for argument in node.target._schema.arguments]
    given = {**dict(zip(names, node.args)), **node.kwargs}
    axes = value(given["weight"]).dim() - 2
    more, strides = given.get("output_padding", [0]), given.get("stride", [1])
    return given.get("transposed", True) and _grows(_each(more, axes), _each(strides, axes))


TABLE = {
    _ATEN.conv_transpose1d.default: Definition(_transposed, _needed),
    _ATEN.conv_transpose2d.input: Definition(_transposed, _needed),
    _ATEN.conv_transpose3d.input: Definition(_transposed, _needed),
    _ATEN.convolution.default: Definition(_convolution, _needed),
}
