"""Random numbers in models: refused, folded, or inputs."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest

from converter.errors import UnsupportedError
from converter.ir.randomness import (
    NORMAL,
    UNIFORM,
    fold_random,
    random_to_inputs,
    require_no_random,
)
from converter.runtime.ort import OrtSession
from tests.acceptance.cli import command

HEADER = '<ir_version: 9, opset_import: ["" : 20]> '
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def read(graph: str) -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(HEADER + graph))


@pytest.mark.parametrize(("drawn", "added"), [
    ("[noise] r = RandomNormalLike(x) y = Add(x, r)", None),
    ("[noise] r = RandomNormalLike<seed = 1.0>(x) y = Add(x, r)", None),
    ("[noise] r = RandomUniformLike(x) e = Exp(r) z = Mul(e, zero) y = Add(x, z)", None),
    ("[noise] r = RandomNormal<shape = [2, 3]>() z = Mul(r, one) y = Add(x, z)", None),
    ("[noise] r, m = Dropout(x, half, yes) y = Add(x, r)", None),
    ("p = Sigmoid(x) [noise] y = Bernoulli(p)", None),
    ("c = Cast<to = 9>(one) y = If(c) <then_branch = t () => (float[n, 3] a) "
     "{ [noise] a = RandomNormalLike(x) }, else_branch = e () => (float[n, 3] b) "
     "{ b = Identity(x) }>", None),
    ("r = RandomNormalLike(x) z = Mul(r, zero) y = Add(x, z)", 0),
    ("r = RandomUniformLike(x) e = Exp(x) s = Mul(e, r) z = Mul(s, zero) y = Add(x, z)", 0),
    ("r = RandomNormalLike(x) a, b = Split<num_outputs = 2>(r) c = Mul(a, zero) "
     "d = Mul(b, zero) e = Concat<axis = 0>(c, d) y = Add(x, e)", 0),
    ("[noise] r = RandomNormalLike(x) a, b = Split<num_outputs = 2>(r) c = Mul(a, zero) "
     "e = Concat<axis = 0>(c, b) y = Add(x, e)", None),
    ("r = RandomUniformLike<low = 2.0, high = 2.0>(x) y = Add(x, r)", 2),
    ("r = RandomNormal<shape = [2, 3], scale = 0.0, mean = 2.0>() y = Add(x, r)", 2),
    ("r = RandomNormalLike(x) unused = Exp(r) y = Relu(x)", 0),
    ("r, m = Dropout(x, half, no) y = Identity(r)", 0),
])  # fmt: skip
def test_what_outputs_hang_on(drawn: str, added: float | None) -> None:
    weights = "float zero = {0}, float one = {1}, float half = {0.5}, bool yes = {1}, bool no = {0}"
    model = read(f"g (float[n, 3] x) => (float[n, 3] y) <{weights}> {{ {drawn} }}")
    fold_random(model)
    if added is None:
        with pytest.raises(UnsupportedError) as caught:
            require_no_random(model)
        assert [item.node for item in caught.value.items] == ["noise"]
    else:
        require_no_random(model)
        np.testing.assert_array_equal(OrtSession(model, plain=True).run({"x": X})["y"], X + added)


MANY = """g (float[n, 3] x) =>
    (float[n, 3] y, float[4] v, float[n, 3] b, float[n, 3] d, bool[n, 3] m)
    <float ratio = {0.25}, bool yes = {1}> {
    [noise] y = RandomNormalLike<mean = 2.0, scale = 3.0>(x)
    [spread] v = RandomUniform<low = -1.0, high = 3.0, shape = [4]>()
    half = Sigmoid(x) [coin] b = Bernoulli(half) [drop] d, m = Dropout(x, ratio, yes) }"""


def test_inputs_in_their_place() -> None:
    model = read(MANY)
    kinds = {value.name: (str(value.shape), meaning) for value, meaning in
             random_to_inputs(model).items()}  # fmt: skip
    alike = dict.fromkeys(("coin", "drop"), ("[n,3]", UNIFORM))
    assert kinds == {"noise": ("[n,3]", NORMAL), "spread": ("[4]", UNIFORM), **alike}
    require_no_random(model)
    rng = np.random.default_rng(0)
    noise, coin, drop = (rng.random((2, 3), np.float32) for _ in range(3))
    spread = rng.random(4, np.float32)
    feeds = {"x": X, "noise": noise, "spread": spread, "coin": coin, "drop": drop}
    found = OrtSession(model, plain=True).run(feeds)
    np.testing.assert_allclose(found["y"], noise * 3 + 2, rtol=1e-6)
    np.testing.assert_allclose(found["v"], spread * 4 - 1, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found["b"], coin < 1 / (1 + np.exp(-X)))
    np.testing.assert_array_equal(found["m"], drop >= 0.25)
    np.testing.assert_allclose(found["d"], np.where(drop >= 0.25, X / 0.75, 0), rtol=1e-6)


@pytest.mark.parametrize(("graph", "says"), [
    ("g (float[n, 3] x) => (int32[n, 2] y) { y = Multinomial<sample_size = 2>(x) }",
     "isn't computed from one number"),
    ("g (float[n] x) => (float y) { i = NonZero(x) f = Cast<to = 1>(i) r = RandomNormalLike(f) "
     "y = ReduceSum<keepdims = 0>(r) }", "doesn't follow"),
])  # fmt: skip
def test_what_can_t_draw_from_an_input(graph: str, says: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        random_to_inputs(read(graph))
    assert says in caught.value.items[0].reason


def test_through_the_command_line(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(HEADER + MANY), tmp_path / "net.onnx")
    np.savez(tmp_path / "samples.npz", x=np.ones((5, 3), np.float32))
    args = ("convert", "net.onnx", "--no-bench", "--out", "out")
    refused = command(*args, cwd=tmp_path).no_traceback()
    assert refused.code == 3
    assert "4 nodes draw random numbers" in refused.err
    assert "--random-as-input" in refused.err
    for args_ in (("check", "net.onnx", "--against", "net.onnx"), ("diff", "net.onnx", "net.onnx")):
        refused = command(*args_, "--samples", "samples.npz", cwd=tmp_path).no_traceback()
        assert refused.code == 3
        assert "nothing can be compared" in refused.err
    said = command(
        *args, "--random-as-input", "--samples", "samples.npz", "--to", "onnx,tflite", cwd=tmp_path
    )
    assert said.code == 0, said.err
    assert "noise is an input now" in said.out
    report = json.loads((tmp_path / "out/report.json").read_text())
    inputs = {item["name"]: item["meaning"] for item in report["source"]["inputs"]}
    assert inputs == {"x": "", "noise": NORMAL, "spread": UNIFORM, "coin": UNIFORM, "drop": UNIFORM}
    assert report["samples"]["count"] == 5
