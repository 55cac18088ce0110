"""Reads a node's attributes, or the defaults that ONNX gives them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir


def number(node: onnx_ir.Node, name: str, default: int) -> int:
    """An integer attribute.

    Args:
        node: The node.
        name: The attribute's name.
        default: What ONNX says where it is left out.
    """
    attribute = node.attributes.get(name)
    return attribute.as_int() if attribute is not None else default


def floating(node: onnx_ir.Node, name: str, default: float) -> float:
    """A float attribute.

    Args:
        node: The node.
        name: The attribute's name.
        default: What ONNX says where it is left out.
    """
    attribute = node.attributes.get(name)
    return attribute.as_float() if attribute is not None else default


def text(node: onnx_ir.Node, name: str, default: str) -> str:
    """A text attribute.

    Args:
        node: The node.
        name: The attribute's name.
        default: What ONNX says where it is left out.
    """
    attribute = node.attributes.get(name)
    return attribute.as_string() if attribute is not None else default


def ints(node: onnx_ir.Node, name: str, default: Sequence[int]) -> list[int]:
    """An attribute that is a list of integers.

    Args:
        node: The node.
        name: The attribute's name.
        default: What ONNX says where it is left out.
    """
    attribute = node.attributes.get(name)
    return list(attribute.as_ints()) if attribute is not None else list(default)
