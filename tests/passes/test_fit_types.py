"""Operators on types that ONNX, or ONNX Runtime, has no such operator for."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir
import pytest
from onnx import TensorProto, helper

from converter import plugins
from converter.ir.edit import all_nodes
from converter.runtime.ort import OrtSession

YES = np.array([[True, False], [False, False]])
OTHER = np.array([[True, True], [False, True]])
WHOLE = np.array([[1, -2], [3, 4]])
BOOL, INT64, FLOAT = TensorProto.BOOL, TensorProto.INT64, TensorProto.FLOAT


def made(
    op: str, given: list[Any], kind: int, inputs: list[str] | None = None, **attributes: Any
) -> onnx_ir.Model:
    names = [f"x{place}" for place in range(len(given))]
    typed = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, given, strict=True)
    ]
    node = helper.make_node(op, inputs or names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", typed, [helper.make_tensor_value_info("y", kind, None)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    return plugins.load("passes", "normalize")(onnx_ir.from_proto(proto)).model


def run(model: onnx_ir.Model, given: list[Any]) -> Any:
    session = OrtSession(model, plain=True)
    try:
        return session.run({f"x{place}": x for place, x in enumerate(given)})["y"]
    finally:
        session.close()


@pytest.mark.parametrize(("op", "given", "kind", "wanted", "attributes"), [
    ("Where", [YES, OTHER, YES], BOOL, np.where(YES, OTHER, YES), {}),
    ("Ceil", [WHOLE], INT64, WHOLE, {}),
    ("Round", [WHOLE], INT64, WHOLE, {}),
    ("IsNaN", [WHOLE], BOOL, WHOLE > 9, {}),
    ("IsInf", [YES], BOOL, WHOLE > 9, {}),
    ("Relu", [WHOLE], INT64, np.maximum(WHOLE, 0), {}),
    ("Gemm", [WHOLE, WHOLE, WHOLE], INT64, 2 * WHOLE @ WHOLE.T + 3 * WHOLE,
     {"alpha": 2.0, "beta": 3.0, "transB": 1}),
    ("Gemm", [WHOLE, WHOLE], INT64, WHOLE.T @ WHOLE, {"transA": 1}),
    ("Add", [YES, OTHER], BOOL, YES | OTHER, {}),
    ("Mul", [YES, OTHER], BOOL, YES & OTHER, {}),
    ("Max", [YES, OTHER], BOOL, YES | OTHER, {}),
    ("Sub", [YES, OTHER], BOOL, YES ^ OTHER, {}),
    ("MatMul", [YES, OTHER], BOOL, YES @ OTHER, {}),
    ("Less", [YES, OTHER], BOOL, YES < OTHER, {}),
    ("ReduceProd", [OTHER], INT64, np.array(0), {"keepdims": 0}),
    ("Pow", [YES, abs(WHOLE)], INT64, YES.astype(int) ** abs(WHOLE), {}),
    ("ArgMax", [YES], INT64, np.array([[0], [0]]), {"axis": 1}),
    ("ScatterElements", [YES, WHOLE * 0, OTHER], BOOL,
     np.array([[True, True], [False, False]]), {"reduction": "max"}),
])  # fmt: skip
def test_they_are_said_with_others(
    op: str, given: list[Any], kind: int, wanted: Any, attributes: dict[str, Any]
) -> None:
    found = run(made(op, given, kind, **attributes), given)
    assert found.dtype == wanted.dtype and np.array_equal(found, wanted)


def test_softmax_of_integers_is_of_floats() -> None:
    found = run(made("Softmax", [WHOLE], FLOAT), [WHOLE])
    powers = np.exp(WHOLE.astype(float))
    assert np.allclose(found, powers / powers.sum(-1, keepdims=True))


@pytest.mark.parametrize(("op", "given", "kind"), [
    ("Where", [YES, WHOLE, WHOLE], INT64), ("And", [YES, OTHER], BOOL),
    ("Ceil", [WHOLE.astype(np.float32)], FLOAT), ("Not", [YES], BOOL),
    ("ScatterElements", [YES, WHOLE * 0, OTHER], BOOL),
    ("Relu", [WHOLE.astype(np.int32)], TensorProto.INT32),
])  # fmt: skip
def test_what_is_right_stays(op: str, given: list[Any], kind: int) -> None:
    assert [node.op_type for node in all_nodes(made(op, given, kind))] == [op]
