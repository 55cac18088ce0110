"""The executor: order, side by side, alone, the cache, failures."""

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from converter.errors import GateError, MachineError, ModelError
from converter.pipeline.cache import Cache
from converter.pipeline.plan import Plan, Step
from converter.pipeline.run import Run, Silent, carry_out
from converter.runtime.session import Progress

Acts = Mapping[str, Callable[[Progress], object]]


class Recorder:
    """An action that notes what runs beside what; some steps do something else, by their id."""

    def __init__(self, acts: Acts | None = None) -> None:
        self.acts = acts or {}
        self.running: set[str] = set()
        self.beside: dict[str, set[str]] = {}
        self.order: list[str] = []
        self._lock = threading.Lock()

    def run(self, step: Step, progress: Progress) -> Any:
        with self._lock:
            self.order.append(step.id)
            for other in self.running:
                self.beside.setdefault(other, set()).add(step.id)
            self.beside.setdefault(step.id, set()).update(self.running)
            self.running.add(step.id)
        self.acts.get(step.id, lambda progress: time.sleep(0.05))(progress)
        with self._lock:
            self.running.discard(step.id)
        return step.id.upper()

    def known(self, step: Step, needs: list[str]) -> str:
        return step.key(needs, {})

    def found(self, result: Any) -> None:
        assert result

    def key(self, step: Step, needs: list[str], result: Any) -> str:
        return step.key(needs, {})

    def find(self, step: Step, needs: list[str], cache: Cache) -> tuple[str, Any] | None:
        entry = cache.find(step.key(needs, {}))
        return (step.key(needs, {}), (entry / "result").read_text()) if entry else None

    def keep(self, key: str, result: Any, cache: Cache) -> None:
        with cache.adding(key) as folder:
            if folder is not None:
                (folder / "result").write_text(result)


def made(
    *steps: Step,
    recorder: Recorder | None = None,
    cache: Cache | None = None,
    abort: Callable[[], object] = lambda: None,
    **how: Any,
) -> Run:
    """A run of these steps, which is to be carried out."""
    actions = {step.kind: recorder or Recorder() for step in steps}
    return Run(Plan(steps), actions, cache or Cache(False), Silent(), abort, **how)


def raising(error: Exception) -> Callable[[Progress], object]:
    def act(progress: Progress) -> None:
        time.sleep(0.2)  # what runs beside it has begun
        raise error

    return act


def test_needs_come_first_and_independent_steps_run_side_by_side() -> None:
    both = threading.Barrier(2, timeout=30)  # neither goes on before the other has started
    recorder = Recorder(dict.fromkeys("bc", lambda progress: both.wait()))
    after_a = [Step("b", "b", ("a",)), Step("c", "c", ("a",))]
    run = made(Step("a", "a"), *after_a, Step("d", "d", ("b", "c")), recorder=recorder)
    run.carry_out()
    assert recorder.order[0] == "a"
    assert recorder.order[-1] == "d"
    assert recorder.beside["b"] == {"c"}
    assert run.result("d") == "D"


def test_a_step_that_measures_time_runs_alone() -> None:
    recorder = Recorder()
    steps = [Step(name, name, alone=name in "bd") for name in "abcd"]
    made(*steps, recorder=recorder).carry_out()
    assert recorder.beside["b"] == set()
    assert recorder.beside["d"] == set()


def test_beside_what_has_threads_for_every_core_only_light_steps_run() -> None:
    recorder = Recorder()
    steps = [Step("a", "a", threaded=True), Step("b", "b", threaded=True),
             Step("c", "c"), Step("d", "d", light=True)]  # fmt: skip
    made(*steps, recorder=recorder).carry_out()
    assert recorder.beside["a"] <= {"d"} and recorder.beside["b"] <= {"d"}
    assert recorder.beside["d"] and recorder.beside["c"] <= {"d"}


def test_a_failure_is_raised_and_nothing_starts_after_it() -> None:
    recorder = Recorder({"a": raising(RuntimeError("a"))})
    with pytest.raises(RuntimeError, match="a"):
        made(Step("a", "a"), Step("b", "b", ("a",)), recorder=recorder).carry_out()
    assert recorder.order == ["a"]


