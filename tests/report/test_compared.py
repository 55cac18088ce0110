"""The comparison of runs: its rows, the front, what to ship, what changed, and its forms."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from converter.errors import UsageError
from converter.pipeline.schemas import schema_text
from converter.report.changes import changes
from converter.report.compared import Accuracy, Compared, Row, front, rows_of
from converter.report.compared_text import as_csv, as_junit, as_markdown
from converter.report.json_ import as_json
from converter.report.wants import choose, decide, read_want
from tests.report import build
from tests.report.test_report import EVIL


def row(name: str, cosine: float = 0.9999, p50: float | None = 10.0, size: int = 1000,
        verdict: str = "passed", **more: object) -> Row:  # fmt: skip
    fields = {"run": name, "target": "onnx", "precision": name, "p95_ms": p50 and p50 * 1.2}
    return Row(name=name, verdict=verdict, cosine=cosine, p50_ms=p50, bytes=size,
               **{**fields, **more})  # type: ignore[arg-type] # fmt: skip


ROWS = [
    row("fp32", 1 - 1e-9, 20, 8000, drop=0.0, metric="top1", unit="%", value=80.0),
    row("fp16", 1 - 1e-6, 21, 4000, drop=0.0, metric="top1", unit="%", value=80.0),
    row("int8", 0.998, 9, 2100, drop=0.4, metric="top1", unit="%", value=79.6),
    row("int4", 0.95, 25, 1100, "failed", why="cosine: 0.95, limit 0.99", drop=3.0,
        metric="top1", unit="%", value=77.0),
]  # fmt: skip


def test_a_row_has_the_figures_of_its_report() -> None:
    report = build.failing()
    good, bad = rows_of(report, "net", "net/report.html")
    assert [good.name, bad.name] == ["net onnx fp32", "net onnx int8"]
    assert bad.verdict == "failed" and bad.why.startswith("cosine: ")
    assert good.p50_ms == next(p.p50_ms for p in report.artifacts[0].latency)
    assert (bad.metric, bad.value, bad.drop) == ("top1", 76.5625, 4.6875)
    assert rows_of(build.on_random_inputs(), "a")[0].doubt == "random inputs"
    assert rows_of(build.report(), "alone")[0].name == "alone"
    report.artifacts[0].latency[0] = replace(report.artifacts[0].latency[0], run_to_run=1.5)
    assert [item.doubt for item in rows_of(report)] == ["unsteady latency", ""]


def test_the_front_is_what_nothing_beats_in_all_three() -> None:
    assert front(ROWS) == {"fp32", "fp16", "int8"}
    slower = row("worse", 0.99, 22, 4000, drop=0.5, metric="top1", unit="%", value=79.5)
    assert front([*ROWS, slower]) == {"fp32", "fp16", "int8"}
    unmeasured = row("unmeasured", 1, None, 10, metric="top1", unit="%", value=81)
    assert "unmeasured" not in front([*ROWS, unmeasured])
    rounded = [row("a", 1 - 1e-12, 10), row("b", 1 - 1e-14, 20)]
    assert front(rounded) == {"a"}
    assert front([row("a", p50=None, size=5), row("b", p50=None, size=6)]) == {"a"}


def test_accuracy_is_the_metric_where_all_have_it_and_the_distance_elsewhere() -> None:
    assert Accuracy.of(ROWS).metric == "top1"
    mixed = Accuracy.of([*ROWS, row("other")])
    assert not mixed.metric and mixed.value(ROWS[2]) == pytest.approx(0.002)
    error = Accuracy("wer", "%", higher_is_better=False)
    assert error.loss(row("a", value=5.0)) == 5 and Accuracy("top1").loss(ROWS[0]) == -80


@pytest.mark.parametrize(("want", "ship"), [
    ("p95=20ms drop<0.5 size<10MB", "int8"),
    ("size drop<0.1", "fp16"),
    ("drop<0.1 p50<30ms", "fp32"),
    ("cosine", "fp32"),
    ("size<5kB, p50 < 0.1s", "int8"),
    ("p50<1ms", ""),
])  # fmt: skip
def test_what_to_ship(want: str, ship: str) -> None:
    assert choose(ROWS, read_want(want))[0] == ship


def test_reasons_name_the_limits_and_every_other_row() -> None:
    name, reasons = choose(ROWS, read_want("p95<20ms drop<0.5"))
    assert name == "int8" and len(reasons) == 4
    assert reasons[0] == (
        "int8: p95 latency 10.8 ms (below 20.0 ms), metric drop 0.4000 (below 0.5000); "
        "the only one to meet it"
    )
    assert "fp16: p95 latency 25.2 ms, not below 20.0 ms" in reasons
    assert "int4: failed: cosine: 0.95, limit 0.99" in reasons
    _, none = choose([row("a", p50=None)], read_want("p50<1ms"))
    assert none == ["a: no median latency was measured"]


@pytest.mark.parametrize("want", ["speed<3", "p95<", "size<3 apples", "", "p95<fast"])
def test_a_need_that_cant_be_read_is_refused(want: str) -> None:
    with pytest.raises(UsageError, match="--want"):
        read_want(want)


def test_what_is_worse_by_more_than_noise() -> None:
    before = [row("a", 0.9999, 10, 1000, machine="m", spread=0.04, nodes=100)]

    def worse(**now: object) -> set[str]:
        found = changes([before[0].model_copy(update=now)], before)
        return {change.what for change in found if change.regressed}

    assert worse(p50_ms=10.4) == set() and worse(p50_ms=11.0) == {"latency"}
    assert worse(p50_ms=11.0, machine="other") == set()
    assert worse(p50_ms=12.0, spread=0.5) == set()
    assert worse(bytes=1005) == set() and worse(bytes=1100) == {"size"}
    assert worse(cosine=0.99989) == set() and worse(cosine=0.9997) == {"accuracy"}
    assert worse(nodes=120) == {"nodes"} and worse(verdict="failed") == {"verdict"}
    assert worse(p50_ms=5.0, bytes=10, cosine=1.0, nodes=3) == set()
    for name in ("fp32", "int8"):
        then = [item for item in ROWS if item.name == name]
        now = [item.model_copy(update={"value": item.value - 0.2}) for item in then if item.value]
        assert [change.what for change in changes(now, then)] == ["accuracy"]
        assert changes(now, then)[0].regressed


def test_rows_are_compared_with_their_own_earlier_ones() -> None:
    before = [row("a", model="net"), row("b", model="net", precision="int8")]
    moved = [before[0].model_copy(update={"run": "elsewhere", "bytes": 2000})]
    found = changes(moved, before)
    assert [(item.name, item.what) for item in found] == [("a", "size"), ("b", "rows")]
    failed = Row(name="b", run="b", verdict="error", why="it ended")
    (change,) = changes([failed], [before[1]])
    assert (change.what, change.before, change.now) == ("verdict", "passed", "error")
    assert change.regressed


@pytest.fixture
def compared() -> Compared:
    made = Compared(title="net", rows=[*ROWS, row(EVIL, verdict="error", why=EVIL)])
    made.against = "earlier"
    made.changes = changes(made.rows, [row("int8", 0.999, 9, 1000, metric="top1", value=79.6)])
    decide(made, "p95<20ms")
    return made


def test_the_json_follows_its_schema(compared: Compared) -> None:
    schema = json.loads(schema_text("comparison.schema.json"))
    jsonschema.validate(json.loads(as_json(compared)), schema)


def test_a_pull_requests_comment_is_a_table_that_names_cant_break(compared: Compared) -> None:
    lines = as_markdown(compared).splitlines()
    assert "**Ship int8** (p95&lt;20ms)" in lines
    assert any(line.startswith("**1 regression** against earlier") for line in lines)
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + len(compared.rows)
    counts = {line.replace("\\|", "").count("|") for line in table}
    assert len(counts) == 1 and "<script" not in as_markdown(compared)


def test_a_spreadsheet_has_every_row_and_computes_nothing(compared: Compared) -> None:
    compared.rows[0].name = "=SUM(1)"
    read = list(csv.DictReader(as_csv(compared).splitlines()))
    assert [item["verdict"] for item in read] == [item.verdict for item in compared.rows]
    assert read[0]["name"] == "'=SUM(1)" and read[2]["ship"] == "True"
    assert float(read[2]["p50_ms"]) == 9


def test_junit_has_a_case_a_row(compared: Compared) -> None:
    suite = ElementTree.fromstring(as_junit(compared))
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "5", "failures": "2", "errors": "1",
    }  # fmt: skip
    missed = {case.get("name"): case[0].get("message") for case in suite if len(case)}
    assert "limit 0.99" in (missed["int4"] or "") and "size 2.1 kB" in (missed["int8"] or "")


def test_a_report_of_many_artifacts_compares_them_first(tmp_path: Path) -> None:
    from converter.report.html import as_html

    many = build.report(*(build.artifact(name, scale=1 + n) for n, name in
                          enumerate(("fp32", "fp16", "bf16", "int8"))))  # fmt: skip
    page = as_html(many)
    assert page.index("<h2>Comparison</h2>") < page.index("<details id=")
    assert page.count("<details id=") == 4 and "<h2>Artifacts</h2>" not in page
    assert "<script" not in as_html(build.failing())
