"""The report: what it says, that it is safe to open, and that its bytes are the same."""

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from converter.check.gates import JUDGED, LOWERED, GateResult, flagged, require
from converter.check.latency import LatencyRatio
from converter.errors import GateError
from converter.pipeline.schemas import SCHEMAS, schema_text
from converter.protocols.server import Packaged
from converter.report.files import write_report
from converter.report.html import as_html, labelled, plain, ran_in
from converter.report.json_ import as_json, read_report
from converter.report.model import PackageReport, Report, SamplesReport, verdict_of
from converter.report.terminal import as_terminal
from converter.text import words
from converter.text.words import printable
from tests.report import build

VOID = {"meta", "br", "hr", "img", "input", "link"}
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}&amp;\x1b[31m[red]"

MADE: dict[str, Callable[[], Report]] = {
    "passed": build.report, "failed": build.failing, "unlowered": build.unlowered,
    "random": build.on_random_inputs, "long": build.with_long_names,
    "evil": lambda: build.with_long_names(EVIL),
    "bare": lambda: build.report(samples=None, machine=None, passes=[], packages=[], timings=[]),
}  # fmt: skip


class Page(HTMLParser):
    """Checks that tags balance; keeps tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


@pytest.fixture(params=MADE)
def made(request: pytest.FixtureRequest) -> Report:
    return MADE[request.param]()


def page_of(report: Report) -> str:
    """The words of a report's page."""
    return " ".join(Page(as_html(report)).text.split())


def lines_of(report: Report, width: int = 80) -> list[str]:
    """What a terminal shows."""
    console = Console(width=width, force_terminal=False)
    with console.capture() as captured:
        console.print(as_terminal(report))
    return captured.get().splitlines()


def printed(report: Report, width: int = 200) -> str:
    """The same in one line."""
    return " ".join(" ".join(lines_of(report, width)).split())


def test_the_page_is_one_file_without_scripts_or_references(made: Report) -> None:
    html = as_html(made)
    page = Page(html)
    assert not {"script", "img", "link", "iframe", "object", "form"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on")} and not names & {"src", "style"}
    assert all((value or "").startswith("#") for name, value in page.attributes if name == "href")
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style and "@import" not in style and "prefers-color-scheme" in style
    assert ("name", "viewport") in page.attributes
    assert page.tags.count("h1") == 1
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_the_first_words_are_the_verdict_and_what_it_was_checked_on(made: Report) -> None:
    text = page_of(made)
    start = text.index(" ".join(printable(made.title).split()))
    assert made.checked_on in text[start : start + 1000]
    assert text.index(made.checked_on) < text.index("Gates")


def test_untrusted_names_are_text() -> None:
    html = as_html(MADE["evil"]())
    assert "<script" not in html and "<img" not in html
    assert printable(EVIL) in Page(html).text and "\x1b" not in html
    shown = "\n".join(lines_of(MADE["evil"]()))
    assert "\x1b" not in shown and "[red]" in shown


def test_it_fits_a_terminal(made: Report) -> None:
    assert max(map(len, lines_of(made))) <= 80
    flat = printed(made, 80)
    assert flat.startswith((made.flags or [made.checked_on])[0][:60])
    assert made.checked_on[:60] in flat
    for artifact in made.artifacts:
        for gate in artifact.gates:
            if gate.status == "failed" and artifact.title != "onnx fp16":
                assert f"failed: {artifact.title}, {gate.name}" in flat


def test_what_is_lowered_stands_beside_the_size() -> None:
    rows = [line.split() for line in lines_of(build.failing())]
    (first,) = (n for n, row in enumerate(rows) if row[:3] == ["onnx", "int8", "FAILED"])
    assert rows[first][3:6] == ["25.9", "MB", "90.5%"]
    assert rows[first + 1][:2] == ["0.253\N{MULTIPLICATION SIGN}", "98.0%"]
    text = page_of(build.failing())
    assert "Lowered90.5%of the multiply-adds; 98.0% of the weights' bytes" in text
    assert "Size beside float320.253\N{MULTIPLICATION SIGN}that of onnx fp32" in text


def test_what_is_not_lowered_is_no_pass() -> None:
    made = build.unlowered()
    assert made.verdict == "unlowered" and made.artifacts[0].verdict == "passed"
    shown = "\n".join(lines_of(made))
    assert shown.count("conv0 stays float32") == 1 and " unlowered " in shown
    text = page_of(made)
    assert "Unlowered in onnx fp16" in text and "Passed" not in text.split("Artifacts")[0]


def test_the_same_report_is_the_same_bytes(tmp_path: Path, made: Report) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_report(made, tmp_path / name)
    for name in ("report.json", "report.html"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_json_follows_its_schema_and_comes_back(tmp_path: Path, made: Report) -> None:
    text = as_json(made)
    jsonschema.validate(json.loads(text), json.loads(schema_text("report.schema.json")))
    (tmp_path / "report.json").write_text(text)
    assert as_json(read_report(tmp_path / "report.json")) == text


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_in_docs_are_up_to_date(name: str) -> None:
    stored = Path(__file__).parents[2] / "docs" / name
    assert stored.read_text() == schema_text(name), "python -m converter.pipeline.schemas docs"
    jsonschema.Draft202012Validator.check_schema(json.loads(stored.read_text()))


def test_paths_of_this_machine_are_not_written(tmp_path: Path) -> None:
    made = build.report()
    made.warn(f"reading {Path.home()}/secret/net.py: nothing", loud=True)
    for path in write_report(made, tmp_path):
        text = path.read_text()
        assert "reading net.py: nothing" in text and "secret" not in text


def test_what_it_was_checked_on() -> None:
    expected = "Checked on 64 samples (folder of images (photos), labelled) against the outputs of"
    assert build.report().checked_on.startswith(expected)
    weak = build.on_random_inputs()
    assert weak.weak and weak.checked_on.startswith("Checked on random inputs only")
    assert "on random inputs only" in page_of(weak)
    nothing = build.report(samples=None)
    assert nothing.verdict == "not checked"
    assert nothing.weak and nothing.checked_on.startswith("Not checked")
    empty = build.report(samples=SamplesReport(origin="x", count=0))
    assert empty.checked_on.startswith("Not checked")


def test_verdicts() -> None:
    def gate(status: str, measured: bool = False) -> GateResult:
        return GateResult("g", None, None, status, "", "", measured)  # type: ignore[arg-type]

    assert verdict_of([]) == "not checked"
    assert verdict_of([gate("not judged")]) == "not checked"
    assert verdict_of([gate("passed", measured=True)]) == "not checked"
    assert verdict_of([gate("passed"), gate("not judged")]) == "passed"
    assert verdict_of([gate("passed"), gate("failed", measured=True)]) == "failed"
    assert build.failing().verdict == "failed" and build.report().verdict == "passed"
    unchecked = build.artifact("fp16")
    unchecked.gates = []
    assert build.report(build.artifact(), unchecked).verdict == "not checked"
    assert Report(tool="t", title="x", source=build.report().source).verdict == "not checked"


def test_what_did_not_run_is_not_called_passed() -> None:
    unrun = build.artifact("fp16")
    unrun.gates.append(GateResult("runs", None, None, "not judged", "no GPU here"))
    both, alone = build.report(build.artifact(), unrun), build.report(unrun)
    assert "Passed; 1 of 2 artifacts not run" in page_of(both)
    assert "Not run here; the graph it was made from passed" in page_of(alone)
    assert "not run; its graph passed" in page_of(alone)
    assert "NOT RUN" in "\n".join(lines_of(alone, 100))


def test_every_missed_gate_stands_at_the_top() -> None:
    top = page_of(build.failing()).partition("Artifacts")[0]
    assert "Failed: 3 gates missed" in top
    assert top.count("onnx int8,") == 3 and "limit 0.99" in top


def test_packages_are_told_relative_to_the_output(tmp_path: Path) -> None:
    folder = tmp_path / "serving" / "triton" / "net"
    packaged = Packaged("triton", folder, {"max batch": 8}, ["why"])
    assert PackageReport.of(packaged, tmp_path).path == "serving/triton/net"


def test_numbers_as_people_read_them() -> None:
    assert words.cosine(0.99995) == "0.999950"
    assert words.cosine(1 - 2e-9) == "1 \N{MINUS SIGN} 2.0e-09"
    assert words.cosine(0.9999999) != "1.000000"
    assert words.percent(0.99999) == "99.99%" and words.percent(1) == "100%"
    assert [words.size(n) for n in (1000, 999_499, 999_500)] == ["1 kB", "999 kB", "1 MB"]
    assert words.size(999) == "999 B" and words.size(102_443_071) == "102 MB"
    assert words.number(1e-7) == "1.00e-07" and words.number(None) == words.NONE
    assert words.number(0.05) == "0.05000" and words.number(123456) == "123,456"
    assert words.percent(1e-5) == "<0.1%" and words.count(4_089_184_256) == "4.09 billion"
    assert words.count(105 * 10**308) == "1.05e+310"
    assert words.seconds(192) == "3 min 12 s"
    assert len(words.middle("x" * 90, 20)) == 20


@pytest.mark.parametrize(("value", "low", "high", "told"), [
    (1.8432, 1.841, 1.845, "1.84x faster"),
    (1.84, 1.8, 1.9, "1.8x faster"),
    (1.84, 1.7, 2.1, "about 1.8x faster"),
    (12.3, 11.8, 12.8, "12x faster"),
    (4.2, 3.5, 5.0, "about 4x faster"),
    (4142.68, 3000.0, 5000.0, "about 4,000x faster"),
    (4142.68, 10.0, 5000.0, "unsteady"),
    (0.25, 0.249, 0.251, "4.0x slower"),
    (1.1, 0.9, 1.3, "about as fast"),
    (1.02, 1.01, 1.03, "about as fast"),
])  # fmt: skip
def test_a_ratio_has_the_digits_that_its_spread_allows(value: float, low: float, high: float,
                                                       told: str) -> None:  # fmt: skip
    ratio = LatencyRatio(1, 1, value, low, high, runs=50)
    assert words.speedup(ratio).replace("\N{MULTIPLICATION SIGN}", "x") == told


def test_no_ratio_of_few_runs_or_of_runs_that_did_not_settle() -> None:
    assert words.speedup(LatencyRatio(1, 1, 4142.68, 4142.0, 4143.0, runs=3)) == "too few runs"
    unsettled = LatencyRatio(1, 1, 4142.68, 4142.0, 4143.0, runs=50, warm=False)
    assert words.speedup(unsettled) == "unsteady"
    report = build.report()
    for artifact in report.artifacts:
        artifact.ratios = [unsettled]
    assert "unsteady" in printed(report) and "4,142" not in printed(report)
    page = page_of(report)
    assert "unsteady" in page and "faster" not in page


@pytest.mark.parametrize(("value", "limit", "told"), [
    (0.999989996, 0.99999, "0.999989996"),
    (0.9999899999, 0.99999, "0.9999899999"),
    (0.9933, 0.99, "0.993300"),
    (1 - 3e-9, 0.9999999, "1 \N{MINUS SIGN} 3.0e-09"),
])  # fmt: skip
def test_a_value_is_told_from_its_limit(value: float, limit: float, told: str) -> None:
    assert words.beside(value, limit, words.cosine) == told


def test_limits_have_all_their_digits() -> None:
    assert words.limit(0.99999) == "0.99999" and words.limit(1) == "1"
    report = build.failing()
    close = GateResult("cosine", 0.99999, 0.9999899999, "failed", "logits on a.png")
    scale = GateResult("scale", 0.01414, 0.0141401, "failed", "logits")
    report.artifacts[0].gates = [close, scale]
    page = page_of(report)
    for text in (printed(report), page):
        assert "0.9999899999, limit 0.99999;" in text and "0.0141401, limit 0.01414;" in text
    assert "cosine \u2265 0.99999" in page
    with pytest.raises(GateError) as caught:
        require(report.artifacts[0].gates, "onnx fp32")
    assert caught.value.details[0].startswith("cosine: 0.9999899999, limit 0.99999;")


def test_what_is_not_judged_comes_first() -> None:
    report = build.report(build.artifact(), build.artifact("fp16"))
    for artifact in report.artifacts:
        artifact.gates = [*artifact.gates, flagged(JUDGED, "y (zero on all)", strict=False)]
    assert report.verdict == "not judged" and report.flags == ["Not judged: y (zero on all)."]
    assert printed(report).startswith("Not judged: y (zero on all). Checked on 64 samples")
    assert printed(report).count("y (zero on all)") == 1
    page = page_of(report)
    assert page.index("Not judged: y (zero on all).") < page.index("Checked on 64 samples")
    report.artifacts[1].gates = report.artifacts[1].gates[:-1]
    assert report.flags == ["Not judged in onnx fp32: y (zero on all)."]
    report.artifacts[1].gates.append(flagged(LOWERED, "nothing", strict=True))
    assert report.verdict == "failed"


def test_a_stand_in_is_told_of_once() -> None:
    unrun = build.artifact()
    unrun.gates.append(GateResult("runs", None, None, "not judged", "model.plan was not run"))
    report = build.report(unrun)
    report.warn("onnx fp32: model.plan HAS NOT BEEN RUN: there is no GPU here", loud=True)
    assert printed(report).count("RUN") == 2 and "was not run" not in printed(report)


def test_details_are_in_words() -> None:
    assert plain([[1, 3, 8], [2, 3, 8]]) == "[1, 3, 8], [2, 3, 8]"
    assert plain({"image": [1, 2]}) == "image: 1, 2"
    names = [name for name, _ in labelled({"coreml_target": "iOS17", "compute_units": "all"})]
    assert names == ["Core ML target", "Compute units"]


def test_what_ran_is_said_once() -> None:
    assert ran_in({}) == words.NONE
    assert [plain(value) for value in (None, "", True, False)] == [words.NONE] * 2 + ["yes", "no"]
    runtime = {"name": "LiteRT", "version": "2.3", "delegate": "xnnpack", "threads": None}
    assert ran_in(runtime) == "LiteRT 2.3; delegate: xnnpack"
    stand_in = {"name": "onnxruntime", "version": "1", "runs": "the graph,", "read_back": True,
                "stands_for": "model.plan", "not_run": "there is no GPU"}  # fmt: skip
    assert ran_in(stand_in) == "onnxruntime 1, which ran the graph, in place of model.plan"


def test_what_was_not_made_has_no_file() -> None:
    report = build.failing()
    report.artifacts[0].path = ""
    page = page_of(report)
    assert "not made" in page and "What was tried" in page
    assert "sha256" not in page.split("What was tried")[0].split("Gates")[-1]