def telling(progress: Progress) -> None:
    """Says how far it is, for a minute."""
    for number in range(600):
        progress(str(number))
        time.sleep(0.1)


@pytest.mark.parametrize("how", ["is aborted", "tells how far it is"])
def test_a_failure_ends_what_runs_beside_it(how: str) -> None:
    released = threading.Event()
    long = telling if "tells" in how else lambda progress: released.wait(60)
    recorder = Recorder({"long": long, "fails": raising(RuntimeError("broken"))})
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="broken"):
        made(
            Step("fails", "f"), Step("long", "l"), recorder=recorder, abort=released.set
        ).carry_out()
    assert time.monotonic() - start < 10


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path))
    return Cache()


@pytest.mark.usefixtures("cache")
def test_kept_steps_come_from_the_cache() -> None:
    first, second = Step("a", "a", kept=True), Step("b", "b", ("a",), {"x": 1}, kept=True)
    changed = Step("b", "b", ("a",), {"x": 2}, kept=True)
    for steps, wanted in (
        ((first, second), ["a", "b"]),
        ((first, second), []),
        ((first, changed), ["b"]),
    ):
        recorder = Recorder()
        run = made(*steps, recorder=recorder, cache=Cache())
        run.carry_out()
        assert recorder.order == wanted
        assert run.result("b") == "B"


