"""What a file is, and whose fault it isn't: optimizations that fail, exporters' mistakes, inputs
without a batch, weights that are tied."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from ai_edge_litert import schema_py_generated as schema

from converter.errors import UnsupportedError
from converter.ir.exported import exporters_mistake, require_types
from converter.ir.model import Model
from converter.options.inputs import InputSpec
from converter.runtime.ort import OrtSession, RefusedModel
from converter.runtime.ort_optimizers import LEVELS, failing
from parsers.onnx.interface import Interface, Wishes
from tests.acceptance.cli import refused, typed, written

NOOP = """m (float[2, 3] x) => (float[2, 3] z, float q) <float one = {1}, float d = {3}> {
    mid = Cast <to = 1> (x) q = Div (one, d) m1 = Mul (mid, one) m2 = Div (m1, one)
    rec = Div (one, mid) y = Mul (m2, rec) z = Cast <to = 1> (y) }"""
"""ONNX Runtime 1.31 loads it without its rules for x / 1 alone."""

CONVERT = "convert m.onnx --no-bench --out out "


# -- optimizations of ONNX Runtime's -----------------------------------------------------


def test_a_file_that_an_optimization_fails_on_converts(tmp_path: Path) -> None:
    written(tmp_path / "m.onnx", NOOP)
    said = typed(f"{CONVERT} --samples random:2 --to onnx --json", tmp_path).json["report"]
    told = " ".join(alert["text"] for alert in said["alerts"])
    assert said["verdict"] == "passed"
    assert "NoopElimination (level basic) fails on m.onnx" in told, told
    assert 'disabled_optimizers=["NoopElimination"]' in told
    OrtSession(tmp_path / "out/onnx/fp32/model.onnx", stock=True).close()


def test_an_artifact_that_it_still_fails_on_says_so(tmp_path: Path) -> None:
    written(tmp_path / "m.onnx", NOOP)
    said = typed(f"{CONVERT} --samples random:2 --to onnx --no-simplify --json", tmp_path)
    assert "NoopElimination" in str(said.json["report"]["artifacts"][0]["decisions"])
    said = typed("check out --against m.onnx --samples random:2", tmp_path, code=3)
    assert "NoopElimination (level basic) fails on model.onnx" in said.err


def test_a_file_that_fails_without_any_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "m.onnx", "m (double[2] x) => (double[2] y) { y = Erf (x) }")
    refused(3, "m.onnx: ONNX Runtime refuses the model", tmp_path, "m.onnx", "--out", "out")


def test_what_fails_together_is_known_by_its_level() -> None:
    pair = {"DivMulFusion", "NhwcTransformer"}
    found = failing(lambda level, without: level in LEVELS[:2] or pair <= {*without})
    assert str(found) == "one of ONNX Runtime's optimizations (level extended)"
    assert found is not None and (found.below, found.left_out) == ("basic", ())
    assert found.remedy == "graph_optimization_level = ORT_ENABLE_BASIC"


# -- inputs without a batch --------------------------------------------------------------


ROWS = """m (int64[?] ids, int64[?] ends) => (float[?, 4] y) <float[20, 4] table,
    float[1, 4] none = {0, 0, 0, 0}, int64 zero = {0}, int64[1] first = {0}, int64[1] second = {1},
    int64[1] last = {-1}, int64[1] far = {9999}> {
    e = Gather (table, ids) sums = CumSum (e, zero) whole = Concat <axis = 0> (none, sums)
    at = Gather (whole, ends) up = Slice (at, second, far, first)
    down = Slice (at, first, last, first) y = Sub (up, down) }"""
"""The sum of each row of ids; ``ends`` says where rows end."""

SAMPLES = """import numpy as np
def samples():
    for ids, ends in (([3, 4, 5, 6, 7, 8], [0, 2, 2, 6]), ([1, 1, 2, 3, 4, 5, 6], [0, 1, 7])):
        yield {"ids": np.array(ids), "ends": np.array(ends)}
