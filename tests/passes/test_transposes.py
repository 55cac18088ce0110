"""Transposes are pushed out and cancelled, and nothing else changes."""

from collections.abc import Iterator

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import helper, numpy_helper

from converter.errors import ModelError
from converter.ir.edit import count_of
from converter.ir.model import IR_VERSION, OPSET, Model
from converter.passes.cleanup.cleanup import Cleanup
from converter.passes.transposes.table import PASSED
from converter.passes.transposes.transposes import Transposes
from tests.conformance.cases import open_store
from tests.passes.models import Array, noise, ops, run, text_model

TO_LAST = "Transpose<perm: ints = [0,2,3,1]>"
TO_FIRST = "Transpose<perm: ints = [0,3,1,2]>"


def check(model: Model, feeds: dict[str, Array], tolerance: float | None = 0) -> int:
    """Runs the pass; holds results, interface, count and idempotence; gives the count after."""
    before, count = run(model, feeds), count_of(model.graph, "Transpose")
    specs = model.inputs, model.outputs
    pass_ = Transposes()
    pass_.requires(model.graph)
    pass_(model.graph)
    pass_.ensures(model.graph)
    onnx.checker.check_model(onnx_ir.to_proto(model.graph), full_check=True)
    after = run(model, feeds)
    assert list(after) == list(before)
    for name in before if tolerance is not None else ():
        np.testing.assert_allclose(after[name], before[name], rtol=tolerance, atol=tolerance)
    assert (model.inputs, model.outputs) == specs
    assert not Transposes()(model.graph).modified
    left = count_of(model.graph, "Transpose")
    assert left <= count
    return left


# Between a Transpose to channels last and one back: x is [2,4,6,8], a is [2,6,8,4]. How many of
# the two are left where something needs its axes.
KEPT = {
    "b = LayerNormalization(a, g)": "float[4] g = {1,2,3,4}",
    "b = Reshape(a, s)": "int64[4] s = {2,6,4,8}",  # width and channels are torn apart
    "b = MaxPool<kernel_shape: ints = [1,1]>(a)": "",
    "b = LRN<size: int = 3>(a)": "",
}
PASSED_BY = [
    ("b = Relu(a)", ""),
    ("b = Clip(a, l, h)", "float l = {-1}, float h = {1}"),
    ("b = Add(a, c)", "float c = {0.5}"),
    ("b = Mul(a, c)", "float[4] c = {1,2,3,4}"),
    ("b = Sub(c, a)", "float[8,1] c = {1,2,3,4,5,6,7,8}"),
    ("b = PRelu(a, c)", "float[1,1,4] c = {1,2,3,4}"),
    ("c = Sigmoid(a) b = Mul(a, c)", ""),
    ("c = Equal(a, a) b = Where(c, a, z)", "float z = {0}"),
    ("b = Concat<axis: int = -1>(a, a)", ""),
    ("c, d = Split<axis: int = 3, num_outputs: int = 2>(a) b = Concat<axis: int = 3>(d, c)", ""),
    ("b = Pad(a, p)", "int64[8] p = {0,1,2,0, 0,3,4,0}"),
    ("b = Pad(a, p, , n)", "int64[4] p = {1,2,3,4}, int64[2] n = {1,-2}"),
    ("b = Slice(a, s, e, n)", "int64[1] s = {1}, int64[1] e = {3}, int64[1] n = {-1}"),
    ("b = Slice(a, s, e, n)", "int32[1] s = {1}, int32[1] e = {3}, int32[1] n = {-1}"),
    ("b = Slice(a, s, e)", "int32[3] s = {0,1,2}, int32[3] e = {2,5,6}"),
    ("b = Slice(a, s, e)", "int64[3] s = {0,1,2}, int64[3] e = {2,5,6}"),
    ("b = Slice(a, s, e, n)", "int32[1] s = {1}, int32[1] e = {3}, int32[1] n = {-1}"),
    ("b = Slice(a, s, e)", "int32[3] s = {0,1,2}, int32[3] e = {2,5,6}"),
    ("b = Softmax<axis: int = -1>(a)", ""),
    ("b = CumSum(a, n)", "int64 n = {3}"),
    ("b = Gather<axis: int = 3>(a, i)", "int64[2] i = {3,0}"),
    ("b = ReduceMean<keepdims: int = 1>(a, n)", "int64[2] n = {1,2}"),
    ("c = ReduceMax<keepdims: int = 0>(a, n) b = Unsqueeze(c, n)", "int64[2] n = {1,2}"),
    ("c = ReduceMax<keepdims: int = 1>(a, n) d = Squeeze(c, n) b = Unsqueeze(d, n)",
     "int64[2] n = {1,2}"),
    ("c = QuantizeLinear(a, s, z) b = DequantizeLinear(c, s, z)", "float s = {0.1}, int8 z = {1}"),
    ("c = QuantizeLinear<axis: int = 3>(a, s) b = DequantizeLinear<axis: int = -1>(c, s)",
     "float[4] s = {0.1,0.2,0.3,0.4}"),
    ("b = LpNormalization<axis: int = 3>(a)", ""),
    ("b = Tile(a, r)", "int64[4] r = {1,2,1,3}"),
    ("c, d = TopK<axis: int = 3>(a, k) b = Identity(c)", "int64[1] k = {2}"),
    ("b = Resize<mode: string = \"nearest\">(a, , s)", "float[4] s = {1,2,2,1}"),
    ("b = Resize<mode: string = \"nearest\">(a, , , s)", "int64[4] s = {2,9,12,4}"),
    ("b = Resize<mode: string = \"nearest\", axes: ints = [-3,2]>(a, , s)", "float[2] s = {2,3}"),
    ("c = ReduceMean<keepdims: int = 0>(a, n) d = Relu(c) b = Add(a, d)",
     "int64[3] n = {0,1,2}"),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "constants"), [*PASSED_BY, *KEPT.items()])
