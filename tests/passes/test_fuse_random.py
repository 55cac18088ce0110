"""All fusing passes on seeded random networks: what they change computes the same."""

import re
from collections import Counter

import numpy as np
import onnx
import onnx_ir
import pytest

from converter import plugins
from converter.ir.model import Model
from converter.passes.fuse.patterns import Edit
from tests.passes.models import Array, noise, run, text_model

FUSING = "fuse-shapes", "fuse-padding", "fuse-activation", "fuse-normalization", "fuse-convolution"


def apply(name: str, model: Model) -> bool:
    """Whether the pass of that name changed the model."""
    return plugins.load("passes", name)(model.graph).modified


SHARED = (
    "float r = {1.4142135}, float one = {1}, float half = {0.5}, float six = {6}, "
    "float three = {3}, float zero = {0}, float low = {-3.4028234663852886e38}, "
    "float eps = {1e-5}, int64[8] pads = {0,0,1,1,0,0,1,1}, int64[1] last = {-1}, "
    "int64[2] ends = {2,3}, int64[1] two = {2}, int64[3] flat = {0,-1,6}, "
    "int64[4] back = {0,4,6,6}, float[4] var = {0.5,1,2,0.7}"
)
LAYERS = (
    "{y} = Conv<pads = [1,1,1,1]>({x}, {w:4,4,3,3})",
    "{y} = Conv({x}, {w:4,4,1,1}, {w:4})",
    "{y} = Conv<group = 4, pads = [1,1,1,1]>({x}, {w:4,1,3,3})",
    "{y} = ConvTranspose<group = 2>({x}, {w:4,2,1,1})",
    "{y} = MatMul({x}, {w:6,6})",
    "{y} = Mul({x}, {w:4,1,1})",
    "{y} = Add({w:1,4,1,1}, {x})",
    "{y} = Sub({w:}, {x})",
    "{y} = Div({x}, three)",
    "{y} = Mul({x}, {w:6})",
    "{y} = Add({x}, {w:4,6,6})",
    "{y} = Neg({x})",
    "{y} = BatchNormalization({x}, {w:4}, {w:4}, {w:4}, var)",
    "{y}a = Pad({x}, pads) {y} = Conv({y}a, {w:4,4,3,3})",
    "{y}a = Pad({x}, pads, low) {y} = MaxPool<kernel_shape = [3,3]>({y}a)",
    "{y}a = Pad({x}, pads) {y} = AveragePool<kernel_shape = [3,3]>({y}a)",
    "{y} = Relu({x})",
    "{y}a = Relu({x}) {y} = Clip({y}a, zero, six)",
    "{y}a = Add({x}, three) {y}b = Clip({y}a, zero, six) {y}c = Mul({x}, {y}b) "
    "{y} = Div({y}c, six)",
    "{y}a = Div({x}, r) {y}b = Erf({y}a) {y}c = Add({y}b, one) {y}d = Mul({x}, {y}c) "
    "{y} = Mul({y}d, half)",
    "{y}a = Sigmoid({x}) {y} = Mul({y}a, {x})",
    "{y}a = Unsqueeze({x}, two) {y} = Squeeze({y}a, two)",
    "{y}a = Reshape({x}, flat) {y} = Reshape({y}a, back)",
    "{y}m = ReduceMean({x}, last) {y}d = Sub({x}, {y}m) {y}q = Mul({y}d, {y}d) "
    "{y}v = ReduceMean({y}q, last) {y}e = Add({y}v, eps) {y}s = Sqrt({y}e) {y} = Div({y}d, {y}s)",
    "{y}m = ReduceMean({x}, ends) {y}d = Sub({x}, {y}m) {y}q = Mul({y}d, {y}d) "
    "{y}v = ReduceMean({y}q, ends) {y}e = Add({y}v, eps) {y}s = Sqrt({y}e) {y}i = Reciprocal({y}s) "
    "{y} = Mul({y}d, {y}i)",
    "{y} = Add({x}, {z})",
)


def network(seed: int, depth: int = 10) -> Model:
    """Layers at random, each on the one before or an earlier one; some results are outputs."""
    rng = np.random.default_rng(seed)
    weights: dict[str, Array] = {}
    lines, values, outputs = [], ["x"], []

    def weight(dims: re.Match[str]) -> str:
        shape = [int(dim) for dim in dims[1].split(",") if dim]
        numbers = rng.uniform(0.2, 1.0, shape) * rng.choice([-1, 1], shape)
        weights[f"c{len(weights)}"] = np.float32(numbers)
        return f"c{len(weights) - 1}"

    for index in range(depth):
        text = re.sub("{w:(.*?)}", weight, LAYERS[rng.integers(len(LAYERS))])
        source = values[-1] if rng.random() < 0.9 else values[rng.integers(len(values))]
        other = values[rng.integers(len(values))]
        lines.append(text.format(x=source, y=f"v{index}", z=other))
        values.append(f"v{index}")
        if rng.random() < 0.08 or index == depth - 1:
            outputs.append(f"float[batch,4,6,6] v{index}")
    given = f"m (float[batch,4,6,6] x) => ({', '.join(outputs)}) <{SHARED}>"
    return text_model(f"{given} {{ {' '.join(lines)} }}", **weights)


@pytest.mark.parametrize("start", range(0, 120, 40))
def test_random_networks_compute_the_same(start: int) -> None:
    changed = Counter[str]()
    for seed in range(start, start + 40):
        model = network(seed)
        feeds = noise(model)
        before, nodes = run(model, feeds), model.node_count()
        for name in FUSING:
            changed[name] += apply(name, model)
        assert model.node_count() <= nodes
        onnx.checker.check_model(onnx_ir.to_proto(model.graph), full_check=True)
        for name, array in run(model, feeds).items():
            limit = 1e-4 * max(1.0, float(np.abs(before[name]).max(initial=0)))
            np.testing.assert_allclose(array, before[name], rtol=0, atol=limit, err_msg=f"{seed}")
    assert len(changed) == len(FUSING) and min(changed.values()) > 5


@pytest.mark.parametrize("name", FUSING)
def test_a_second_run_finds_nothing_and_the_first_always_the_same(name: str) -> None:
    for seed in range(20):
        model, other = network(seed), network(seed)
        apply(name, model)
        apply(name, other)
        written = [onnx_ir.to_proto(made.graph).SerializeToString() for made in (model, other)]
        assert written[0] == written[1]
        assert not apply(name, model)


def test_constants_are_made_once_and_never_changed_for_two() -> None:
    model = text_model("m (float[2] x) => (float[2] y) <float[2] a = {1,2}> { y = Add(x, a) }")
    edit = Edit(model.graph)
    first, again = (edit.constant(np.ones(2, np.float32), "a") for _ in range(2))
    assert first is again and first.name == "a_1"
    own = model.graph.graph.initializers["a"]
    assert edit.with_contents(own, np.zeros(2, np.float32)) is own
    node = next(iter(model.graph.graph))
    node.replace_input_with(0, own)  # two uses now
    assert edit.with_contents(own, np.ones(2, np.float32)) is first
