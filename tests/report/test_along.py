"""The error along the graph in the report: data, words, page."""

import numpy as np
import pytest

from converter.diff.difference import compare_models
from converter.ir.model import Model
from converter.report.html import as_html
from converter.report.layerwise_error import SHOWN, AlongReport
from tests.passes.models import ListedSamples, noise, text_model
from tests.report import build
from tests.report.test_report import Page

CHAIN = """m (float[batch, 4] x, float[4] k) => (float[batch, 4] y)
    { a = Tanh(x) b = {} (a, k) c = Abs(b) y = {} }"""


def model(op: str = "Add", end: str = "Add(c, x)") -> Model:
    text = CHAIN.replace("{}", op, 1).replace("{}", end, 1)
    return text_model(text, k=np.array([1, 2, 3, 4], np.float32))


def traced(a: Model, b: Model) -> AlongReport:
    samples = ListedSamples([noise(a, seed, batch=1) for seed in range(4)])
    return AlongReport.of(compare_models(a, b, samples, most=2), "simplified", "int8")


def test_the_first_tensor_that_parts_is_named() -> None:
    found = traced(model(), model("Sub"))
    assert (found.samples, found.first, found.reaches_output) == (2, "b", True)
    assert [point.name for point in found.points] == ["a", "b", "c", "y"]
    assert found.first_index == 1 and not found.exact
    assert found.verdict.startswith("They part at b: off by ")
    assert any(line.startswith("in simplified it is computed by Add") for line in found.told)
    assert any(line.startswith("in int8 it is computed by Sub") for line in found.told)
    assert found.worst[0].name == "b" and "a" not in [point.name for point in found.worst]
    assert AlongReport.model_validate_json(found.model_dump_json()) == found
    end = "Sub(c, c)"
    found = traced(model(end=end), model("Sub", end))
    assert (found.first, found.reaches_output) == ("b", False)
    agrees = "Every output agrees within 0.0001; on the way 2 tensors are beyond that, the earliest"
    assert found.verdict.startswith(f"{agrees} b, ")
    found = traced(model(), model())
    assert found.exact and found.first is None and found.worst == []
    page = Page(as_html(build.report(along=[found])))
    assert "No tensor differs at all: 4 tensors compared" in page.text


def test_the_page_shows_each_step() -> None:
    parted = traced(model(), model("Sub"))
    left_out = AlongReport(before="read", after="simplified", skipped="the weights take 3.0 GB")
    html = as_html(build.report(along=[left_out, parted]))
    section = html[html.index('<section id="along">') :]
    section = section[: section.index("</section>")]
    assert section.count('<circle class="dot') == 3 and section.count('class="mark hollow"') == 1
    text = Page(html).text
    assert "Not compared: the weights take 3.0 GB." in text
    assert "They part at b: off by" in text


@pytest.mark.parametrize("count", [0, SHOWN + 3])
def test_only_some_are_listed(count: int) -> None:
    found = traced(model(), model("Sub"))
    found.points = [found.points[1].model_copy(update={"name": f"t{i}"}) for i in range(count)]
    assert len(found.worst) == min(count, SHOWN)