"""


def test_inputs_that_share_no_batch_are_given_none(tmp_path: Path) -> None:
    table = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
    written(tmp_path / "m.onnx", ROWS, table=table)
    (tmp_path / "data.py").write_text(SAMPLES)
    said = typed(f"{CONVERT} --samples data.py:samples --to onnx,tflite --json", tmp_path)
    assert "ids [ids_dim0, ...], ends [ends_dim0, ...]" in said.out
    session = OrtSession(tmp_path / "out/onnx/fp32/model.onnx")
    assert [spec.shape for spec in session.inputs] == [("ids_dim0",), ("ends_dim0",)]
    given = session.run({"ids": np.array([2, 2, 9]), "ends": np.array([0, 1, 1, 3])})["y"]
    rows = [table[2], np.zeros(4), table[2] + table[9]]
    np.testing.assert_allclose(given, rows, atol=1e-6)


@pytest.mark.parametrize(
    ("graph", "shapes"),
    [
        ("(float[?] a, float[?] b) => (float[?] y) { y = Mul (a, b) }", ["batch", "batch"]),
        (
            "(int64[?] a, int64[?] b) => (float[?, 1] y) <float[3, 2] t = {1, 2, 3, 4, 5, 6}> "
            "{ p = Gather (t, a) q = Gather (t, b) r = Mul (p, q) y = ReduceMax (r) }",
            ["a_dim0", "a_dim0"],
        ),
        ("(float[?] a) => (float[?] y) { y = Softmax <axis = 0> (a) }", ["a_dim0"]),
        (
            "(float[?] a, float[?] b) => (float[?] y, float[?] z) { y = Neg (a) z = Exp (b) }",
            ["batch", "batch"],
        ),
        (
            "(float[?, 3] a, float[?] b) => (float[?, 3] y) { s = ReduceMax (b) y = Mul (a, s) }",
            ["batch", "b_dim0"],
        ),
    ],
    ids=["asked to be one", "over all rows", "one of one axis", "each its own", "one beside"],
)
def test_a_batch_is_what_holds_as_one(tmp_path: Path, graph: str, shapes: list[str]) -> None:
    model = Model.load(written(tmp_path / "m.onnx", f"m {graph}"))
    made = Interface.apply(model, Wishes())
    assert [spec.shape[0] for spec in made.inputs if spec.shape] == shapes
    assert bool(made.notes) == (set(shapes) != {"batch"})


def test_what_the_user_calls_a_batch_is_one(tmp_path: Path) -> None:
    graph = "m (float[?] a) => (float[?] y) { y = Softmax <axis = 0> (a) }"
    for wishes in (Wishes((InputSpec("a", "float32", ("batch",)),)), Wishes(batch="dynamic")):
        model = Model.load(written(tmp_path / "m.onnx", graph))
        assert Interface.apply(model, wishes).inputs[0].shape == ("batch",)


# -- weights that are tied ---------------------------------------------------------------


TIED = """m (int64[batch, 5] ids) => (float[batch, 5, 400] y)
    <float[400, 16] table, float[16, 400] turned> {
    e = Gather (table, ids) h = Tanh (e) y = MatMul (h, turned) }"""


def test_tied_weights_are_stored_once(tmp_path: Path) -> None:
    table = np.random.default_rng(0).standard_normal((400, 16)).astype(np.float32)
    written(tmp_path / "m.onnx", TIED, table=table, turned=np.ascontiguousarray(table.T))
    typed(f"{CONVERT} --samples random:8 --to onnx,tflite,coreml --precision fp32,fp16", tmp_path)
    for precision, size in (("fp32", 4), ("fp16", 2)):
        model = onnx.load(tmp_path / f"out/onnx/{precision}/model.onnx")
        held = {tensor.name: tensor for tensor in model.graph.initializer}
        assert [list(t.dims) for t in held.values() if len(t.dims) == 2] == [[400, 16]]
        assert not held.keys() & {value.name for value in model.graph.value_info}
        file = (tmp_path / f"out/tflite/{precision}/model.tflite").read_bytes()
        buffers = schema.ModelT.InitFromObj(schema.Model.GetRootAs(file, 0)).buffers
        sizes = [len(buffer.data) for buffer in buffers if buffer.data is not None]
        assert sizes.count(400 * 16 * size) == 1
        (weights,) = (tmp_path / f"out/coreml/{precision}").rglob("weight.bin")
        assert weights.stat().st_size < 1.5 * 400 * 16 * size


# -- exporters' mistakes -----------------------------------------------------------------


NET = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.max_pool2d(x.long(), 2)
"""


def test_an_exporter_s_mistake_is_told_as_its(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    line = "convert net.py:Net --input x:batchx1x4x6 --samples random:2 --no-bench --out out"
    said = typed(line, tmp_path, code=3)
    assert "the exporter " in said.err and " (torch " in said.err
    assert "wrote a wrong graph" in said.err
    assert "MaxPool (MaxPool): ONNX Runtime refuses" in said.err
    assert "The exporter made the mistake" in said.err


def test_outputs_of_another_type_than_the_model_s_are_the_exporter_s(tmp_path: Path) -> None:
    graph = "m (float[2] x) => (bool[2] y, float[2] z) { y = IsNaN (x) z = Neg (x) }"
    model = Model.load(written(tmp_path / "m.onnx", graph))
    outputs = {"y": np.zeros(2, np.uint8), "z": np.zeros(2, np.float32)}
    require_types(model, outputs)  # nobody exported it
    model.source = {"exporter": "an exporter 1.0"}
    with pytest.raises(UnsupportedError, match=r"IsNaN \(y\): the output is bool.*gives uint8"):
        require_types(model, outputs)


def test_a_kernel_that_is_missing_is_not_the_exporter_s(tmp_path: Path) -> None:
    graph = "m (double[2] x) => (double[2] y) { y = Erf (x) }"
    model = Model.load(written(tmp_path / "m.onnx", graph))
    model.source = {"exporter": "an exporter 1.0"}
    with pytest.raises(RefusedModel) as refusal:
        OrtSession(model.graph)
    assert exporters_mistake(model, refusal.value) is refusal.value
