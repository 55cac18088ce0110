"""The report's plots: everything inside its frame, no words over others, values where axes say."""

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from converter.check.gates import GateResult
from converter.report.model import StepReport
from converter.report.svg import WIDTH, Axis, along_plot, cosine_plot, latency_plot, steps_plot
from tests.report import build

CHARACTER = {"name": 6.2, "tick": 5.4}
"""How wide a letter of each class is, about, in a drawing's units."""

STEPS = [("read", None, None), ("normalize", 121.0, 130.0), ("a pass, and more", 64.5, None)]
ALONG = [(0, 0.0, "a"), (2, 1e-7, "b"), (3, 0.02, "c"), (6, None, "d"), (9, 3e-4, "e")]
COMPARED = build.comparison(1e-3, ("a", "b", "c"), 20).outputs
GATE = GateResult("latency", 20.0, 14.0, "passed", "p95")


def steps() -> list[StepReport]:
    return [
        StepReport(
            step=name, source_sqnr_db=source, previous_sqnr_db=before, source_cosine=1.0,
            source_max_abs=0.0, previous_cosine=1.0, previous_max_abs=0.0,
        )
        for name, source, before in STEPS
    ]  # fmt: skip


PLOTS = {
    "latency": lambda: latency_plot(build.latency().points, GATE),
    "latency, logarithmic": lambda: latency_plot(build.latency(0.02).points, None),
    "cosine": lambda: cosine_plot(COMPARED, 0.9999), "steps": lambda: steps_plot(steps()),
    "along": lambda: along_plot(ALONG, 1e-4, 2),
}  # fmt: skip


class Drawing:
    """A plot's elements."""

    def __init__(self, drawn: Markup | None) -> None:
        assert drawn is not None
        self.root = ElementTree.fromstring(str(drawn))
        self.height = float(self.root.attrib["viewBox"].split()[-1])

    def all(self, tag: str, start: str = "") -> list[dict[str, str]]:
        """The attributes of the elements of a class, in order."""
        found = (node.attrib for node in self.root.iter(tag))
        return [one for one in found if one.get("class", "").startswith(start)]

    def words(self) -> list[tuple[str, float, float, float]]:
        """Each text with where it begins, where it ends and its base line."""
        found = []
        for node in self.root.iter("text"):
            text, (kind, *more) = node.text or "", node.attrib["class"].split()
            x, width = float(node.attrib["x"]), CHARACTER[kind] * len(node.text or "")
            x -= width if "end" in more else width / 2 if "middle" in more else 0
            found.append((text, x, x + width, float(node.attrib["y"])))
        return found

    def axis(self, side: str) -> dict[float, float]:
        """Where each labelled value of an axis lies."""
        marks = self.all("line", "grid")
        places = [float(mark[f"{side}1"]) for mark in marks if mark[f"{side}1"] == mark[f"{side}2"]]
        labels = [text for text, *_ in self.words() if re.fullmatch(r"[-+.\de]+", text)]
        return dict(zip(map(float, labels), places, strict=False))


@pytest.mark.parametrize("name", PLOTS)
def test_all_of_it_can_be_read(name: str) -> None:
    drawing = Drawing(PLOTS[name]())
    words = drawing.words()
    for text, left, right, base in words:
        assert 0 <= left < right <= WIDTH and 8 <= base <= drawing.height - 2, text
    assert drawing.height - max(base for *_, base in words) <= 16
    for number, (text, left, right, base) in enumerate(words):
        for other, begin, end, line in words[:number]:
            assert right <= begin or end <= left or abs(base - line) >= 9, (text, other)
    for node in drawing.root.iter():
        for key, most in (("x", WIDTH), ("y", drawing.height)):
            for part in (f"{key}1", f"{key}2", f"c{key}", key):
                assert 0 <= float(node.attrib.get(part, 0)) <= most, (node.tag, node.attrib)
    axis = drawing.axis("y" if name in ("cosine", "along") else "x")
    assert 2 <= len(axis) <= (5 if "latency" in name else 7)


