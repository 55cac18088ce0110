"""What the recorder of precisions counts, holds against a case's limits, and writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.precision import Judged, Seen
from bench.precision_cases import Case, Data
from bench.precision_page import write_page
from bench.precision_shares import Share, share_of
from tests.passes.models import text_model

CASE = Case("net", "net.onnx", "int8", (Data("one"), Data("two")), cosine=0.99, share=0.9, drop=1.0)
GOOD = Judged("one", 4, 0.995, 0.999, "top1 80.00 / 79.50", 0.5, True)


def _seen(case: Case = CASE, share: float = 0.95, **changes: object) -> Seen:
    two = replace(GOOD, title="two", **changes)  # type: ignore[arg-type]
    return Seen(case, [GOOD, two], Share(share, 9, ("n (Conv)",)))


def test_limits_that_are_kept() -> None:
    assert not _seen().missed()
    assert not _seen(replace(CASE, elsewhere=0.9), worst=0.91).missed()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"worst": 0.98}, "two: cosine 0.98000 < 0.99"),
        ({"worst": float("nan")}, "two: cosine nan < 0.99"),
        ({"finite": False}, "two: NaN or Inf"),
        ({"drop": 1.5}, "two: 1.50 points lost > 1"),
        ({"share": 0.85}, "85.0% of MACs < 90%"),
    ],
)
def test_limits_that_are_missed(changes: dict[str, float], line: str) -> None:
    assert _seen(**changes).missed() == [line]  # type: ignore[arg-type]


def test_a_budget_holds_on_its_own_set_too() -> None:
    case = replace(CASE, cosine=0.999, elsewhere=0.9)
    assert _seen(case).missed() == ["one: cosine 0.99500 < 0.999"]


def test_the_page_says_what_was_missed(tmp_path: Path) -> None:
    seen = [_seen(worst=0.98), Seen(CASE, error="cosine 0.9 < 0.99", seconds=3.0)]
    write_page(tmp_path / "page.md", seen, {"cpu": "some cpu"})
    page = (tmp_path / "page.md").read_text()
    assert page.count("| **no** |") == 2
    assert "`int8` missed: two: cosine 0.98000 < 0.99." in page
    assert "`int8` missed: cosine 0.9 < 0.99." in page
    assert "in float32: `n (Conv)`" in page


def test_what_is_lowered_is_counted_in_the_file(tmp_path: Path) -> None:
    """Two products: one of integers, and one half as large again of which only a side is."""
    ones, halves = ",".join(["1"] * 32), ",".join(["0.5"] * 48)
    model = text_model(f"""
        m (float[batch,8] x) => (float[batch,12] y)
        <float s = {{0.1}}, uint8 z = {{3}}, int8 t = {{0}}, int8[8,4] w = {{{ones}}},
         float[4,12] v = {{{halves}}}> {{
            q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)
            e = DequantizeLinear(w, s, t) a = MatMul(d, e)
            r = QuantizeLinear(a, s, z) c = DequantizeLinear(r, s, z) y = MatMul(c, v) }}""")
    path = tmp_path / "model.onnx"
    model.save(path)
    found = share_of(path)
    assert found.share == pytest.approx(32 / (32 + 48))
    assert (found.lowered, len(found.plain)) == (1, 1)
