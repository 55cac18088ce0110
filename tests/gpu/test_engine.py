"""Engines of small graphs: built, run and timed on the card."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter import plugins
from converter.errors import MachineError, ModelError, UnsupportedError, UsageError
from converter.ir.model import Model
from converter.options.recipe import make_request
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from tests.gpu.small import check, convolution, nonzero, pictures

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def _built(model: Model, target: str, folder: Path, **options: Any) -> tuple[Artifact, Request]:
    request = make_request({"source": "none", "max_batch": 8, "tf32": False, **options})
    return plugins.load("emitters", target).emit(model, folder, "fp32", request), request


@pytest.fixture(scope="module")
def artifact(target: str, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The engine of a convolution, for batches of 1 to 8."""
    return _built(convolution(), target, tmp_path_factory.mktemp("engine"))[0]


def _opened(artifact: Artifact, target: str, request: Request) -> Any:
    return closing(plugins.load("emitters", target).open(artifact, request))


@pytest.fixture(scope="module")
def session(artifact: Artifact, target: str) -> Iterator[Any]:
    """That engine, open."""
    with _opened(artifact, target, Request("none")) as opened:
        yield opened


def test_runs_an_engine_on_this_card(session: Any) -> None:
    """The first question: does the library run an engine here at all?"""
    assert session.runtime["device"]
    check(session, 1, 5, 8, 2, **CLOSE)
    assert session.layers()
    assert session.inputs[0].shape == ("batch", 3, 16, 16)
    assert session.outputs[0].shape == ("batch", 8, 16, 16)


def test_times_of_one_stream_and_of_several(session: Any) -> None:
    timing = session.time(pictures(4), 20)
    assert len(timing.ns) == 20
    assert all(0 < ns < 1e9 for ns in timing.ns)
    assert sum(timing.ns) <= timing.total_ns
    assert len(session.time(pictures(4), 20, concurrency=3).ns) == 60
    assert session.run(pictures(2))["y"].shape == (2, 8, 16, 16)


def test_a_cuda_graph(artifact: Artifact, target: str) -> None:
    with _opened(artifact, target, Request("none", cuda_graph=True)) as opened:
        assert len(opened.time(pictures(4), 20).ns) == 20
        assert opened.runtime["cuda_graph"] is True


def test_a_batch_outside_every_profile(session: Any) -> None:
    with pytest.raises(UsageError, match="optimization profiles"):
        session.run(pictures(9))


def test_an_output_sized_by_values(target: str, tmp_path: Path) -> None:
    try:
        artifact, request = _built(nonzero(), target, tmp_path)
    except UnsupportedError as error:
        pytest.skip(str(error))
    with _opened(artifact, target, request) as opened:
        for count in (3, 0, 5):
            x = np.zeros((2, 8), np.float32)
            x.flat[:count] = 1
            np.testing.assert_array_equal(opened.run({"x": x})["y"], np.array(np.nonzero(x)))


def test_several_profiles(target: str, tmp_path: Path) -> None:
    shapes = ["x:1x3x16x16,1x3x16x16,1x3x16x16", "x:4x3x16x16,8x3x16x16,8x3x16x16"]
    artifact, request = _built(convolution(), target, tmp_path, shapes=shapes)
    with _opened(artifact, target, request) as opened:
        assert opened.runtime["profiles"] == 2
        check(opened, 8, 1, 4, **CLOSE)
        with pytest.raises(UsageError, match="profile 1"):
            opened.run(pictures(2))


def test_a_damaged_plan(artifact: Artifact, target: str, tmp_path: Path) -> None:
    contents = bytearray(artifact.path.read_bytes())
    contents[len(contents) // 2 :] = bytes(len(contents) - len(contents) // 2)
    broken = tmp_path / "model.plan"
    broken.write_bytes(contents)
    damaged = Artifact(target, "fp32", broken, [broken])
    with pytest.raises((ModelError, MachineError)):
        plugins.load("emitters", target).open(damaged, Request("none")).run(pictures(1))