def test_a_full_cache_is_given_up(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise MachineError("writing model.onnx: No space left on device", hint="Free some space.")

    monkeypatch.setattr(Recorder, "keep", full)
    run = made(Step("a", "a", kept=True), Step("b", "b", ("a",)), cache=cache)
    run.carry_out()
    assert run.result("b") == "B"
    assert cache.trouble == "writing model.onnx: No space left on device"
    with cache.adding("abcd") as folder:  # it isn't tried again
        assert folder is None


@pytest.mark.parametrize("keep_going", [True, False])
def test_what_does_not_need_a_step_that_fails_goes_on(keep_going: bool) -> None:
    run = made(
        Step("quantize", "quantizing", precision="int8", alone=True),
        Step("emit", "", ("quantize:int8",), precision="int8"),
        Step("emit", "", precision="fp32"),
        recorder=Recorder({"quantize:int8": raising(GateError("quantize:int8"))}),
        keep_going=keep_going,
    )
    if keep_going:
        run.carry_out()
        assert list(run.done) == ["emit:fp32"]
    else:
        with pytest.raises(GateError, match="quantize:int8"):
            run.carry_out()
    assert list(run.left) == ["quantize:int8"]


def test_what_every_artifact_needs_is_never_left_out() -> None:
    failing = Recorder({"parse": raising(ModelError("it can't be read"))})
    with pytest.raises(ModelError, match="can't be read"):
        made(Step("parse", ""), recorder=failing, keep_going=True).carry_out()


def test_what_two_parts_have_in_common_is_done_once() -> None:
    """While one part is at it, the other waits; what fails in one is tried by the other."""
    recorder, recorders = Recorder(), {}
    runs = []
    for part, last in (("one", "x"), ("two", "y")):
        steps = (
            Step("a", "a", kept=True),
            Step("b", "b", ("a",), kept=True),
            Step(last, "", ("b",)),
        )
        recorders[part] = Recorder()
        actions = {"a": recorder, "b": recorder, last: recorders[part]}
        runs.append(Run(Plan(steps), actions, Cache(False), Silent(), lambda: None, part=part))
    carry_out(runs)
    assert recorder.order == ["a", "b"]
    assert [run.result("b") for run in runs] == ["B", "B"]
    assert recorders["one"].order == ["x"] and recorders["two"].order == ["y"]
    assert runs[1].done["a"].seconds == 0


def test_a_part_that_fails_fails_alone_where_the_run_goes_on() -> None:
    def runs(**how: Any) -> tuple[Run, Run]:
        bad = Recorder({"a": raising(ModelError("no"))})
        one = Run(Plan((Step("a", "a"), Step("b", "b", ("a",)))), dict.fromkeys("ab", bad),
                  Cache(False), Silent(), lambda: None, part="one", **how)  # fmt: skip
        two = Run(Plan((Step("c", "c"), Step("d", "d", ("c",)))), dict.fromkeys("cd", Recorder()),
                  Cache(False), Silent(), lambda: None, part="two", **how)  # fmt: skip
        return one, two

    one, two = runs(keep_going=True)
    carry_out([one, two])
    assert one.failed is not None and [*one.done] == [] and [*two.done] == ["c", "d"]
    with pytest.raises(ModelError) as raised:
        carry_out(runs())
    assert raised.value.message == "one: no"


def test_a_part_stays_failed_where_a_step_that_may_fail_does_so_later() -> None:
    def later(progress: Progress) -> None:
        time.sleep(0.4)
        raise GateError("later")

    acts = Recorder({"package": raising(ModelError("first")), "emit": later})
    steps = (Step("package", ""), Step("emit", ""), Step("check", "", ("emit",)))
    one = Run(Plan(steps), dict.fromkeys(("package", "emit", "check"), acts), Cache(False),
              Silent(), lambda: None, part="one", keep_going=True)  # fmt: skip
    two = Run(Plan((Step("c", "c"),)), {"c": Recorder()}, Cache(False), Silent(), lambda: None,
              part="two", keep_going=True)  # fmt: skip
    carry_out([one, two])
    assert str(one.failed) == "first" and [*one.left] == ["package", "emit"]
    assert not one.waiting(()) and [*two.done] == ["c"]


class Queue:
    """Runs that join where at most ``room`` are at work."""

    def __init__(self, runs: list[Run], room: int) -> None:
        self.left, self.room = runs, room
        self.open = self.most = 0

    def take(self) -> Run | None:
        if not self.left or self.open == self.room:
            return None
        self.open += 1
        self.most = max(self.most, self.open)
        run = self.left.pop(0)
        run.end = self.ended
        return run

    def ended(self) -> None:
        self.open -= 1

    def keeps(self, run: Run) -> bool:
        return bool(self.left or self.open)


def apart(name: str, recorder: Recorder, own: Recorder | None = None, **how: Any) -> Run:
    """A run that others go on without: a step that all have, and one of its own."""
    steps = (Step("a", "a", kept=True), Step(name, "", ("a",)))
    actions = {"a": recorder, name: own or recorder}
    return Run(Plan(steps), actions, Cache(False), Silent(), lambda: None, part=name, apart=True,
               **how)  # fmt: skip


def test_runs_join_as_there_is_room_and_do_once_what_they_share() -> None:
    recorder = Recorder()
    runs = [apart(name, recorder) for name in "vwxyz"]
    queue = Queue([*runs], 2)
    carry_out([], queue)
    assert sorted(recorder.order) == ["a", *"vwxyz"]
    assert (queue.most, queue.open, queue.left) == (2, 0, [])
    assert all(run.result("a") == "A" for run in runs)


@pytest.mark.parametrize(
    "error", [GateError("no"), MachineError("no"), RuntimeError("no")], ids=str
)
def test_a_run_apart_fails_alone_whatever_it_fails_with(error: Exception) -> None:
    bad = apart("bad", Recorder({"a": raising(error)}))
    empty = Run(Plan(()), {}, Cache(False), Silent(), lambda: None, part="empty", apart=True)
    good = [apart(name, Recorder()) for name in "xy"]
    queue = Queue([bad, empty, *good], 2)
    carry_out([], queue)
    assert bad.failed is not None and "no" in bad.failed.message
    assert bad.failed is error or bad.failed.__cause__ is error
    assert all([*run.done] == ["a", run.part] for run in good) and queue.open == 0


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a priority on Linux alone")
def test_what_keeps_results_gives_way_whatever_the_priority_is(tmp_path: Path) -> None:
    seen: list[int] = []

    class Keeper(Recorder):
        def keep(self, key: str, result: Any, cache: Cache) -> None:
            seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    def low() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 15)
        made(Step("a", "a", kept=True), recorder=Keeper()).carry_out()

    thread = threading.Thread(target=low)
    thread.start()
    thread.join()
    assert seen == [19]
