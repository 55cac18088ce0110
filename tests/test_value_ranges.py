"""Ranges that a graph itself gives its outputs."""

from __future__ import annotations

import onnx_ir
import pytest

from converter.graph.value_ranges import output_ranges


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Sigmoid(x)", (0.0, 1.0)),
        ("a = Softmax(x) y = Transpose(a)", (0.0, 1.0)),
        ("a = Tanh(x) b = Sigmoid(x) y = Concat<axis = 0>(a, b)", (-1.0, 1.0)),
        ("a = Sigmoid(x) y = Concat<axis = 0>(a, x)", None),
        ("a = Sigmoid(x) y = Add(a, a)", None),
        ("y = Relu(x)", None),
        ("y = Identity(x)", None),
    ],
)
def test_output_ranges(body: str, expected: tuple[float, float] | None) -> None:
    head = '<ir_version: 9, opset_import: ["" : 20]> g (float[2, 2] x) => (float[n, m] y)'
    text = f"{head} {{ {body} }}"
    found = output_ranges(onnx_ir.from_onnx_text(text))
    assert found.get("y") == expected
