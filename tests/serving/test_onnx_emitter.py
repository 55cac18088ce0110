"""The ONNX target: what it writes, what it refuses, that ONNX Runtime runs it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from converter.ir import IR_VERSION, OPSET, Model
from emitters.onnx import OnnxEmitter
from tests.serving.models import BATCH_3, classifier, make_model, make_request


def test_writes_a_model_that_runs(tmp_path: Path) -> None:
    artifact = OnnxEmitter().emit(classifier(), tmp_path / "new", "fp32", make_request())
    assert artifact.path == tmp_path / "new" / "model.onnx"
    assert artifact.files == [artifact.path]
    digest = hashlib.sha256(artifact.path.read_bytes()).hexdigest()
    assert artifact.details == {
        "bytes": artifact.path.stat().st_size,
        "sha256": {"model.onnx": digest},
        "opset": OPSET,
        "ir_version": IR_VERSION,
        "nodes": 1,
    }
    session = OnnxEmitter().open(artifact, make_request(threads=1))
    assert session.runtime["threads"] == 1
    scores = session.run({"x": np.ones((2, 3), np.float32)})["scores"]
    np.testing.assert_array_equal(scores, [[12, 15, 18, 21]] * 2)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (
        OnnxEmitter().emit(classifier(), tmp_path / name, "fp32", make_request())
        for name in ("a", "b")
    )
    assert first.path.read_bytes() == second.path.read_bytes()


def test_weights_go_to_a_file_of_their_own_when_asked(tmp_path: Path) -> None:
    request = make_request(external_data=True)
    artifact = OnnxEmitter().emit(classifier(classes=4000), tmp_path, "fp32", request)
    assert [file.name for file in artifact.files] == ["model.onnx", "model.onnx.data"]
    assert set(artifact.details["sha256"]) == {"model.onnx", "model.onnx.data"}
    assert artifact.details["bytes"] == sum(file.stat().st_size for file in artifact.files)
    again = Model.load(artifact.path)
    assert again.outputs[0].shape == ("batch", 4000)
    feeds = {"x": np.ones((1, 3), np.float32)}
    assert OnnxEmitter().open(artifact, request).run(feeds)["scores"].shape == (1, 4000)


def test_lists_every_operator_that_nobody_knows() -> None:
    tensor = (TensorProto.FLOAT, BATCH_3)
    model = make_model(
        [
            helper.make_node("Frobnicate", ["x"], ["a"], name="one", domain="com.example"),
            helper.make_node("Add", ["a", "a"], ["b"], name="two"),
            helper.make_node("Frobnicate", ["b"], ["c"], name="three"),
            helper.make_node("Gelu", ["c"], ["y"], name="four", domain="com.microsoft"),
        ],
        {"x": tensor},
        {"y": tensor},
    )
    found = OnnxEmitter().unsupported(model, make_request())
    assert [(item.node, item.op) for item in found] == [
        ("one", "com.example::Frobnicate"),
        ("three", "Frobnicate"),
    ]
    assert "com.example" in found[0].reason and "no such operator" in found[1].reason


def test_a_local_function_is_no_foreign_operator() -> None:
    import onnx_ir
    from onnx import FunctionProto

    tensor = (TensorProto.FLOAT, BATCH_3)
    model = make_model(
        [helper.make_node("Twice", ["x"], ["y"], domain="com.example")],
        {"x": tensor},
        {"y": tensor},
    )
    body = [helper.make_node("Add", ["a", "a"], ["b"])]
    opsets = [helper.make_opsetid("", OPSET)]
    function: FunctionProto = helper.make_function(
        "com.example", "Twice", ["a"], ["b"], body, opsets
    )
    proto = onnx_ir.to_proto(model.graph)
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("com.example", 1))
    assert OnnxEmitter().unsupported(Model.wrap(onnx_ir.from_proto(proto)), make_request()) == []
