"""Einsum: what summing, diagonals, ellipses and broadcasting come to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.coreml_emitter.running import Model, agree, numbers, parsed, refusals

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "i": 2, "j": 3, "k": 4, "h": 3, "l": 5}

FREE = [
    "bhid,bhjd->bhij", "bhij,bjhd->bihd", "ij->", "ba", "ij,j", "i,j->ij", "ij,ij->ij",
    "ij,jk,kd->id", "ab,bc,a->c", "ijk,ilk->jil", "ij,kd->dj", "abcd,abcd->bd",
    " b i j , b j k -> b i k ",
]  # fmt: skip
FIXED = ["iji->j", "iikk->ik"]
ELLIPSES = [
    ("...ij,...jk->...ik", [(2, 3, 2, 4), (2, 3, 4, 5)]),
    ("...ij,jk", [(2, 3, 4), (4, 5)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("...ij,...jk->...ik", [(1, 2, 4), (3, 4, 5)]),
    ("ij...->j...i", [(2, 3, 4)]),
    ("a...,a...->...", [(2, 3, 4), (2, 3, 4)]),
]


def spelled(dims: Sequence[int | str]) -> str:
    return f"float[{', '.join(map(str, dims))}]" if dims else "float"


def whole(nodes: Sequence[tuple[str, list[Sequence[int | str]], Sequence[int | str]]]) -> Model:
    """A node for each equation; of the n-th, x0_n and so on make yn."""
    inputs, outputs, calls = [], [], []
    for place, (equation, operands, result) in enumerate(nodes):
        names = [f"x{operand}_{place}" for operand in range(len(operands))]
        inputs += [f"{spelled(dims)} {name}" for dims, name in zip(operands, names, strict=True)]
        outputs.append(f"{spelled(result)} y{place}")
        calls.append(f'y{place} = Einsum <equation = "{equation}"> ({", ".join(names)})')
    return parsed(f"g ({', '.join(inputs)}) => ({', '.join(outputs)}) {{ {' '.join(calls)} }}")


def terms(equation: str) -> tuple[list[str], str]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    once = "".join(sorted(c for c in left if left.count(c) == 1 and c != ","))
    return left.split(","), right if arrow else once


@pytest.mark.parametrize("is_free", [True, False])
def test_equations(is_free: bool) -> None:
    nodes, feeds = [], {}
    for place, equation in enumerate(FREE if is_free else FIXED):
        operands, result = terms(equation)
        for number, operand in enumerate(operands):
            feeds[f"x{number}_{place}"] = numbers(*(SIZES[c] for c in operand), seed=number)
        dims = [[f"{c}{place}" if is_free else SIZES[c] for c in t] for t in [*operands, result]]
        nodes.append((equation, dims[:-1], dims[-1]))
    agree(whole(nodes), feeds)


def test_ellipses() -> None:
    nodes, feeds, expected = [], {}, []
    for place, (equation, shapes) in enumerate(ELLIPSES):
        arrays = [numbers(*shape, seed=number) for number, shape in enumerate(shapes)]
        feeds |= {f"x{number}_{place}": array for number, array in enumerate(arrays)}
        expected.append(np.einsum(equation, *arrays))
        nodes.append((equation, shapes, expected[-1].shape))
    found = agree(whole(nodes), feeds)
    for place, array in enumerate(expected):
        np.testing.assert_allclose(found[f"y{place}"], array, rtol=1e-5, atol=1e-5)


def test_a_diagonal_of_free_axes_is_refused() -> None:
    model = parsed('g (float[n, n] x) => (float[n] y) { y = Einsum <equation = "ii->i"> (x) }')
    assert "diagonal of free axes" in refusals(model)[0].reason
