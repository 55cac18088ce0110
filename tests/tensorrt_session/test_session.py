"""EngineSession against the stand-ins: what a GPU isn't needed for to be wrong."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from converter.errors import DependencyError, MachineError, ModelError, UsageError
from converter.ir.model import Model
from converter.options.request import Request
from emitters.tensorrt.cuda import Device
from emitters.tensorrt.engine import Engine
from emitters.tensorrt.session import EngineSession
from tests.gpu.small import check, convolution, loop, nonzero, pictures
from tests.serving.models import text_model
from tests.tensorrt_session.conftest import LIBRARY, Open, write_plan

BATCHES = [{"x": [[batch, 3, 16, 16] for batch in (1, 4, 8)]}]
SMALL = [{"x": [[1, 8], [2, 8], [4, 8]]}]


def test_runs_one_shape_after_another_and_tells_what_runs(open_plan: Open) -> None:
    session = open_plan(convolution(), BATCHES)
    check(session, 1, 8, 3, rtol=1e-6)  # memory grows, and is then more than needed
    assert session.inputs[0].describe() == "float32[batch, 3, 16, 16]"
    assert session.outputs[0].describe() == "float32[batch, 8, 16, 16]"
    runtime = session.runtime
    assert (runtime["name"], runtime["version"]) == ("tensorrt", "10.16.1.11")
    assert runtime["device"] == "stand-in (9.0)"
    assert runtime["driver"] == "CUDA 13.0"
    assert session.layers() == [{"Name": "conv"}]


def test_changes_profiles(open_plan: Open) -> None:
    profiles = [{"x": [[batch, 3, 16, 16] for batch in ends]} for ends in ((1, 1, 1), (4, 8, 8))]
    session = open_plan(convolution(), profiles)
    check(session, 8, 1, 4, rtol=1e-6)
    with pytest.raises(UsageError) as caught:
        session.run(pictures(2))
    assert "profile 1: x is 2x3x16x16, it takes 4x3x16x16 to 8x3x16x16" in caught.value.details
    assert session.run(pictures(1))["y"].shape == (1, 8, 16, 16)  # it goes on after a refusal


def test_an_output_sized_by_values(open_plan: Open) -> None:
    session = open_plan(nonzero(), SMALL)
    for count in (3, 0, 9):
        x = np.zeros((2, 8), np.float32)
        x.flat[:count] = 1
        np.testing.assert_array_equal(session.run({"x": x})["y"], np.array(np.nonzero(x)))


def test_what_decides_shapes_is_read_on_the_host(open_plan: Open) -> None:
    model = text_model("g (float[4] x, int64[2] s) => (float[m, n] y) { y = Reshape(x, s) }")
    session, x = open_plan(model), np.arange(4, dtype=np.float32)
    for sizes in ([2, 2], [4, 1]):
        given = {"x": x, "s": np.array(sizes, np.int64)}
        np.testing.assert_array_equal(session.run(given)["y"], x.reshape(sizes))


@pytest.mark.parametrize("concurrency", [1, 3])
def test_times_every_run(open_plan: Open, concurrency: int) -> None:
    session = open_plan(convolution(), BATCHES)
    timing = session.time(pictures(4), 5, concurrency)
    assert len(timing.ns) == 5 * concurrency
    assert all(ns > 0 for ns in timing.ns)
    assert max(timing.ns) <= timing.total_ns
    assert session.runtime["cuda_graph"] is False


def test_replays_a_graph(open_plan: Open) -> None:
    session = open_plan(convolution(), BATCHES, cuda_graph=True)
    session.time(pictures(4), 3)
    assert session.runtime["cuda_graph"] is True
    check(session, 2, rtol=1e-6)  # another shape ends the graph


@pytest.mark.parametrize("make", [nonzero, loop])
def test_no_graph_where_sizes_depend_on_values_or_the_library_waits(
    open_plan: Open, make: Callable[[], Model]
) -> None:
    session, x = open_plan(make(), SMALL, cuda_graph=True), np.ones((2, 8), np.float32)
    assert len(session.time({"x": x}, 3).ns) == 3
    assert session.runtime["cuda_graph"] is False
    if make is loop:
        np.testing.assert_array_equal(session.run({"x": x})["y"], 4 * x)


def test_wrong_inputs(open_plan: Open) -> None:
    session = open_plan(convolution(), BATCHES)
    with pytest.raises(UsageError, match="the input x is missing"):
        session.run({})
    with pytest.raises(UsageError, match="x is float64, but the engine takes float32"):
        session.run({"x": pictures(1)["x"].astype(np.float64)})


def test_too_little_memory(open_plan: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_MEMORY", "20000")
    session = open_plan(convolution(), BATCHES)
    with pytest.raises(MachineError, match="the GPU's memory is full"):
        session.run(pictures(8))
    assert session.run(pictures(1))["y"].shape == (1, 8, 16, 16)


def test_a_damaged_plan_and_no_device(stand_ins: None, monkeypatch: pytest.MonkeyPatch,
                                      tmp_path: Path) -> None:  # fmt: skip
    plan = tmp_path / "model.plan"
    plan.write_bytes(b"\x00 no plan")
    with pytest.raises(ModelError) as caught:
        EngineSession(plan, LIBRARY, Request("none"))
    assert "error: magic tag does not match" in caught.value.details
    monkeypatch.setenv("STAND_IN_NO_DEVICE", "1")
    write_plan(plan, convolution(), [])
    with pytest.raises(DependencyError, match="no usable GPU"):
        EngineSession(plan, LIBRARY, Request("none"))


DEVICE = Device(0, "no device", "9.0", 0, "13.0", None)


@pytest.mark.parametrize(("library", "kind", "says"), [
    ("tensorrt_rtx", ModelError, r"refuses the engine model\.plan: MALFORMED_ENGINE"),
    ("tensorrt_absent", DependencyError, "needs the Python package tensorrt_absent"),
])  # fmt: skip
def test_what_the_library_itself_refuses(tmp_path: Path, library: str, kind: type[Exception],
                                         says: str) -> None:  # fmt: skip
    plan = tmp_path / "model.plan"
    plan.write_bytes(b"no engine at all" * 10)
    with pytest.raises(kind, match=says):
        Engine(plan, library, DEVICE, cuda_graph=False, runtime_cache=None)