def test_boxes_lie_where_the_axis_says() -> None:
    points = build.latency().points
    drawing = Drawing(latency_plot(points, GATE))
    (low, at_low), *_, (high, at_high) = drawing.axis("x").items()

    def place(ms: float) -> float:
        return at_low + (ms - low) / (high - low) * (at_high - at_low)

    ordered = sorted(points, key=lambda point: (point.batch, point.concurrency))
    boxes, whiskers = drawing.all("rect"), drawing.all("line", "whisker")[::2]
    for point, box, whisker, median in zip(
        ordered, boxes, whiskers, drawing.all("line", "median"), strict=True
    ):
        assert box["class"] == ("box a" if point.role == "artifact" else "box b")
        assert float(box["x"]) == pytest.approx(place(point.p25_ms), abs=0.1)
        width = max(place(point.p75_ms) - place(point.p25_ms), 2)
        assert float(box["width"]) == pytest.approx(width, abs=0.1)
        assert float(median["x1"]) == pytest.approx(place(point.p50_ms), abs=0.1)
        reach = point.max_ms if point.p95_ms is None else point.p95_ms
        assert float(whisker["x1"]) == pytest.approx(place(point.min_ms), abs=0.1)
        assert float(whisker["x2"]) == pytest.approx(place(reach), abs=0.1)
        middle = float(box["y"]) + float(box["height"]) / 2
        assert float(whisker["y1"]) == float(whisker["y2"]) == middle
    tops = [float(box["y"]) for box in boxes]
    assert all(below - above >= 18 + 8 for above, below in pairwise(tops))
    (limit,) = drawing.all("line", "limit")
    assert float(limit["x1"]) == pytest.approx(place(20.0), abs=0.1)
    assert float(limit["y1"]) < tops[0] and tops[1] + 18 < float(limit["y2"]) < tops[2] - 9


def test_marks_lie_where_the_axis_says() -> None:
    drawing = Drawing(steps_plot(steps()))
    (low, at_low), *_, (high, at_high) = drawing.axis("x").items()
    exact = next(float(node["x"]) for node in drawing.all("text") if node["class"] == "tick middle"
                 and float(node["x"]) > at_high)  # fmt: skip
    for kind, column in (("mark a", 1), ("mark hollow", 2)):
        found = [float(mark["cx"]) for mark in drawing.all("circle", kind)][: len(STEPS)]
        for place, step in zip(found, STEPS, strict=True):
            value = step[column]
            there = exact if value is None else at_low + (value - low) / (high - low) * (
                at_high - at_low
            )  # fmt: skip
            assert place == pytest.approx(there, abs=0.1), step


@pytest.mark.parametrize("name", ["cosine", "along"])
def test_dots_lie_where_a_logarithmic_axis_says(name: str) -> None:
    drawing = Drawing(PLOTS[name]())
    (low, at_low), *_, (high, at_high) = drawing.axis("y").items()
    assert low < high and at_low > at_high

    def value(at: float) -> float:
        share = (at - at_low) / (at_high - at_low)
        return 10 ** (math.log10(low) + share * (math.log10(high) - math.log10(low)))

    (limit,) = drawing.all("line", "limit")
    assert value(float(limit["y1"])) == pytest.approx(1e-4, rel=0.02)
    if name == "along":
        told = [(place / 9, error) for place, error, _ in ALONG]
    else:
        curves = sorted((output.cosines for output in COMPARED), key=min)
        told = [(at / 19, 1 - c) for curve in curves for at, c in enumerate(curve)]
    dots = [(float(dot["cx"]), float(dot["cy"])) for dot in drawing.all("circle")]
    for (x, y), (share, error) in zip(dots, told, strict=True):
        assert x == pytest.approx(62 + share * (WIDTH - 14 - 62), abs=0.1)
        if error:
            assert value(y) == pytest.approx(error, rel=0.02)
        else:  # what is exact lies below the axis, what is no number at its top
            assert y > at_low if error == 0 else y <= at_high


@pytest.mark.parametrize("high", [0.013, 1.0, 7.2, 60.0, 98.0, 1490.0])
def test_ticks_are_round_and_as_many_as_fit(high: float) -> None:
    axis = Axis(0, high, 14, 390)
    assert [axis.at(part * high) for part in (-1, 0, 0.5, 1, 2)] == [14, 14, 202, 390, 390]
    for most in (5, 6):
        ticks = axis.ticks(most)
        (step,) = {float(f"{b - a:.6e}") for a, b in pairwise(ticks)}
        assert f"{step:e}"[:3] in {"1.0", "2.0", "2.5", "5.0"} and ticks[0] == 0
        assert most / 2 <= len(ticks) <= most and high - step < ticks[-1] <= high * 1.000001
        decades = Axis(1e-7, 1e3, 0, 1, log=True).ticks(most)
        assert decades == pytest.approx([10.0**power for power in range(-7, 4, 2)])
