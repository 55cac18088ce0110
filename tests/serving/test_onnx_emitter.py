"""The ONNX target: what it writes, and that ONNX Runtime runs it."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from converter.ir.model import IR_VERSION, OPSET, Model
from emitters.onnx.emitter import OnnxEmitter
from tests.serving.models import classifier, make_request, text_model


@pytest.mark.parametrize(("classes", "external"), [(4, False), (4000, True)])
def test_writes_a_model_that_runs(tmp_path: Path, classes: int, external: bool) -> None:
    """And its weights to a file of their own when asked."""
    request = make_request(threads=1, external_data=external)
    artifact = OnnxEmitter().emit(classifier(classes), tmp_path / "new", "fp32", request)
    assert artifact.path == tmp_path / "new" / "model.onnx" == artifact.files[0]
    digests = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in artifact.files}
    assert digests.keys() == {"model.onnx", *(["model.onnx.data"] if external else [])}
    assert artifact.details == {
        "bytes": sum(file.stat().st_size for file in artifact.files),
        "sha256": digests, "opset": OPSET, "ir_version": IR_VERSION, "nodes": 1,
    }  # fmt: skip
    assert Model.load(artifact.path).outputs[0].shape == ("batch", classes)
    session = OnnxEmitter().open(artifact, request)
    assert session.runtime["threads"] == 1
    scores = session.run({"x": np.ones((2, 3), np.float32)})["scores"]
    expected = 3 * np.arange(classes, dtype=np.float32) + 3 * classes
    np.testing.assert_array_equal(scores, [expected] * 2)


def test_a_local_function_is_no_foreign_operator() -> None:
    body = "g (float[batch, 3] x) => (float[batch, 3] y) { y = com.example.Twice(x) }"
    function = f'<domain: "com.example", opset_import: ["" : {OPSET}]> Twice (a) => (b)'
    model = text_model(f"{body} {function} {{ b = Add(a, a) }}")
    assert OnnxEmitter().unsupported(model, make_request()) == []
    (item,) = OnnxEmitter().unsupported(text_model(body), make_request())
    assert item.op == "com.example::Twice"
