"""What the recorder of precisions counts, holds against a case's limits, and writes."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench import budget
from bench import precision_data as data
from bench.precision import Judged, Seen, main, picked
from bench.precision_cases import CASES, Case, Data
from bench.precision_checks import Check, integer_convolutions, never_says, says
from bench.precision_page import write_page
from bench.precision_shares import Share, share_of
from converter.report.svg import budget_plot
from tests.acceptance.cli import small_cnn
from tests.passes.models import text_model

CASE = Case(
    "net", "net.onnx", "int8", (Data("one"), Data("two", count=4)), cosine=0.99, share=0.9, drop=1.0
)
GOOD = Judged("one", 4, 0.995, 0.999, "top1 80.00 / 79.50", 0.5, True)


def _seen(case: Case = CASE, share: float = 0.95, **changes: object) -> Seen:
    two = replace(GOOD, title="two", **changes)  # type: ignore[arg-type]
    return Seen(case, [GOOD, two], Share(share, 9, ("n (Conv)",)))


def test_limits_that_are_kept() -> None:
    assert not _seen().missed()
    assert not _seen(replace(CASE, elsewhere=0.9), worst=0.91).missed()
    own = replace(CASE, cosine=0.999, elsewhere=0.9)  # which holds on the row's own set too
    assert _seen(own).missed() == ["one: cosine 0.99500 < 0.999"]


@pytest.mark.parametrize(("changes", "line"), [
    ({"worst": 0.98}, "two: cosine 0.98000 < 0.99"),
    ({"worst": float("nan")}, "two: cosine nan < 0.99"),
    ({"finite": False}, "two: NaN or Inf"),
    ({"drop": 1.5}, "two: 1.50 points lost > 1"),
    ({"samples": 3}, "two: 3 samples, not 4"),
    ({"share": 0.85}, "85.0% of MACs < 90%"),
])  # fmt: skip
def test_limits_that_are_missed(changes: dict[str, float], line: str) -> None:
    assert _seen(**changes).missed() == [line]  # type: ignore[arg-type]


def test_limits_on_more_than_outputs() -> None:
    case = replace(CASE, megabytes=1.5, checks=(Check("two of two", lambda made: ("", True)),))
    seen = _seen(case)
    seen.megabytes, seen.checked, seen.gates = (1.6, 4.0), [("1 of 2", False)], ["onnx: gate size"]
    assert seen.missed() == ["onnx: gate size", "1.60 MB > 1.5", "two of two: 1 of 2"]
    seen.judged[0] = replace(GOOD, drop=None)
    assert "one: no task metric" in seen.missed()


def test_the_page_says_what_was_missed(tmp_path: Path) -> None:
    seen = [_seen(worst=0.98), Seen(CASE, error="cosine 0.9 < 0.99", seconds=3.0)]
    write_page(tmp_path / "page.md", seen, {"cpu": "some cpu"})
    page = (tmp_path / "page.md").read_text()
    assert page.count("| **no** |") == 2
    assert "`net-onnx-int8` missed: two: cosine 0.98000 < 0.99." in page
    assert "`net-onnx-int8` missed: cosine 0.9 < 0.99." in page
    assert "in float32: `n (Conv)`" in page


def test_rows_are_picked_by_name() -> None:
    rows = [case.row for case in CASES]
    assert len(set(rows)) == len(rows)
    assert [case.row for case in picked(["minilm-tflite-int8"], CASES)] == ["minilm-tflite-int8"]
    assert {case.name for case in picked(["minilm-*"], CASES)} == {"MiniLM"}
    assert picked([], CASES) == list(CASES)
    with pytest.raises(ValueError, match=r"no row is called minlm.*minilm-onnx-int8"):
        picked(["minlm"], CASES)
    for case in CASES:
        assert case.checks or case.cosine is not None or case.drop is not None, case.row


def test_nothing_is_judged_that_was_calibrated_on() -> None:
    assert not set(data.CALIBRATION_PHOTOS) & set(data.JUDGED_PHOTOS)
    assert len(data.CALIBRATION_PHOTOS) * data.CALIBRATION_CROPS <= 64
    assert len(data.JUDGED_PHOTOS) * data.JUDGED_CROPS >= 200
    assert not set(data.CALIBRATION_TEXTS) & set(data.JUDGED_TEXTS)


def test_a_missed_limit_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(small_cnn(tmp_path / "model.onnx"))
    some = Data("made up", lambda folder: {"samples": "random:8"}, 8)
    kept = Case(
        *("net", model, "int8", (some, some)),
        options={"weight_methods": ["none"]},
        cosine=0.99,
        share=1.0,
        megabytes=1.0,
        checks=(integer_convolutions(2, 2), says("100% of the multiply-adds"), never_says("Selu")),
    )
    page = tmp_path / "page.md"
    assert main(["--no-bench"], [kept], page) == 0
    assert page.read_text().count("| yes |") == 1
    assert "all limits are kept" in capsys.readouterr().out
    checks = (integer_convolutions(1, 2), says("Selu"))
    missed = replace(kept, judged=(some,), tag="bad", megabytes=0.001, checks=checks)
    broken = replace(kept, tag="gone", source=str(tmp_path / "gone.onnx"))
    assert main(["--no-bench"], [missed, broken], page) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("MISSED: ")]
    rows = ["net-onnx-int8-bad"] * 3 + ["net-onnx-int8-gone"]
    assert [line.split(": ")[1] for line in lines] == rows
    assert "MB > 0.001" in lines[0] and "gone.onnx" in lines[3]
    assert lines[1].endswith("1 of 2 convolutions read integers: 2 of 2")
    assert "decisions say `Selu`: 0 of" in lines[2]
    assert page.read_text().count("| **no** |") == 2
    page.unlink()
    assert main(["--no-bench", "--only", "*-gone"], [missed, broken], page) == 1
    assert not page.exists()


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


def test_the_curves_of_budgets_are_those_of_the_page() -> None:
    docs = Path(__file__).parents[1] / "docs"
    found = budget.points((docs / "precision.md").read_text("utf-8"))
    assert found["EfficientNet-Lite0, int8"] and all(found.values())
    assert (docs / "budget.svg").read_text("utf-8") == budget_plot(found)


def test_the_curves_of_budgets_are_of_onnx_alone() -> None:
    row = "| `net-{}-int8` | `int8 --min-cosine 0.9` | photos | 0.95000 | 0.96000 | - | 80.0% |"
    page = "\n".join(
        ["\n## MiniLM", row.format("coreml"), row.format("onnx"), row.format("tflite")]
    )
    assert budget.points(page)["MiniLM, int8"] == [(0.05, 0.8)]
