"""A search ends at the same place on every machine, unless the user has the clock end it."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from converter import api, precision
from converter.ir.model import Model
from converter.precision.budget import effort as module
from converter.precision.budget.candidates import Beside
from converter.precision.budget.effort import FEWEST, MOST, Effort, reckoned, usual_evaluations
from converter.precision.fp16.refine import refine
from tests.acceptance.cli import small_cnn
from tests.quantize.fake import noises, rounding
from tests.schemes import HERE


def test_a_part_spends_what_the_whole_has_and_its_clock_cuts_it() -> None:
    whole = Effort(9)
    part = whole.part(1 / 3)
    assert [part.spend() for _ in range(4)] == [True, True, True, False]
    assert [whole.spend() for _ in range(7)] == [True] * 6 + [False]
    assert whole.ended == "after 9 evaluations (--search-evaluations)" and not whole.cut
    effort = Effort(10)
    assert effort.spend()
    effort.charge(7.5)
    assert effort.spend() and not effort.spend()
    ticks = itertools.count()
    whole = Effort(1000, 30, clock=lambda: float(next(ticks)))
    part = whole.part(1 / 3)
    assert sum(part.spend() for _ in range(12)) == 9
    assert whole.cut and whole.spend()
    assert whole.ended == "after 30 s (--search-seconds)"


def test_larger_models_are_tried_less_often(model: Model) -> None:
    counts = [usual_evaluations(reckoned(model, macs, 16)) for macs in (10**4, 10**9, 10**11)]
    assert counts[0] == MOST > counts[1] > counts[2] == FEWEST


def test_float16_looks_as_far_as_its_effort_goes(model: Model) -> None:
    def kept(evaluations: int) -> set[str]:
        made, other = (
            refine(rounding(model), model, noises(), 0.95, Effort(evaluations), beside=beside)
            for beside in (Beside(1, 2), Beside(2, 1))
        )
        assert (made.kept, made.decisions) == (other.kept, other.decisions)
        return {item.node for item in made.kept}

    assert kept(0) == set()
    assert kept(1000) == kept(100) != set()
    assert kept(3) <= {"fc0", "fc1"}  # these tried alone, then one set of them


def test_nothing_else_looks_at_the_clock() -> None:
    files = Path(precision.__file__).parent.rglob("*.py")
    time = re.compile(r"^(import|from) time\b", re.M)
    assert {path.name for path in files if time.search(path.read_text())} == {"effort.py"}


class Slow:
    """The clock of a machine on which everything takes a quarter of an hour."""

    now = 0.0

    @classmethod
    def monotonic(cls) -> float:
        cls.now += 900
        return cls.now


def test_a_slow_machine_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_cnn(tmp_path / "model.onnx", channels=16)

    def made(name: str, min_cosine: float, **options: Any) -> tuple[list[bytes], list[str]]:
        done = api.convert(
            str(model), out=str(tmp_path / name), precision=["int8", "fp16"],
            samples="random:12", min_cosine=min_cosine, bench=False, cache=False, **HERE, **options,
        )  # fmt: skip
        assert done.report is not None
        files = sorted((tmp_path / name / "onnx").rglob("model.onnx"))
        return [path.read_bytes() for path in files], done.report.loud

    usual, said = made("usual", 0.99999)
    assert not any("MACHINE" in text for text in said)
    monkeypatch.setattr(module, "time", Slow)
    slow, said = made("slow", 0.99999)
    assert slow == usual and not any("MACHINE" in text for text in said)
    cut, said = made("cut", 0.999, search_seconds=2000)
    assert cut != usual
    assert said[0].startswith("THIS DEPENDS ON THE MACHINE: onnx int8")
