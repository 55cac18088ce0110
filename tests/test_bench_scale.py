"""The simulation of docs/scale.md, on nights whose length is known beforehand."""

from __future__ import annotations

import pytest

from bench.scale import OPEN, simulate
from bench.scale_measured import Model, Work, _Recorder
from converter.commands.sweep import CellReport
from converter.pipeline.plan import Step


def model(*steps: Work, source: float = 0, outputs: float = 0) -> Model:
    return Model("any", list(steps), source, 0, outputs)


def work(id: str, seconds: float, *needs: str, alone: bool = False) -> Work:
    return Work(id, list(needs), seconds, alone, threaded=False, light=False)


def test_steps_run_side_by_side_as_far_as_they_may() -> None:
    apart = model(work("a", 3), work("b", 2), work("c", 1, "b"))
    assert simulate([apart], 1).wall == pytest.approx(3)
    chain = model(work("a", 3), work("b", 2, "a"), work("c", 1, "b"))
    assert chain.chain == 6 and simulate([chain], 1).wall == pytest.approx(6)
    alone = model(work("a", 3, alone=True), work("b", 2, alone=True))
    assert simulate([alone] * 4, 1).wall == pytest.approx(20)
    assert OPEN == 2 and simulate([chain] * 4, 1).wall == pytest.approx(12)


def test_workers_share_the_models_and_the_store() -> None:
    one = model(work("a", 5, alone=True))
    assert [simulate([one] * 12, count).wall for count in (1, 3, 12)] == [60, 20, 5]
    large = model(work("a", 1, alone=True), source=1000, outputs=1000)
    night = simulate([large] * 4, 4, link=100, streams=1)
    assert night.moved == 8000 and night.wall == pytest.approx(80, abs=2)
    assert night.store == pytest.approx(1, abs=0.02)
    assert simulate([large] * 4, 4, link=100, streams=4).wall == pytest.approx(21)


def test_what_cells_share_is_one_step() -> None:
    seen = _Recorder()
    for cell, seconds in (("a", 2.0), ("b", 0.0)):
        seen.finished(Step("parse", "", part=cell), seconds, False)
        emit = Step("emit", "", needs=(f"{cell}/parse",), target="onnx", precision=cell, part=cell)
        seen.finished(emit, 1.0, False)
    steps = seen.of([CellReport(name="a", options={}), CellReport(name="b", options={})])
    assert [(step.id, step.needs) for step in steps] == [
        ("a/parse", []), ("a/emit:onnx:a", ["a/parse"]), ("b/emit:onnx:b", ["a/parse"]),
    ]  # fmt: skip
