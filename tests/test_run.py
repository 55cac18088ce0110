"""The executor: order, side by side, alone, the cache, failures."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from converter.errors import GateError, MachineError, ModelError
from converter.pipeline.cache import Cache
from converter.pipeline.plan import Plan, Step
from converter.pipeline.run import Run, Silent
from converter.plugins import Progress


class Recorder:
    """An action that notes what runs beside what."""

    def __init__(self, seconds: float = 0.05, fails: str = "", meet: str = "") -> None:
        self._meet, self._barrier = meet, threading.Barrier(2, timeout=30)
        self.running: set[str] = set()
        self.beside: dict[str, set[str]] = {}
        self.order: list[str] = []
        self._lock = threading.Lock()
        self._seconds = seconds
        self._fails = fails

    def run(self, step: Step, progress: Progress) -> Any:
        with self._lock:
            self.order.append(step.id)
            for other in self.running:
                self.beside.setdefault(other, set()).add(step.id)
            self.beside.setdefault(step.id, set()).update(self.running)
            self.running.add(step.id)
        if step.id in self._meet:
            self._barrier.wait()  # neither goes on before the other has started
        time.sleep(self._seconds)
        with self._lock:
            self.running.discard(step.id)
        if step.id == self._fails:
            raise RuntimeError(step.id)
        return step.id.upper()

    def key(self, step: Step, needs: list[str], result: Any) -> str:
        return step.key(needs, {})

    def find(self, step: Step, needs: list[str], cache: Cache) -> tuple[str, Any] | None:
        entry = cache.find(step.key(needs, {}))
        return (step.key(needs, {}), (entry / "result").read_text()) if entry else None

    def keep(self, key: str, result: Any, cache: Cache) -> None:
        with cache.adding(key) as folder:
            if folder is not None:
                (folder / "result").write_text(result)


class Telling(Recorder):
    """Says how far it is, for a minute."""

    def run(self, step: Step, progress: Progress) -> Any:
        if step.id == self._fails:
            time.sleep(0.2)
            raise RuntimeError(step.id)
        for number in range(600):
            progress(str(number))
            time.sleep(0.1)
        return ""


def made(
    steps: Sequence[Step],
    recorder: Recorder,
    cache: Cache | None = None,
    abort: Callable[[], None] = lambda: None,
    **how: Any,
) -> Run:
    actions = {step.kind: recorder for step in steps}
    return Run(Plan(tuple(steps)), actions, cache or Cache(False), Silent(), abort, **how)


def carry_out(steps: Sequence[Step], recorder: Recorder, cache: Cache | None = None) -> Run:
    run = made(steps, recorder, cache)
    run.carry_out()
    return run


def test_needs_come_first_and_independent_steps_run_side_by_side() -> None:
    recorder = Recorder(meet="bc")
    after_a = [Step("b", "b", ("a",)), Step("c", "c", ("a",))]
    run = carry_out([Step("a", "a"), *after_a, Step("d", "d", ("b", "c"))], recorder)
    assert recorder.order[0] == "a"
    assert recorder.order[-1] == "d"
    assert recorder.beside["b"] == {"c"}
    assert run.result("d") == "D"


def test_a_step_that_measures_time_runs_alone() -> None:
    recorder = Recorder()
    alone = [Step(name, name, alone=True) for name in "bd"]
    carry_out([Step("a", "a"), alone[0], Step("c", "c"), alone[1]], recorder)
    assert recorder.beside["b"] == set()
    assert recorder.beside["d"] == set()


def test_a_failure_is_raised_and_nothing_starts_after_it() -> None:
    recorder = Recorder(fails="a")
    with pytest.raises(RuntimeError, match="a"):
        carry_out([Step("a", "a"), Step("b", "b", ("a",))], recorder)
    assert recorder.order == ["a"]


def test_a_failure_aborts_what_runs_beside_it() -> None:
    released = threading.Event()

    class Stuck(Recorder):
        def run(self, step: Step, progress: Progress) -> Any:
            if step.id == "stuck":
                assert released.wait(10)
                return ""
            raise RuntimeError("broken")

    start = time.monotonic()
    with pytest.raises(RuntimeError, match="broken"):
        made([Step("stuck", "s"), Step("broken", "b")], Stuck(), abort=released.set).carry_out()
    assert time.monotonic() - start < 5


def test_kept_steps_come_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path))
    steps = [Step("a", "a", kept=True), Step("b", "b", ("a",), {"x": 1}, kept=True)]
    carry_out(steps, Recorder(), Cache())
    again = Recorder()
    run = carry_out(steps, again, Cache())
    assert again.order == []
    assert run.result("b") == "B"
    changed = Recorder()
    carry_out([steps[0], Step("b", "b", ("a",), {"x": 2}, kept=True)], changed, Cache())
    assert changed.order == ["b"]


def test_a_step_that_tells_how_far_it_is_ends_where_another_fails() -> None:
    steps = [Step("fails", "failing"), Step("tells", "telling")]
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="fails"):
        carry_out(steps, Telling(fails="fails"))
    assert time.monotonic() - start < 10


class Full(Recorder):
    """A cache on a disk that is full."""

    def keep(self, key: str, result: Any, cache: Cache) -> None:
        raise MachineError("writing model.onnx: No space left on device", hint="Free some space.")


def test_a_full_cache_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path))
    cache = Cache()
    steps = [Step("a", "a", kept=True), Step("b", "b", ("a",))]
    assert carry_out(steps, Full(), cache).result("b") == "B"
    assert cache.trouble == "writing model.onnx: No space left on device"
    with cache.adding("abcd") as folder:  # it isn't tried again
        assert folder is None


@pytest.mark.parametrize("keep_going", [True, False])
def test_what_does_not_need_a_step_that_fails_goes_on(keep_going: bool) -> None:
    class Missing(Recorder):
        def run(self, step: Step, progress: Progress) -> Any:
            if step.id == "lower:int8":
                raise GateError(step.id)
            return super().run(step, progress)

    lower = Step("lower", "lowering", precision="int8", alone=True)
    steps = (
        lower,
        Step("emit", "", ("lower:int8",), precision="int8"),
        Step("emit", "", precision="fp32"),
    )
    run = made(steps, Missing(0.0), keep_going=keep_going)
    if keep_going:
        run.carry_out()
        assert list(run.done) == ["emit:fp32"]
    else:
        with pytest.raises(GateError, match="lower:int8"):
            run.carry_out()
    assert list(run.left) == ["lower:int8"]


def test_what_every_artifact_needs_is_never_left_out() -> None:
    class Failing(Recorder):
        def run(self, step: Step, progress: Progress) -> Any:
            raise ModelError("it can't be read")

    with pytest.raises(ModelError, match="can't be read"):
        made([Step("parse", "")], Failing(), keep_going=True).carry_out()
