"""More than five axes between a Reshape and the next."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from emitters.coreml.ops.many_axes import _steps
from emitters.lowering.refused import Refused
from tests.coreml_emitter.running import agree, emitted, kinds, numbers, parsed, refusals
from tests.coreml_emitter.several import vectors


def test_windows_of_an_image_there_and_back(tmp_path: Any) -> None:
    """As in Swin: [B, H, W, C] to windows of 4 x 4 and back, one transpose each way."""
    weights = vectors(s=[-1, 2, 4, 3, 4, 6], t=[-1, 16, 6], u=[-1, 2, 3, 4, 4, 6], v=[-1, 8, 12, 6])
    model = parsed(f"""
        g (float[b, 8, 12, 6] x) => (float[n, 16, 6] y, float[b, 8, 12, 6] z) <{weights}> {{
            a = Reshape(x, s)
            c = Transpose<perm = [0, 1, 3, 2, 4, 5]>(a)
            y = Reshape(c, t)
            d = Reshape(y, u)
            e = Transpose<perm = [0, 1, 3, 2, 4, 5]>(d)
            z = Reshape(e, v)
        }}""")
    agree(model, [{"x": numbers(b, 8, 12, 6)} for b in (1, 3)])
    made = [kind for kind in kinds(emitted(model, tmp_path)) if kind != "identity"]
    assert sorted(made) == ["reshape"] * 4 + ["transpose"] * 2


def test_patches_of_free_sizes() -> None:
    """[B, C, H, W] to patches of 2 x 2: six blocks in another order, sizes that are computed."""
    weights = vectors(none=[0], high=[2], wide=[3], two=[2], three=[3], t=[0, -1, 12])
    model = parsed(f"""
        g (float[b, 3, h, w] x) => (float[p, q, r] y) <{weights}> {{
            shape = Shape(x)
            n = Gather(shape, none)
            h = Gather(shape, high)
            w = Gather(shape, wide)
            rows = Div(h, two)
            columns = Div(w, two)
            s = Concat<axis = 0>(n, three, rows, two, columns, two)
            a = Reshape(x, s)
            c = Transpose<perm = [0, 2, 4, 3, 5, 1]>(a)
            d = Identity(c)
            y = Reshape(d, t)
        }}""")
    agree(model, [{"x": numbers(b, 3, h, w)} for b, h, w in ((2, 4, 6), (1, 2, 8))])


def test_a_shape_that_may_be_anything_is_refused() -> None:
    model = parsed(f"""
        g (float[b, 3, h, w] x, int64[6] s) => (float[n] y) <{vectors(t=[-1])}> {{
            a = Reshape(x, s)
            y = Reshape(a, t)
        }}""")
    assert "nothing is known" in refusals(model)[0].reason


def test_pixels_repeated() -> None:
    """Nearest neighbours, written as Keras' and others' exporters do."""
    weights = vectors(
        s=[0, 0, 0, 1, 5, 1], k=[1, 1, 1, 2, 1, 3], t=[0, 0, -1, 15], a=[3, 5], r=[1, 2, 1, 2, 1, 1]
    )
    model = parsed(f"""
        g (float[b, 2, h, 5] x) => (float[b, 2, g, 15] y, float[b, m] z) <{weights}> {{
            c = Reshape(x, s)
            d = Expand(c, k)
            y = Reshape(d, t)
            e = Unsqueeze(x, a)
            f = Tile(e, r)
            z = Flatten<axis = 1>(f)
        }}""")
    agree(model, [{"x": numbers(b, 2, h, 5)} for b, h in ((2, 3), (1, 1))])


def test_axes_added_and_taken_away() -> None:
    weights = vectors(a=[0, 3, 6], b=[1, 3, 5], s=[0, 0, -1])
    model = parsed(f"""
        g (int64[n, 2, 3, 4] x) => (int64[3, n, 2, 4] y, int64[n, m] z) <{weights}> {{
            c = Unsqueeze(x, a)
            d = Transpose<perm = [3, 4, 1, 0, 2, 5, 6]>(c)
            e = Transpose<perm = [1, 0, 2, 3, 4, 6, 5]>(d)
            f = Squeeze(e, b)
            y = Transpose<perm = [0, 1, 2, 3]>(f)
            z = Flatten<axis = 4>(d)
        }}""")
    agree(model, [{"x": np.arange(24 * n).reshape(n, 2, 3, 4)} for n in (1, 2)])


def test_anything_else_on_six_axes_is_refused() -> None:
    model = parsed(f"""
        g (float[b, 8, 8, 6] x) => (float[n, 16, 6] y)
        <{vectors(s=[-1, 2, 4, 2, 4, 6], t=[-1, 16, 6])}> {{
            a = Reshape(x, s)
            c = Relu(a)
            y = Reshape(c, t)
        }}""")
    assert refusals(model)[0].reason == "Core ML has no tensors of more than 5 axes"


@pytest.mark.parametrize("axes", [6, 7])
def test_every_permutation_in_two_steps(axes: int) -> None:
    data = np.arange(2**axes).reshape((2,) * axes)
    refused = 0
    for perm in list(permutations(range(axes)))[:: 1 if axes == 6 else 23]:
        made, order = data, list(range(axes))
        try:
            steps = _steps(perm)
        except Refused:
            refused += 1
            continue
        for step in steps:
            assert len(step) <= 5
            flat = [axis for block in step for axis in block]
            made, order = made.transpose(flat), [order[axis] for axis in flat]
        np.testing.assert_array_equal(made, data.transpose(perm))
    assert not refused