def test_a_pair_cancels_across_what_does_not_need_its_axes(nodes: str, constants: str) -> None:
    model = text_model(f"""
        m (float[2,4,6,8] x) => (y) <{constants}>
        {{ o = Neg(x) a = {TO_LAST}(o) {nodes} t = {TO_FIRST}(b) y = Neg(t) }}""")
    left, tolerance = (2, 0) if nodes in KEPT else (0, 1e-6)
    assert check(model, noise(model), tolerance) == left


BECOMES = {
    "a global pool of the wrong layout a mean": (
        f"""(float[batch,6,8,4] x) => (float[batch,1,1,4] y)
        {{ a = {TO_FIRST}(x) b = GlobalAveragePool(a) c = Relu(b) y = {TO_LAST}(c) }}""",
        {"ReduceMean": 1, "Relu": 1}),
    "one element an axis a reshape": (
        f"""(float[batch,4,6,6] x) => (float[batch,1,1,4] y)
        {{ a = GlobalAveragePool(x) y = {TO_LAST}(a) }}""",
        {"GlobalAveragePool": 1, "Reshape": 1}),
    "matrices of a gemm its transposed ones": (
        """(float[3,2] x, float[4,3] w) => (float[2,4] y) {
        a = Transpose<perm = [1,0]>(x) b = Transpose<perm = [1,0]>(w) y = Gemm(a, b) }""",
        {"Gemm": 1}),
    "an input that comes out again one": (
        f"""(float[2,3,4,5] x) => (float[2,3,4,5] y, float[2,4,5,3] z, float[2,3,4,5] w) {{
        a = {TO_LAST}(x) y = {TO_FIRST}(a) r = Relu(x) z = {TO_LAST}(r) w = {TO_FIRST}(z) }}""",
        {"Relu": 1, "Transpose": 1, "Identity": 1}),
    "one before a split no smaller one and a reshape": (
        """(float[batch,3] x) => (float[1,n] y, float[2,n] z) <int64[2] s = {1,2}>
        { a = Transpose<perm = [1,0]>(x) y, b = Split<axis: int = 0>(a, s) z = Relu(b) }""",
        {"Transpose": 1, "Split": 1, "Relu": 1}),
    "a constant a permuted one": (
        f"""(float[2,3,1,2] x) => (float[2,3,1,2] y) <float[1,1,2,3] c = {{1,2,3,4,5,6}}>
        {{ t = {TO_FIRST}(c) y = Add(x, t) }}""",
        {"Add": 1}),
    "an initializer that a caller may feed nothing else": (
        f"""(float[2,3,1,2] x, float[1,1,2,3] c) => (float[2,3,1,2] y)
        {{ t = {TO_FIRST}(c) y = Add(x, t) }}""",
        {"Add": 1, "Transpose": 1}),
    "a scalar nothing else": (
        f"""(float[1,2,3,4] x, float s) => (float[1,2,3,4] y)
        {{ r = Mul(s, s) a = {TO_LAST}(x) b = Mul(a, r) y = {TO_FIRST}(b) }}""",
        {"Mul": 2}),
    "channels that are normalized no other axis": (
        """(float[2,4,6,2] x) => (float[2,4,6,2] y) <float[2] c = {1,2}> {
        a = Transpose<perm = [0,3,2,1]>(x) b = BatchNormalization(a, c, c, c, c)
        y = Transpose<perm = [0,3,2,1]>(b) }""",
        {"Transpose": 2, "BatchNormalization": 1}),
    "two transposes that convolutions want one": (
        f"""(float[2,6,8,4] x) => (y, z) <float[3,4,1,1] w = {{1,2,3,4,5,6,7,8,9,10,11,12}}>
        {{ a = {TO_FIRST}(x) y = Conv(a, w) b = Relu(x) c = {TO_FIRST}(b) z = Conv(c, w) }}""",
        {"Transpose": 1, "Conv": 2, "Relu": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", BECOMES)
def test_what_becomes_of(name: str) -> None:
    text, expected = BECOMES[name]
    model = text_model(f"m {text}")
    names = [spec.name for spec in model.outputs]
    check(model, noise(model), tolerance=1e-6)
    assert ops(model) == expected and [spec.name for spec in model.outputs] == names


@pytest.mark.parametrize("between", ["Relu(f)", "Clip(f, zero, six)", "Mish(f)"])
def test_rows_of_the_weights_change_with_what_is_flattened(between: str) -> None:
    model = text_model(
        f"""
        m (float[batch,4,6,10] x, float[60,5] w) => (float[batch,5] y)
        <int64[2] s = {{-1,60}}, float zero = {{0}}, float six = {{6}}> {{
            p = MaxPool<kernel_shape = [2,2], strides = [2,2]>(x) t = {TO_LAST}(p)
            f = Reshape(t, s) r = {between} y = MatMul(r, w) }}""",
        w=np.random.default_rng(0).standard_normal((60, 5)).astype(np.float32),
    )
    assert check(model, noise(model), tolerance=1e-6) == 0
    op = between.partition("(")[0]
    assert ops(model) == {"MaxPool": 1, "Reshape": 1, op: 1, "MatMul": 1}
    assert sum(value.name.startswith("w") for value in model.initializers() if value.name) == 1


def test_what_is_flattened_may_only_be_the_data_of_what_follows() -> None:
    """The type of what is flattened is all that the product gets of it."""
    model = text_model(
        f"""
        m (float[batch,4,6,10] x, int64[batch,240] n, float[240,5] w) => (float[batch,5] y) {{
            t = {TO_LAST}(x) f = Flatten(t) c = CastLike(n, f) y = MatMul(c, w) }}""",
        w=np.random.default_rng(0).standard_normal((240, 5)).astype(np.float32),
    )
    check(model, noise(model), tolerance=1e-6)


def test_a_shape_is_asked_for_in_the_old_order() -> None:
    model = text_model(f"""
        m (float[batch,4,height,8] x) => (float[batch,4,height,8] y, int64[3] s) {{
            o = Neg(x) a = {TO_LAST}(o) b = Relu(a) t = {TO_FIRST}(b) y = Neg(t)
            s = Shape<start: int = 1>(b) }}""")
    feeds = noise(model, height=3)
    assert check(model, feeds) == 0
    np.testing.assert_array_equal(run(model, feeds)["s"], [3, 8, 4])


SHAPES = {"w0": (4, 3, 3, 3), "w1": (4, 4, 3, 3), "w2": (4, 4, 3, 3), "w3": (6, 4, 3, 3),
          "w4": (2, 8, 3, 3), "bias0": (4,), "bias1": (4,), "bias2": (4,), "bias3": (6,),
          "bias4": (2,), "w": (6, 5)}  # fmt: skip


def conv(y: str, x: str, number: int, activation: str = "Relu", quantized: bool = False) -> str:
    """A convolution with a bias and an activation, channels last, as TensorFlow's and TFLite's
    converters write it; with ``quantized``, QuantizeLinear and DequantizeLinear behind it."""
    text = (
        f"{y}0 = {TO_FIRST}({x}) {y}1 = Conv<pads = [1,1,1,1]>({y}0, w{number}) "
        f"{y}2 = {TO_LAST}({y}1) {y}3 = Add({y}2, bias{number}) {y} = {activation}({y}3) "
    )
    if quantized:
        text = text.replace(f"{y} =", f"{y}4 =")
        text += f"{y}5 = QuantizeLinear({y}4, s, z) {y} = DequantizeLinear({y}5, s, z) "
    return text


def network(nodes: str, output: str) -> Model:
    """A network of an image, channels last, cleaned up."""
    rng = np.random.default_rng(0)
    constants = "int64[2] axes = {1,2}, float s = {0.05}, int8 z = {3}"
    weights = {name: rng.standard_normal(shape).astype("f") for name, shape in SHAPES.items()}
    text = f"net (float[batch,8,8,3] image) => ({output}) <{constants}> {{ {nodes} }}"
    model = text_model(text, **weights)
    Cleanup()(model.graph)
    return model


@pytest.mark.parametrize("quantized", [False, True])
def test_a_classifier_keeps_the_one_at_its_input(quantized: bool) -> None:
    """Two convolutions, one squeezed and excited, added; a mean; a product."""
    nodes = [
        conv("a", "image", 0, quantized=quantized), conv("b", "a", 1, quantized=quantized),
        "m = ReduceMean<keepdims = 1>(b, axes)", conv("e", "m", 2, "Sigmoid", quantized),
        "x = Mul(b, e) d = Add(a, x)", conv("f", "d", 3, quantized=quantized),
        "g = ReduceMean<keepdims = 0>(f, axes) scores = MatMul(g, w)",
    ]  # fmt: skip
    model = network(" ".join(nodes), "float[batch,5] scores")
    assert count_of(model.graph, "Transpose") == 8
    assert check(model, noise(model), tolerance=1e-5) == 1
    node = next(node for node in model.nodes() if node.op_type == "Transpose")
    assert node.inputs[0] is not None and node.inputs[0].name == "image"


def test_a_segmenter_keeps_one_at_each_end() -> None:
    nodes = [
        conv("a", "image", 0), conv("b", "a", 1), "c = Concat<axis = -1>(a, b)", conv("d", "c", 4),
        "mask = Softmax<axis = -1>(d)",
    ]  # fmt: skip
    model = network(" ".join(nodes), "float[batch,8,8,2] mask")
    assert check(model, noise(model), tolerance=1e-5) == 2
    assert [spec.name for spec in model.outputs] == ["mask"]


@pytest.mark.parametrize("positive", [True, False])
def test_branches_are_rewritten_inside_and_get_what_they_use(positive: bool) -> None:
    model = text_model(f"""
        m (float[1,2,3,4] x, bool c) => (float[1,2,3,4] y) {{
            o = Neg(x) a = {TO_LAST}(o) b = Relu(a)
            y = If(c) <
                then_branch = t () => (float[1,2,3,4] p) {{
                    d = {TO_FIRST}(b) e = {TO_LAST}(d) f = Neg(e) p = {TO_FIRST}(f) }},
                else_branch = e () => (float[1,2,3,4] q) {{ q = {TO_FIRST}(b) }}>
        }}""")
    assert check(model, {**noise(model), "c": np.array(positive)}) <= 3
    model = text_model(f"""
        m (float[1,2,3,4] x, bool c) => (float[1,2,3,4] y, float[1,3,4,2] z) {{
            o = Neg(x) a = {TO_LAST}(o) b = Relu(a) y = {TO_FIRST}(b)
            z = If(c) <then_branch = t () => (float[1,3,4,2] p) {{ p = Neg(b) }},
                       else_branch = e () => (float[1,3,4,2] q) {{ q = Abs(b) }}>
        }}""")
    assert check(model, {**noise(model), "c": np.array(positive)}) == 1
    assert [node.op_type for node in model.graph.graph] == ["Neg", "Relu", "Transpose", "If"]


def test_a_source_of_unknown_rank_keeps_its_transpose() -> None:
    model = text_model(
        "m (float[2,3,4] x, int64[k] s) => (float[4,3,2] y) {"
        f" a = {TO_LAST[:9]}<perm: ints = [2,0,1]>(x) b = Relu(a) c = Reshape(b, s)"
        " d = Transpose<perm: ints = [2,1,0]>(c) y = Identity(d) }"
    )
    turned = next(node for node in model.nodes() if node.outputs[0].name == "d")
    turned.outputs[0].shape = onnx_ir.Shape([4, 3, 2])  # as where it is declared
    assert turned.inputs[0] is not None and turned.inputs[0].shape is None
    feeds = {"x": noise(model)["x"], "s": np.asarray([2, 3, 4], np.int64)}
    assert check(model, feeds) == 2


def test_another_opset_is_left_alone() -> None:
    model = text_model(f"""
        m (float[1,2,3,4] x) => (float[1,2,3,4] y) {{ a = {TO_LAST}(x) y = {TO_FIRST}(a) }}""")
    model.graph.opset_imports[""] = 13
    assert not Transposes()(model.graph).modified


def _node_tests() -> Iterator[tuple[str, onnx.ModelProto, list[Array], list[Array]]]:
    """ONNX's own tests of the operators that Transposes pass, one node each."""
    store = open_store()
    for case in store.cases.values():
        if case.special or case.opset < 18:
            continue
        proto = store.model(case)
        if len(proto.graph.node) == 1 and proto.graph.node[0].op_type in PASSED:
            inputs = [numpy_helper.to_array(tensor) for tensor in store.inputs(case)]
            outputs = list(store.outputs(case).values())
            if all(array.dtype.kind in "fiub" for array in (*inputs, *outputs)):
                yield case.name, proto, inputs, outputs


def _between_transposes(
    proto: onnx.ModelProto, inputs: list[Array], outputs: list[Array], seed: int
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model with a Transpose before each input and behind each output; vectors of integers
    become constants."""
    rng = np.random.default_rng(seed)
    made, feeds = onnx.ModelProto(), {}
    made.CopyFrom(proto)
    made.ir_version, made.opset_import[0].version = IR_VERSION, OPSET
    nodes, taken, given = list(proto.graph.node), [], []
    for value, array in zip(proto.graph.input, inputs, strict=True):
        if array.ndim < 2 and array.dtype.kind in "iu":
            made.graph.initializer.append(numpy_helper.from_array(array, value.name))
            continue
        if array.ndim < 2:
            feeds[value.name] = array
            taken.append(value)
            continue
        name, perm = f"{value.name}_in", [int(axis) for axis in rng.permutation(array.ndim)]
        nodes.insert(0, helper.make_node("Transpose", [name], [value.name], perm=np.argsort(perm)))
        feeds[name] = np.ascontiguousarray(array.transpose(perm))
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        taken.append(helper.make_tensor_value_info(name, kind, feeds[name].shape))
    for value, array in zip(proto.graph.output, outputs, strict=True):
        if array.ndim < 2:
            given.append(value)
            continue
        name, perm = f"{value.name}_out", [int(axis) for axis in rng.permutation(array.ndim)]
        nodes.append(helper.make_node("Transpose", [value.name], [name], perm=perm))
        kind = value.type.tensor_type.elem_type
        given.append(helper.make_tensor_value_info(name, kind, None))
    for field, items in (("node", nodes), ("input", taken), ("output", given)):
        made.graph.ClearField(field)
        getattr(made.graph, field).extend(items)
    return onnx.shape_inference.infer_shapes(made, data_prop=True), feeds


@pytest.mark.slow
def test_onnx_own_tests_between_transposes() -> None:
    tried = changed = 0
    for seed, (name, proto, inputs, outputs) in enumerate(_node_tests()):
        made, feeds = _between_transposes(proto, inputs, outputs, seed)
        model = Model(onnx_ir.from_proto(made))
        Cleanup()(model.graph)
        try:
            before = run(model, feeds)
        except ModelError:
            continue  # a type that ONNX Runtime lacks, or that came after our opset
        modified = Transposes()(model.graph).modified
        after = run(model, feeds)
        for output, array in before.items():
            np.testing.assert_allclose(
                after[output].astype(array.dtype), array, rtol=2e-6, atol=2e-6, err_msg=name
            )
        tried, changed = tried + 1, changed + modified
    assert tried > 250 and changed > 100
