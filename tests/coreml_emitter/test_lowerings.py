"""What lowerings do that tests/operators can't say: indices made to count from the start, places
where no number is, values that ONNX Runtime has not, branches that can't be, permutations."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from converter.errors import ModelError
from emitters.coreml import passes
from emitters.coreml.ops import gathering, scattering
from emitters.lowering.axes.moving import steps
from tests.coreml_emitter.running import agree, emitted, lowered, refusals, run_package
from tests.operators.cases import numbers, parsed
from tests.operators.test_control import CASES


@pytest.mark.parametrize("kind", ["Gather", "GatherND", "GatherElements", "ScatterElements"])
def test_the_check_sees_an_index_that_does_not_count_from_the_start(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without what has it count from there, the package isn't taken for right."""
    for module in (gathering, scattering):
        monkeypatch.setattr(module, "from_start", lambda _, indices, size: indices)
    left_out = passes.LEFT_OUT | {"common::guard_negative_gather_indices"}
    monkeypatch.setattr(passes, "LEFT_OUT", left_out)
    updates = ", x" if kind == "ScatterElements" else ""
    model = parsed(
        f"g (float[b, 1] x, int64[b, 1] i) => (float[?, ?] y) {{ y = {kind}(x, i{updates}) }}"
    )
    feeds = {"x": numbers(2, 1), "i": np.array([[0], [1]])}
    agree(model, feeds)
    with pytest.raises(ModelError, match="ONNX Runtime failed"):
        agree(model, {**feeds, "i": np.array([[0], [-1]])})


def test_constant_indices_are_made_positive() -> None:
    model = parsed("""g (float[2, 3, 4] x) => (float[2, 4] y)
        <int64[2, 2] i = {0, -1, -2, 1}> { y = GatherND(x, i) }""")
    for target in (15, 17):
        made = lowered(model, target).program.functions["main"].operations
        (indices,) = [op.indices.val for op in made if op.op_type == "gather_nd"]
        np.testing.assert_array_equal(indices, [[0, 2], [0, 1]])


def test_place_is_one_of_the_axis(tmp_path: Path) -> None:
    """Even where no number is."""
    model = parsed("g (float[n,3] x) => (int64[n,1] y) { y = ArgMax<axis=1>(x) }")
    found = run_package(emitted(model, tmp_path), {"x": np.full((2, 3), np.nan, np.float32)})["y"]
    assert ((found >= 0) & (found < 3)).all()


def test_too_many_boxes_are_refused() -> None:
    model = parsed("""
        g (float[1, 20000, 4] boxes, float[1, 80, 20000] scores) => (int64[k, 3] y)
        <int64 most = {5}> { y = NonMaxSuppression(boxes, scores, most) }""")
    assert "20000 boxes of 80 classes" in refusals(model)[0].reason


@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_inverse_hyperbolic_of_large_numbers(dtype: str, tmp_path: Path) -> None:
    """No square overflows, and what is small isn't lost."""
    kind = np.float32 if dtype == "float" else np.float16
    large = 1e30 if dtype == "float" else 60000.0
    text = f"g ({dtype}[n] x) => ({dtype}[n] s, {dtype}[n] c) {{ s = Asinh(x) c = Acosh(x) }}"
    package = emitted(parsed(text), tmp_path)
    x = np.asarray([1e-3, -1e-3, 0.5, 1.0, 1.01, 2.0, 2.1, 300.0, large, -large, np.inf], kind)
    found = run_package(package, {"x": x})
    with np.errstate(invalid="ignore"):
        expected = {"s": np.arcsinh(x.astype(np.float64)), "c": np.arccosh(x.astype(np.float64))}
    for name, array in expected.items():
        tolerance = 1e-5 if dtype == "float" else 3e-3
        np.testing.assert_allclose(found[name], array, rtol=tolerance, err_msg=name)


def test_the_branch_that_a_gru_can_take_is_told() -> None:
    (case,) = (case for case in CASES if case.name == "the branch that a GRU can take")
    (told,) = lowered(case.model()).taken
    assert "only has its then_branch" in told


@pytest.mark.parametrize("axes", [6, 7])
def test_every_permutation_in_two_steps(axes: int) -> None:
    data = np.arange(2**axes).reshape((2,) * axes)
    for perm in list(permutations(range(axes)))[:: 1 if axes == 6 else 23]:
        made, order = data, list(range(axes))
        for step in steps(perm, 5):
            assert len(step) <= 5
            flat = [axis for block in step for axis in block]
            made, order = made.transpose(flat), [order[axis] for axis in flat]
        np.testing.assert_array_equal(made, data.transpose(perm))


def test_a_resize_between_transposes() -> None:
    """Its package is run by ONNX Runtime, which moves the transposes."""
    model = parsed("""g (float[n, h, w, 4] x) => (float[n, p, q, 4] y)
        <int64[1] zero = {0}, int64[1] two = {2}, int64[2] size = {9, 7}> {
        t = Transpose <perm = [0, 3, 1, 2]> (x)
        s = Shape (t)
        a = Slice (s, zero, two)
        c = Concat <axis = 0> (a, size)
        r = Resize <mode = "linear"> (t, "", "", c)
        y = Transpose <perm = [0, 2, 3, 1]> (r)
    }""")
    agree(model, {"x": numbers(2, 3, 4, 4)})
