"""The executor: order, side by side, alone, the cache, failures."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from converter.cache import Cache
from converter.errors import MachineError
from converter.plan import Plan, Step
from converter.plugins import Progress
from converter.run import Run, Silent


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


def carry_out(steps: list[Step], recorder: Recorder, cache: Cache | None = None) -> Run:
    actions = {step.kind: recorder for step in steps}
    run = Run(Plan(tuple(steps)), actions, cache or Cache(False), Silent(), lambda: None)
    run.carry_out()
    return run


def test_needs_come_first_and_independent_steps_run_side_by_side() -> None:
    recorder = Recorder(meet="bc")
    run = carry_out(
        [
            Step("a", "a"),
            Step("b", "b", ("a",)),
            Step("c", "c", ("a",)),
            Step("d", "d", ("b", "c")),
        ],
        recorder,
    )
    assert recorder.order[0] == "a"
    assert recorder.order[-1] == "d"
    assert recorder.beside["b"] == {"c"}
    assert run.result("d") == "D"


def test_a_step_that_measures_time_runs_alone() -> None:
    recorder = Recorder()
    carry_out(
        [Step("a", "a"), Step("b", "b", alone=True), Step("c", "c"), Step("d", "d", alone=True)],
        recorder,
    )
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

    stuck = Stuck()
    steps = [Step("stuck", "s"), Step("broken", "b")]
    actions = {step.kind: stuck for step in steps}
    run = Run(Plan(tuple(steps)), actions, Cache(False), Silent(), released.set)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="broken"):
        run.carry_out()
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


def test_a_full_cache_says_that_it_is_the_cache() -> None:
    with pytest.raises(MachineError, match=r"what simplifying gave in the cache, .*: writing") as e:
        carry_out([Step("simplify", "simplifying", kept=True)], Full())
    assert "--no-cache" in e.value.hint
