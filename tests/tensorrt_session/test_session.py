"""EngineSession against the stand-ins: what a GPU isn't needed for to be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.errors import DependencyError, MachineError, ModelError, UsageError
from converter.ort import OrtSession
from converter.request import Request
from emitters.tensorrt.session import EngineSession
from tests.gpu.small import convolution, loop, nonzero
from tests.tensorrt_session.conftest import LIBRARY, Open, write_plan

Array = np.ndarray[Any, Any]


def _profile(*batches: int) -> dict[str, Any]:
    return {"x": [[batch, 3, 16, 16] for batch in batches]}


def _pictures(batch: int) -> dict[str, Array]:
    rng = np.random.default_rng(batch)
    return {"x": rng.standard_normal((batch, 3, 16, 16)).astype(np.float32)}


def test_runs_one_shape_after_another(open_plan: Open) -> None:
    session = open_plan(convolution(), [_profile(1, 4, 8)])
    reference = OrtSession(convolution().graph)
    for batch in (1, 8, 3):  # memory grows, and then is larger than needed
        feeds = _pictures(batch)
        np.testing.assert_allclose(session.run(feeds)["y"], reference.run(feeds)["y"], rtol=1e-6)


def test_tells_what_runs(open_plan: Open) -> None:
    session = open_plan(convolution(), [_profile(1, 4, 8)])
    assert session.inputs[0].describe() == "float32[batch, 3, 16, 16]"
    assert session.outputs[0].describe() == "float32[batch, 8, 16, 16]"
    runtime = session.runtime
    assert (runtime["name"], runtime["version"]) == ("tensorrt", "10.16.1.11")
    assert runtime["device"] == "stand-in (9.0)"
    assert runtime["driver"] == "CUDA 13.0"
    assert session.layers() == [{"Name": "conv"}]


def test_changes_profiles(open_plan: Open) -> None:
    session = open_plan(convolution(), [_profile(1, 1, 1), _profile(4, 8, 8)])
    reference = OrtSession(convolution().graph)
    for batch in (8, 1, 4):
        feeds = _pictures(batch)
        np.testing.assert_allclose(session.run(feeds)["y"], reference.run(feeds)["y"], rtol=1e-6)
    with pytest.raises(UsageError) as caught:
        session.run(_pictures(2))
    assert "profile 1: x is 2x3x16x16, it takes 4x3x16x16 to 8x3x16x16" in caught.value.details
    assert session.run(_pictures(1))["y"].shape == (1, 8, 16, 16)  # it goes on after a refusal


def test_an_output_sized_by_values(open_plan: Open) -> None:
    profile = {"x": [[1, 8], [2, 8], [4, 8]]}
    session = open_plan(nonzero(), [profile])
    for count in (3, 0, 9):
        x = np.zeros((2, 8), np.float32)
        x.flat[:count] = 1
        np.testing.assert_array_equal(session.run({"x": x})["y"], np.array(np.nonzero(x)))


@pytest.mark.parametrize("concurrency", [1, 3])
def test_times_every_run(open_plan: Open, concurrency: int) -> None:
    session = open_plan(convolution(), [_profile(1, 4, 8)])
    timing = session.time(_pictures(4), 5, concurrency)
    assert len(timing.ns) == 5 * concurrency
    assert all(ns > 0 for ns in timing.ns)
    assert max(timing.ns) <= timing.total_ns
    assert session.runtime["cuda_graph"] is False


def test_replays_a_graph(open_plan: Open) -> None:
    session = open_plan(convolution(), [_profile(1, 4, 8)], cuda_graph=True)
    session.time(_pictures(4), 3)
    assert session.runtime["cuda_graph"] is True
    reference = OrtSession(convolution().graph)
    feeds = _pictures(2)  # another shape ends the graph
    np.testing.assert_allclose(session.run(feeds)["y"], reference.run(feeds)["y"], rtol=1e-6)


def test_no_graph_where_sizes_depend_on_values(open_plan: Open) -> None:
    session = open_plan(nonzero(), [{"x": [[1, 8], [2, 8], [4, 8]]}], cuda_graph=True)
    session.time({"x": np.ones((2, 8), np.float32)}, 3)
    assert session.runtime["cuda_graph"] is False


def test_no_graph_where_the_library_waits(open_plan: Open) -> None:
    session = open_plan(loop(), [{"x": [[1, 8], [2, 8], [4, 8]]}], cuda_graph=True)
    x = {"x": np.ones((2, 8), np.float32)}
    assert len(session.time(x, 3).ns) == 3
    assert session.runtime["cuda_graph"] is False
    np.testing.assert_array_equal(session.run(x)["y"], 4 * x["x"])


def test_wrong_inputs(open_plan: Open) -> None:
    session = open_plan(convolution(), [_profile(1, 4, 8)])
    with pytest.raises(UsageError, match="the input x is missing"):
        session.run({})
    with pytest.raises(UsageError, match="x is float64, it takes float32"):
        session.run({"x": _pictures(1)["x"].astype(np.float64)})


def test_too_little_memory(open_plan: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_MEMORY", "20000")
    session = open_plan(convolution(), [_profile(1, 4, 8)])
    with pytest.raises(MachineError, match="the GPU's memory is spent"):
        session.run(_pictures(8))
    assert session.run(_pictures(1))["y"].shape == (1, 8, 16, 16)


def test_a_damaged_plan(stand_ins: None, tmp_path: Path) -> None:
    plan = tmp_path / "model.plan"
    plan.write_bytes(b"\x00 no plan")
    with pytest.raises(ModelError) as caught:
        EngineSession(plan, LIBRARY, Request("none"))
    assert "error: magic tag does not match" in caught.value.details


def test_no_device(stand_ins: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STAND_IN_NO_DEVICE", "1")
    plan = write_plan(tmp_path / "model.plan", convolution(), [])
    with pytest.raises(DependencyError, match="no usable GPU"):
        EngineSession(plan, LIBRARY, Request("none"))
