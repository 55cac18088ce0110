"""Batches that are what they say, and batches that aren't."""

import numpy as np
import onnx_ir
import pytest

from converter.analysis.batch import check_batch
from converter.errors import ModelError
from converter.ir.batch import fix_batch, fixed_batch, free_batch
from converter.ir.model import BATCH
from tests.passes.models import noise, run
from tests.serving.models import text_model as model

X = np.random.default_rng(0).standard_normal((1, 2, 3)).astype(np.float32)


IN = "g (float[batch,2,3] x)"

SOFT = f"{IN} => (float[batch,2,3] y) {{ y = Softmax <axis = 0> (x) }}"
MEAN = f"""{IN} => (float[batch,2,3] y) <int64[1] a = {{0}}> {{
    m = ReduceMean (x, a) y = Sub (x, m)
}}"""
HONEST = {
    "elementwise": f"{IN} => (float[batch,2,3] y) {{ y = Relu (x) }}",
    "softmax": f"{IN} => (float[batch,2,3] y) {{ y = Softmax (x) }}",
    "undeclared": f"{IN} => (float[a,b,c] y) {{ y = Relu (x) }}",
    "another axis": f"{IN} => (float[2,batch,3] y) {{ y = Transpose <perm = [1, 0, 2]> (x) }}",
    "integers": f"{IN} => (int64[batch,3] y) {{ y = ArgMax <axis = 1, keepdims = 0> (x) }}",
    "nan": f"{IN} => (float[batch,2,3] y) {{ y = Log (x) }}",
    "per tensor": f"""{IN} => (float[batch,2,3] y) {{
        q, s, z = DynamicQuantizeLinear (x) y = DequantizeLinear (q, s, z)
    }}""",
    # Normalized by its own range, silence is whatever the sum's rounding makes of it.
    "silence": f"""{IN} => (float[batch,2,3] y)
        <int64[2] a = {{1, 2}}, float e = {{1e-30}}, float c = {{0.1}}> {{
            s = Add (x, c) m = ReduceMean (s, a) d = Sub (s, m)
            n = ReduceMax (d, a) o = Add (n, e) y = Div (d, o)
        }}""",
    "an output without one": f"""{IN} => (float[batch,2,3] y, int64[3,n] z) {{
        y = Relu (x) z = NonZero (x)
    }}""",
}
LIES = {
    f"{IN} => (float[batch,6] y) <int64[2] s = {{1, 6}}> {{ y = Reshape (x, s) }}":
        "ONNX Runtime failed",
    f"{IN} => (float[batch,t] y) <int64[2] s = {{1, -1}}> {{ y = Reshape (x, s) }}":
        "has the shape (1, 12)",
    SOFT: "depends on what it is batched with",
    MEAN: "depends on what it is batched with",
    "g (float[1,2,3] x) => (float[1,2,3] y) { y = Relu (x) }": "no input has a batch",
}  # fmt: skip
"""Models whose batch isn't one, and what is said of them."""


@pytest.mark.parametrize("name", HONEST)
def test_honest(name: str) -> None:
    finding = check_batch(model(HONEST[name]), {"x": np.zeros_like(X) if name == "silence" else X})
    assert finding.works_at_2, finding.reason
    assert finding.skipped == (("z",) if name == "an output without one" else ())


@pytest.mark.parametrize("text", LIES)
def test_lies(text: str) -> None:
    """They show on silence too: every sample alike, the mean over the batch would be each sample's
    own."""
    for x in (X, np.zeros_like(X)) if text in (SOFT, MEAN) else (X,):
        finding = check_batch(model(text), {"x": x})
        assert not finding.works_at_2
        assert LIES[text] in finding.reason


def test_a_batch_that_is_not_first_and_inputs_without_one() -> None:
    made = model("""g (float[batch,4] x, float[2,batch,4] state, int64 k) => (float[2,batch,4] y) {
        f = Cast <to = 1> (k) h = Mul (x, f) y = Add (state, h)
    }""")
    assert check_batch(made, noise(made, batch=1) | {"k": np.array(3, np.int64)}).works_at_2


def test_what_cannot_be_done() -> None:
    with pytest.raises(ModelError, match="ONNX Runtime failed"):
        check_batch(model(HONEST["elementwise"]), {"x": X[:, :, :2]})
    made = model("g (float[4] x) => (float[4] y) { y = Relu (x) }")
    assert fixed_batch(made) is None
    with pytest.raises(ModelError, match="no input has a fixed batch"):
        free_batch(made)


def test_fixing_goes_through_the_whole_model() -> None:
    made = model(
        f"""{IN} => (float[doubled,3] y, float[batch,3] z)
        <float[batch,2,3] h, int64[1] a = {{1}}> {{
            h = Relu (x) s = Constant <value_ints = [-1, 3]> ()
            y = Reshape (h, s) z = ReduceMax <keepdims = 0> (h, a)
        }}"""
    )
    made.graph.graph.outputs[0].shape = onnx_ir.Shape(["2*batch", 3])
    fix_batch(made, 4)
    assert made.inputs[0].shape == (4, 2, 3)
    assert [spec.shape for spec in made.outputs] == [(8, 3), (4, 3)]
    assert made.symbols == ()
    assert run(made, {"x": np.ones((4, 2, 3), np.float32)})["y"].shape == (8, 3)


@pytest.mark.parametrize("target", ["2, 6", "2, -1", "4, 3", "2, 2, 3", "-1, 6"])
def test_freeing_rewrites_reshapes(target: str) -> None:
    rank = target.count(",") + 1
    made = model(
        f"""g (float[2,2,3] x) => (float[{",".join("abcd"[:rank])}] y)
        <int64[{rank}] s = {{{target}}}> {{ y = Reshape (x, s) }}"""
    )
    x = np.concatenate([X, X + 1])
    before = run(made, {"x": x})["y"]
    assert fixed_batch(made) == 2
    assert free_batch(made)[0] == "the batch of 2 is free now"
    assert made.inputs[0].shape == (BATCH, 2, 3)
    np.testing.assert_array_equal(run(made, {"x": x})["y"], before)
    longer = run(made, {"x": np.concatenate([x, x])})["y"]
    np.testing.assert_array_equal(longer, np.concatenate([before, before]))


def test_freeing_leaves_shared_constants_and_weights_alone() -> None:
    made = model(
        """g (float[1,4] x, float[3] k) => (float[1,4] y, float[1,3] z)
        <int64[2] s = {1, 4}, int64[2] t = {1, 3}, float[4] w = {1, 2, 3, 4}> {
            a = Reshape (w, s) b = Reshape (x, s) y = Add (a, b) z = Reshape (k, t)
        }"""
    )
    free_batch(made)
    outputs = run(made, {"x": np.ones((3, 4), np.float32), "k": np.ones(3, np.float32)})
    assert [outputs[name].shape for name in "yz"] == [(3, 4), (1, 3)]


def test_a_probability_of_nearly_nothing_is_no_leak() -> None:
    """Far out on a sigmoid, values are rounding noise, which differs with the batch."""
    made = model(
        """g (float[batch,96] x, float[96,96] w) => (float[batch,96] y) {
            low = Constant <value = float[1] {-14.0}> ()
            a = MatMul (x, w) b = Add (a, low) y = Sigmoid (b)
        }"""
    )
    weight = np.random.default_rng(1).standard_normal((96, 96)).astype(np.float32) / 10
    sample = np.random.default_rng(2).standard_normal((1, 96)).astype(np.float32)
    assert check_batch(made, {"x": sample, "w": weight}).works_at_2
