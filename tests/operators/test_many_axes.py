"""Tensors of more axes than Core ML has, in the ways that models have them; free batches, too."""

import numpy as np
import pytest

from tests.operators.cases import Case, Emits, numbers
from tests.operators.running import TARGETS, check

ROWS = np.arange(3)[:, None] + np.arange(7)
COLUMNS = np.arange(3)[:, None] + np.arange(6)
BINS = np.asarray([[0, 1, 2], [2, 3, 4], [4, 5, 6]])

# fmt: off
CASES: list[Case] = [
    Case("unfold by indices",
        """g (float[b, 3, 9, 8] x) => (y) <int64[3, 7] r, int64[3, 6] s, int64[3] shape = {0, 27, 42}> {
            a = Gather <axis = 2> (x, r)
            c = Gather <axis = 4> (a, s)
            d = Transpose <perm = [0, 1, 2, 4, 3, 5]> (c)
            y = Reshape (d, shape)
        }""",
        sizes=[{"b": 1}, {"b": 2}], weights={"r": ROWS, "s": COLUMNS}, ios=(15, 18)),
    Case("windows with a bias and back",
        """g (float[b, 8, 12, 6] x) => (y)
            <float[1, 1, 1, 4, 4, 6] s, int64[6] shape = {-1, 2, 4, 3, 4, 6},
            int64[4] shape1 = {-1, 8, 12, 6}> {
            a = Reshape (x, shape)
            c = Transpose <perm = [0, 1, 3, 2, 4, 5]> (a)
            d = Add (c, s)
            e = Softmax <axis = -1> (d)
            f = Transpose <perm = [0, 1, 3, 2, 4, 5]> (e)
            y = Reshape (f, shape1)
        }""",
        sizes=[{"b": 1}, {"b": 3}], weights={"s": numbers(1, 1, 1, 4, 4, 6)}, ios=(15, 18)),
    Case("heads in groups",
        """g (float[b, 5, 4, 2, 3] x) => (y)
            <int64[6] shape = {0, 5, 4, 1, 2, 3}, int64[6] shape1 = {1, 1, 1, 3, 1, 1},
            int64[4] shape2 = {0, 5, 12, 6}> {
            k = Reshape (x, shape)
            e = Expand (k, shape1)
            h = Reshape (e, shape2)
            y = Transpose <perm = [0, 2, 1, 3]> (h)
        }""",
        sizes=[{"b": 1}, {"b": 2}], coreml=Emits(tile=1)),
    Case("sampling offsets of levels",
        """g (float[b, 5, 48] x, float[b, 5, 3, 2] x1, float[m, 3, 4, 5] x2) => (y)
            <float[1, 1, 1, 3, 1, 2] s, int64[6] shape = {0, 5, 2, 3, 4, 2}, int64[2] axes = {2, 4},
            float two = {2.0}, float one = {1.0}, int64 indices = {1},
            int64[4] shape1 = {-1, 5, 4, 2}> {
            o = Reshape (x, shape)
            r = Unsqueeze (x1, axes)
            n = Div (o, s)
            l = Add (r, n)
            t = Mul (l, two)
            u = Sub (t, one)
            g = Gather <axis = 3> (u, indices)
            v = Transpose <perm = [0, 2, 1, 3, 4]> (g)
            w = Reshape (v, shape1)
            y = GridSample <align_corners = 0> (x2, w)
        }""",
        sizes=[{"b": 1, "m": 2}, {"b": 2, "m": 4}], weights={"s": [[[[[[2, 3]], [[4, 5]], [[6, 7]]]]]]},
        tol=1e-4),
    Case("a correlation volume",
        """g (float[b, 6, 4, 5] x, float[b, 6, 4, 5] x1) => (y)
            <int64[3] shape = {0, 6, 20}, int64[6] shape1 = {0, 4, 5, 1, 4, 5},
            float divisor = {2.5}, int64[4] shape2 = {-1, 1, 4, 5}> {
            p = Reshape (x, shape)
            q = Reshape (x1, shape)
            t = Transpose <perm = [0, 2, 1]> (p)
            m = MatMul (t, q)
            v = Reshape (m, shape1)
            s = Div (v, divisor)
            r = Reshape (s, shape2)
            y = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (r)
        }""",
        sizes=[{"b": 1}, {"b": 2}]),
    Case("an adaptive pooling by indices",
        """g (float[b, 4, 7, 7] x) => (y) <int64[3, 3] r, int64[2] axes = {3, 5}, float nine = {9.0}> {
            a = Gather <axis = 2> (x, r)
            c = Gather <axis = 4> (a, r)
            s = ReduceSum <keepdims = 0> (c, axes)
            y = Div (s, nine)
        }""",
        sizes=[{"b": 1}, {"b": 2}], weights={"r": BINS}),
    Case("blocks of three axes of space",
        """g (float[b, 2, 4, 6, 8] x) => (y)
            <int64[8] shape = {0, 2, 2, 2, 3, 2, 4, 2}, int64[5] shape1 = {0, 16, 2, 3, 4},
            int64[8] shape2 = {0, 2, 2, 2, 2, 2, 3, 4}, int64[5] shape3 = {0, 2, 4, 6, 8}> {
            a = Reshape (x, shape)
            c = Transpose <perm = [0, 1, 3, 5, 7, 2, 4, 6]> (a)
            d = Reshape (c, shape1)
            e = Reshape (d, shape2)
            f = Transpose <perm = [0, 1, 5, 2, 6, 3, 7, 4]> (e)
            y = Reshape (f, shape3)
        }""",
        sizes=[{"b": 1}, {"b": 2}]),
    Case("patches of video",
        """g (float[b, 3, 4, 6, 8] x) => (y)
            <int64[8] shape = {0, 3, 2, 2, 3, 2, 4, 2}, int64[3] shape1 = {0, 24, 24}> {
            a = Reshape (x, shape)
            c = Transpose <perm = [0, 2, 4, 6, 3, 5, 7, 1]> (a)
            y = Reshape (c, shape1)
        }""",
        sizes=[{"b": 1}, {"b": 2}]),
    Case("attention along one axis of space",
        """g (float[b, 3, 4, 24] x) => (y)
            <int64[6] shape = {0, 3, 4, 3, 2, 4}, int64 zero = {0}, int64 one = {1},
            int64 two = {2}> {
            a = Reshape (x, shape)
            p = Transpose <perm = [3, 0, 1, 4, 2, 5]> (a)
            q = Gather <axis = 0> (p, zero)
            k = Gather <axis = 0> (p, one)
            v = Gather <axis = 0> (p, two)
            t = Transpose <perm = [0, 1, 2, 4, 3]> (k)
            s = MatMul (q, t)
            w = Softmax <axis = -1> (s)
            y = MatMul (w, v)
        }""",
        sizes=[{"b": 1}, {"b": 2}]),
    Case("an outer product of many axes",
        """g (float[b, 3, 4] x, float[2, 3, 5] x1) => (y)
            <int64[6] shape = {0, 1, 3, 1, 4, 1}, int64[6] shape1 = {1, 2, 1, 3, 1, 5},
            int64[4] shape2 = {0, 2, 9, 20}> {
            l = Reshape (x, shape)
            r = Reshape (x1, shape1)
            m = Mul (l, r)
            y = Reshape (m, shape2)
        }""",
        sizes=[{"b": 1}, {"b": 2}]),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
