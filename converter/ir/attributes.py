"""Reads a node's attributes, or the defaults that ONNX gives them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir


def number(node: onnx_ir.Node, name: str, default: int) -> int:
    attribute = node.attributes.get(name)
    return attribute.as_int() if attribute is not None else default


def floating(node: onnx_ir.Node, name: str, default: float) -> float:
    attribute = node.attributes.get(name)
    return attribute.as_float() if attribute is not None else default


def text(node: onnx_ir.Node, name: str, default: str) -> str:
    attribute = node.attributes.get(name)
    return attribute.as_string() if attribute is not None else default


def ints(node: onnx_ir.Node, name: str, default: Sequence[int]) -> list[int]:
    """A list of integers."""
    attribute = node.attributes.get(name)
    return list(attribute.as_ints()) if attribute is not None else list(default)
