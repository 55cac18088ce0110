"""Names are complete, and nothing tells of the machine that made the file."""

import json
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import parser

from converter.ir.model import BATCH, IR_VERSION, Model
from converter.ir.symbols import is_readable
from converter.passes.cleanup.normalize import Normalize
from tests.passes.models import run


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
            a = Relu (x) [Relu_1] b = Relu (a) [twice] d = Neg (b) [twice] e = Neg (d) f = Relu (e)
            y = If (c) <
                then_branch = t () => (float[2] p) { p = Relu (f) },
                else_branch = u () => (float[2] q) { [twice] q = Abs (f) }
            >
        }
        """
    )
    expected = "Relu_0 Relu_1 twice twice_1 Relu_2 If_0 Relu_3 twice_2"
    assert [node.name for node in model.nodes()] == expected.split()


def test_values_get_names_and_none_is_used_twice() -> None:
    model = normalized(
        """g (float[2] x, bool c) => (float[2] y, float[2] b) {
            a = Neg (x) b = Neg (a)
            y = If (c) <
                then_branch = t () => (float[2] a) { a = Relu (x) },
                else_branch = e () => (float[2] b2) { b2 = Abs (x) }
            >
        }"""
    )
    names = [output.name for node in model.nodes() for output in node.outputs]
    assert len(set(names)) == len(names)
    assert [spec.name for spec in model.outputs] == ["y", "b"]
    outputs = run(model, {"x": np.array([-1, 2], np.float32), "c": np.array(True)})
    assert outputs["y"].tolist() == [0, 2]


def test_it_is_the_same_every_time() -> None:
    model, again = (normalized("g (float[2] x) => (float[2] y) { y = Relu (x) }") for _ in "12")
    assert model.to_proto() == again.to_proto()
    assert not Normalize()(model.graph).modified


NOBODYS = "N n b bs batch_size Batch num_samples unk__53 s0 None ? -1 p2o.DynamicDimension.0"
NOBODYS += " dynamic_axes_1 x_dynamic_axes_1 dim_0 LSTMhn_dim_1 2*s0"


@pytest.mark.parametrize("name", [*NOBODYS.split(), "batch size", ""])
def test_names_that_nobody_chose(name: str) -> None:
    assert not is_readable(name)
    size = f"float[{json.dumps(name)}, {json.dumps(name)}, 3]".replace('""', "?")
    expected = (BATCH, "x_dim1" if name in ("", "?") else BATCH, 3)
    model = normalized(f"g ({size} x) => ({size} y) {{ y = Relu (x) }}")
    assert shapes(model) == {"x": expected, "y": expected}


@pytest.mark.parametrize("name", ["tokens", "height", "seq_len", "num_boxes", "sequence"])
def test_names_that_somebody_chose(name: str) -> None:
    assert is_readable(name)
    model = normalized(f"g (float[{name},3] x) => (float[{name},3] y) {{ y = Relu (x) }}")
    assert shapes(model) == {"x": (name, 3), "y": (name, 3)}


@pytest.mark.parametrize(("text", "expected"), [
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
], ids=["one name stays one dimension", "outputs take the inputs' where that follows",
     "scalars and fixed first dimensions have no batch"])  # fmt: skip
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
    told = {"date": "2024-05-01T12:00:00", "hostname": "somewhere"}
    told |= {"checkpoint": "C:\\Users\\somebody\\net.pt", "weights": f"trained in {home}"}
    told |= {"names": '{0: "cat", 1: "dog"}', "ratio": "1/2 and 3/4", "character": "/\n~\na/b"}
    for key, value in told.items():
        proto.metadata_props.add(key=key, value=value)
    proto.graph.name = home
    proto.producer_name = "pytorch"
    return proto


def test_what_tells_of_the_machine_goes() -> None:
    model = normal(leaking())
    content = model.to_proto().SerializeToString()
    for trace in (b"somebody", b"stack_trace", b"line 3", b"2024", b"somewhere", b"doc"):
        assert trace not in content
    assert set(dict(model.graph.metadata_props)) == {"names", "ratio", "character"}
    assert model.graph.producer_name == "pytorch"
    assert model.graph.graph.name == "model"
