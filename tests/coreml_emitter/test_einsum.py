"""Einsum: what summing, diagonals, ellipses and broadcasting come to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.coreml_emitter.running import agree, numbers, parsed, refusals

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "i": 2, "j": 3, "k": 4, "h": 3, "q": 5, "s": 1}


@pytest.mark.parametrize(
    "equation",
    [
        "bhid,bhjd->bhij", "bhij,bjhd->bihd", "ij->", "ba", "ij,j", "i,j->ij", "ij,ij->ij",
        "iji->j", "iikk->ik", "ij,jk,kd->id", "ab,bc,a->c", "ijk,ilk->jil", "ij,kd->dj",
        "abcd,abcd->bd", " b i j , b j k -> b i k ",
    ],
)  # fmt: skip
def test_equations(equation: str) -> None:
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    sizes = {**SIZES, "l": 5}
    arrays = [numbers(*(sizes[c] for c in term), seed=i) for i, term in enumerate(terms)]
    result = right if arrow else sorted(c for c in left if left.count(c) == 1 and c != ",")
    is_free = all(len(set(term)) == len(term) for term in terms)

    def spelled(letters: Sequence[str]) -> str:
        dims = [f"n{c}" if is_free else str(sizes[c]) for c in letters]
        return f"float[{', '.join(dims)}]" if dims else "float"

    declared = ", ".join(f"{spelled(term)} x{i}" for i, term in enumerate(terms))
    call = f'Einsum <equation = "{equation}"> ({", ".join(f"x{i}" for i in range(len(terms)))})'
    model = parsed(f"g ({declared}) => ({spelled(result)} y) {{ y = {call} }}")
    agree(model, {f"x{i}": array for i, array in enumerate(arrays)})


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,...jk->...ik", [(2, 3, 2, 4), (2, 3, 4, 5)]),
        ("...ij,jk", [(2, 3, 4), (4, 5)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("...ij,...jk->...ik", [(1, 2, 4), (3, 4, 5)]),
        ("ij...->j...i", [(2, 3, 4)]),
        ("a...,a...->...", [(2, 3, 4), (2, 3, 4)]),
    ],
)
def test_ellipses(equation: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    expected = np.einsum(equation, *arrays)
    declared = ", ".join(f"float{list(shape)} x{i}" for i, shape in enumerate(shapes))
    names = ", ".join(f"x{i}" for i in range(len(shapes)))
    model = parsed(f"""
        g ({declared}) => (float{list(expected.shape)} y)
        {{ y = Einsum <equation = "{equation}"> ({names}) }}""")
    found = agree(model, {f"x{i}": array for i, array in enumerate(arrays)})
    np.testing.assert_allclose(found["y"], expected, rtol=1e-5, atol=1e-5)


def test_a_diagonal_of_free_axes_is_refused() -> None:
    model = parsed('g (float[n, n] x) => (float[n] y) { y = Einsum <equation = "ii->i"> (x) }')
    assert "diagonal of free axes" in refusals(model)[0].reason
