"""Latency on a real model: what must hold whatever the machine does."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from converter.check.latency import LatencyPoint, batch_feeds, measure
from converter.errors import UsageError
from converter.ir.model import TensorSpec
from converter.machine import describe_machine
from converter.runtime.session import Timing
from converter.samples import Sample
from tests.check.tiny import classifier, open_model, samples
from tests.passes.models import ListedSamples


def check_order(point: LatencyPoint) -> None:
    times = [point.min_ms, point.p25_ms, point.p50_ms, point.p75_ms]
    times += [t for t in (point.p90_ms, point.p95_ms, point.p99_ms) if t is not None]
    times.append(point.max_ms)
    assert times == sorted(times) and times[0] > 0
    assert point.min_ms <= point.mean_ms <= point.max_ms
    assert point.rounds >= 3 and point.n >= point.rounds
    assert (point.p90_ms is None) == (point.n < 10)
    assert (point.p95_ms is None) == (point.n < 20)
    assert (point.p99_ms is None) == (point.n < 100)


def test_a_sweep_with_the_source_in_turns(tmp_path: Path) -> None:
    small, large = (open_model(tmp_path, classifier(width=width)) for width in (16, 1024))
    feeds = batch_feeds(samples(3), small.inputs, [1, 4])
    assert feeds[4]["x"].shape == (4, 16)
    result = measure(small, feeds, [1, 2], 0.3, source=small)
    points = product((1, 4), (1, 2), ("artifact", "source"))
    assert [(p.batch, p.concurrency, p.role) for p in result.points] == [*points]
    for point in result.points:
        check_order(point)
        assert point.name.startswith("onnxruntime ") and point.threads == 1
        share = point.batch * point.concurrency * 1000 / point.mean_ms
        assert 0 < point.throughput <= share * 1.05
    assert len(result.ratios) == 4 and len(result.artifact) == 4
    for ratio in result.ratios:
        assert 0 < ratio.low <= ratio.high and ratio.speedup > 0

    wide = batch_feeds(samples(2, width=1024), large.inputs, [64])
    slow = measure(large, wide, seconds=0.3).points[0]
    assert slow.p50_ms > result.points[0].p50_ms and slow.role == "artifact"


class Scripted:
    """A session whose runs take as long as it is told; the order of calls is kept."""

    inputs = outputs = ()
    runtime = {"name": "scripted", "version": "1", "threads": 1}  # noqa: RUF012

    def __init__(self, name: str, ms: float, calls: list[str], threads: int = 1) -> None:
        self.name, self.ns, self.calls = name, int(ms * 1e6), calls
        self.runtime = {"name": name, "version": "1", "threads": threads}

    def run(self, feeds: object) -> dict[str, np.ndarray]:
        return {}

    def time(self, feeds: object, runs: int, concurrency: int = 1) -> Timing:
        self.calls.append(self.name)
        return Timing((self.ns,) * (runs * concurrency), self.ns * runs)

    def close(self) -> None: ...


def test_rounds_alternate_and_numbers_follow() -> None:
    calls: list[str] = []
    ours, theirs = Scripted("ours", 1, calls), Scripted("theirs", 2, calls, threads=2)
    result = measure(ours, {4: {}}, [2], 1.0, source=theirs)
    rounds = result.points[0].rounds
    assert calls[-2 * rounds :] == ["ours", "theirs"] * rounds
    point, ratio = result.points[0], result.ratios[0]
    assert (point.p50_ms, point.p99_ms, point.iqr, point.run_to_run) == (1, 1, 0, 0)
    assert point.throughput == pytest.approx(8000)
    assert point.warm and (ratio.speedup, ratio.low, ratio.high) == (2, 2, 2)
    assert ratio.notes == ("1 threads against 2 of the source",)


def test_rounds_that_disagree_or_are_few_make_no_ratio() -> None:
    class Disturbed(Scripted):
        def time(self, feeds: object, runs: int, concurrency: int = 1) -> Timing:
            self.ns = int(self.ns * 1.6)
            return super().time(feeds, runs, concurrency)

    result = measure(Scripted("ours", 1, []), {1: {}}, source=Disturbed("theirs", 2, []))
    (ratio,) = result.ratios
    assert ratio.doubt == "unsteady" and ratio.notes[0].startswith("rounds range from ")
    even = measure(Scripted("ours", 1, []), {1: {}}, source=Scripted("theirs", 2, []))
    assert not even.ratios[0].doubt
    slow = Scripted("theirs", 400, [])
    (ratio,) = measure(Scripted("ours", 1, []), {1: {}}, seconds=2.0, source=slow).ratios
    assert ratio.runs == 3 and ratio.doubt == "too few runs"
    assert "3 runs are too few for a ratio: raise --bench-seconds" in ratio.notes


def test_the_time_is_kept_to_and_few_runs_are_said_to_be_few() -> None:
    point = measure(Scripted("slow", 400, []), {1: {}}, seconds=1.0).points[0]
    assert point.n == 3 and not point.warm
    assert point.p90_ms is None and point.p95_ms is None and point.p99_ms is None
    assert point.notes[0] == "only 3 runs: the tail is not known"
    point = measure(Scripted("s", 10, []), {1: {}}, seconds=2.0).points[0]
    assert (point.n + point.warmup_runs) * 10 <= 2100


@pytest.mark.parametrize(
    ("ms", "known"), [(60, "p90"), (48, "p90"), (20, "p90 p95"), (9, "p90 p95"), (5, "p90 p95 p99")]
)
def test_a_percentile_needs_a_run_beyond_it(ms: float, known: str) -> None:
    point = measure(Scripted("s", ms, []), {1: {}}, seconds=1.0).points[0]
    given = {"p90": point.p90_ms, "p95": point.p95_ms, "p99": point.p99_ms}
    assert [name for name, value in given.items() if value is not None] == known.split()
    assert (point.n < 20, point.n < 100) == ("p95" not in known, "p99" not in known)


def test_feeds_of_samples_that_cant_be_joined() -> None:
    inputs = (TensorSpec("x", "float32", ("batch", "n")), TensorSpec("k", "int64", ()))
    rows = [Sample(str(n), {"x": np.zeros((1, n)), "k": np.array(n)}) for n in (2, 3)]
    with pytest.raises(UsageError, match="can't be batched"):
        batch_feeds(ListedSamples(rows), inputs, [1, 2])
    feeds = batch_feeds(ListedSamples(rows[:1]), inputs, [1, 3])
    assert feeds[3]["x"].shape == (3, 2) and feeds[3]["k"].shape == ()
    with pytest.raises(UsageError, match="no samples"):
        batch_feeds(ListedSamples([]), inputs, [1])
    inputs = (TensorSpec("x", "float32", (1, 16)),)  # no batch: it is measured at one
    assert list(batch_feeds(samples(2), inputs, [4, 8])) == [1]


def test_the_machine_names_nobody() -> None:
    import getpass
    import platform

    machine = describe_machine()
    assert machine.usable > 0 and machine.os and machine.python == platform.python_version()
    text = repr(machine)
    assert platform.node() not in text or len(platform.node()) < 4
    assert f"'{getpass.getuser()}'" not in text
