"""Declared shapes become true."""

from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import parser

from converter.ir.model import BATCH, Model, dtype_name
from converter.passes.opset.repair_shapes import RepairShapes

HEAD = '<ir_version: 9, opset_import: ["" : 20]>'


def repaired(text: str, **sizes: int) -> tuple[Model, list[str]]:
    return repair(parser.parse_model(f"{HEAD} {text}"), **sizes)


def repair(proto: onnx.ModelProto, **sizes: int) -> tuple[Model, list[str]]:
    model = Model.wrap(onnx_ir.from_proto(proto))
    step = RepairShapes(sizes)
    step(model.graph)
    onnx.checker.check_model(model.to_proto(), full_check=True)
    return model, step.findings


def inner(model: Model, name: str) -> tuple[str, Any]:
    (value,) = (v for node in model.nodes() for v in node.outputs if v.name == name)
    dims = None if value.shape is None else [*value.shape]
    return dtype_name(value.dtype), dims and [d if isinstance(d, int) else d.value for d in dims]


def test_inner_shapes_that_are_wrong_or_missing_are_inferred() -> None:
    model, findings = repaired(
        """g (float[batch,4] x) => (float[batch,4] y) <float[7,7,7] h, float[1] unused> {
            h = Relu (x) y = Neg (h)
        }"""
    )
    assert (inner(model, "h"), findings) == (("float32", [BATCH, 4]), [])
    model, _ = repaired(
        """g (float[batch,4] x, bool c) => (float[batch,4] y) {
            y = If (c) <then_branch = t () => (float[batch,4] p) { h = Neg (x) p = Relu (h) },
                        else_branch = u () => (float[batch,4] q) { q = Abs (x) }>
        }"""
    )
    assert inner(model, "h") == ("float32", [BATCH, 4])


def test_a_size_that_is_the_example_s_is_the_free_one() -> None:
    """Inference doesn't know the rank; at 16 the declared shape holds, at 8 it doesn't."""
    text = "g (float[1,steps,4] x) => (float[16,4] y) { y = Squeeze (x) }"
    model, findings = repaired(text, steps=16)
    assert model.outputs[0].shape == ("steps", 4)
    assert findings == ["output y: declared float32[16, 4], is float32[steps, 4]"]


@pytest.mark.parametrize(("declared", "said"), [
    ("float[batch,5]", "float32[batch, 5]"),
    ("float[1,4]", "float32[1, 4]"),
    ("float[4]", "float32[4]"),
    ("float[batch,4,1]", "float32[batch, 4, 1]"),
    ("float[]", "float32[?]"),
    ("float", "float32[]"),
    ("float[batch,4]", None),
    ("float[y_dim0,4]", None),
])  # fmt: skip
def test_wrong_output_shapes(declared: str, said: str | None) -> None:
    model, findings = repaired(f"g (float[batch,4] x) => ({declared} y) {{ y = Neg (x) }}")
    assert model.outputs[0].shape == (BATCH, 4)
    assert findings == ([f"output y: declared {said}, is float32[batch, 4]"] if said else [])


@pytest.mark.parametrize(("text", "shapes"), [
    ("""g (float[batch,tokens] x) => (float[batch,words] y, int64[2,found] z) {
        y = Neg (x) z = NonZero (x)
    }""", [(BATCH, "words"), (2, "found")]),
    ("""g (float[batch,2,3] x) => (float[y_dim0,6] y) <int64[1] six = {6}> {
        n = Shape <start = 0, end = 1> (x) one = Cast <to = 1> (n)
        again = Cast <to = 7> (one) s = Concat <axis = 0> (again, six) y = Reshape (x, s)
    }""", [(BATCH, 6)]),
    ("""g (float[batch,6] x) => (float[y_dim0,3] y) <int64[2] s = {2, 3}> {
        y = Reshape (x, s)
    }""", [(2, 3)]),
], ids=["names that somebody chose stay", "a batch that inference does not see",
     "a batch of one only"])  # fmt: skip
def test_outputs(text: str, shapes: list[Any]) -> None:
    model, findings = repaired(text)
    assert [spec.shape for spec in model.outputs] == shapes
    assert findings == []


def test_inference_that_is_wrong_is_not_believed() -> None:
    """onnx takes STFT to give a whole spectrum where ``onesided`` is left to its default."""
    model, findings = repaired(
        """g (float[1,32,1] x) => (float[1,7,8,2] y)
        <int64 step = {4}, float[8] window = {1,1,1,1,1,1,1,1}, int64 length = {8}> {
            h = STFT (x, step, window, length)
            y = Neg (h)
        }"""
    )
    assert model.outputs[0].shape == (1, 7, "y_dim2", 2)
    assert findings[0] == "output y: declared float32[1, 7, 8, 2], is float32[1, 7, ?, 2]"
    assert "shape inference gives [1, 7, 8, 2], the model [1, 7, 5, 2]" in findings[1]
    assert inner(model, "h") == ("float32", None)


def _picky(rows: int) -> onnx.ModelProto:
    """A product with so many rows."""
    text = f"g (float[batch,free] x) => (float[] y) <float[{rows},3] w> {{ y = MatMul (x, w) }}"
    proto = parser.parse_model(f"{HEAD} {text}")
    weight = np.ones((rows, 3), np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return proto


def test_sizes_are_tried_until_the_model_runs() -> None:
    """One that runs at no size that is tried is inferred; sizes that are known are used."""
    for rows, known in ((512, {}), (97, {}), (97, {"free": 97})):
        model, findings = repair(_picky(rows), **known)
        assert model.outputs[0].shape == (BATCH, 3)
        assert any("was not run" in line for line in findings) == (rows == 97 and not known)
    assert RepairShapes({"free": 97}).key()["parameters"] == {"sizes": (("free", 97),)}
