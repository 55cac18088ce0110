"""Engines as artifacts: what lies beside them, what is refused, what is run where no GPU is."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from converter.errors import DependencyError, ModelError
from converter.precision.calibrate.ranges import collect
from converter.precision.int8.insert import quantize
from converter.protocols.emitter import Artifact
from converter.runtime.ort import OrtSession
from emitters.tensorrt import emitter
from emitters.tensorrt.emitter import FACTS, GRAPH, LOG, PLAN, TensorrtEmitter, TensorrtRtxEmitter
from emitters.tensorrt.libraries import find, has_gpu
from emitters.tensorrt.stand_in import StandIn
from tests.quantize.small import correlated
from tests.serving.models import text_model
from tests.tensorrt.models import HALF, conv_model, request, saved, typed

pytestmark = pytest.mark.skipif(has_gpu(), reason="it is about machines without a GPU")


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder = tmp_path_factory.mktemp("fp16")
    return TensorrtRtxEmitter().emit(conv_model(HALF), folder, "fp16", request())


@pytest.fixture
def kept(artifact: Artifact) -> Iterator[Artifact]:
    """The artifact, put right again after a test that damages it."""
    before = {path: path.read_bytes() for path in artifact.path.parent.iterdir()}
    yield artifact
    for path, content in before.items():
        path.write_bytes(content)


def feeds(batch: int = 2) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    return {"x": np.random.default_rng(1).normal(size=(batch, 3, 16, 16)).astype(np.float32)}


def test_what_an_artifact_is(artifact: Artifact) -> None:
    folder = artifact.path.parent
    assert sorted(path.name for path in folder.iterdir()) == sorted((PLAN, GRAPH, LOG, FACTS))
    assert artifact.path.name == PLAN and artifact.details["engine"] == "built"
    assert artifact.details["library"] == f"tensorrt-rtx {find('tensorrt-rtx').version}"
    assert artifact.details["compute_capabilities"] == ["8.6", "8.9", "12.0"]
    assert artifact.details["requested_precision"]["float16"] == {"layers": 2, "macs": 1.0}
    assert artifact.details["decisions"] == [
        "requested precision: 100.0% of the multiply-adds float16 (2 layers)",
        "profile 0: x 1x3x16x16, 8x3x16x16, 8x3x16x16",
    ]
    assert json.loads((folder / FACTS).read_text())["layers"]


def test_two_artifacts_are_the_same_bytes(artifact: Artifact, tmp_path: Path) -> None:
    other = TensorrtRtxEmitter().emit(conv_model(HALF), tmp_path, "fp16", request())
    for path in other.path.parent.iterdir():
        assert path.read_bytes() == (artifact.path.parent / path.name).read_bytes(), path.name


@pytest.mark.parametrize("precision", ["fp16", "bf16", "int8"])
def test_a_float32_network_is_told_as_one(tmp_path: Path, precision: str) -> None:
    """Whatever the request called it, built here or deferred: it is then said to be unlowered."""
    for kind in (TensorrtRtxEmitter, TensorrtEmitter):
        made = kind().emit(conv_model(), tmp_path / kind.__name__, precision, request())
        assert made.details["requested_precision"] == {"float32": {"layers": 2, "macs": 1.0}}
    made = TensorrtEmitter().emit(conv_model(HALF), tmp_path / "half", precision, request())
    assert made.details["engine"] == "deferred"
    assert made.details["requested_precision"] == {"float16": {"layers": 2, "macs": 1.0}}


def test_int8_is_the_graphs_own_scales(tmp_path: Path) -> None:
    model, scheme = conv_model(casts=False), TensorrtRtxEmitter.scheme
    ranges = collect(model, correlated({"x": (1, 3, 16, 16)}), few=True)
    lowered = quantize(model, ranges, scheme, method="minmax")
    for kind in (TensorrtRtxEmitter, TensorrtEmitter):
        made = kind().emit(lowered.model, tmp_path / kind.__name__, "int8", request())
        assert made.details["requested_precision"]["int8"]["macs"] == 1.0


def test_the_typed_graph_stands_in_and_says_so(artifact: Artifact) -> None:
    session = TensorrtRtxEmitter().open(artifact, request())
    assert isinstance(session, StandIn)
    assert session.runtime["stands_for"] == PLAN
    assert "no GPU" in session.runtime["not_run"]
    assert session.runtime["runs"].startswith("the typed graph")
    with pytest.raises(DependencyError, match=r"model\.plan can't be measured here"):
        session.time(feeds(), 1)
    found = session.run(feeds())["y"]
    expected = OrtSession(conv_model().graph).run(feeds())["y"]
    assert found.dtype == np.float32 and 0 < np.abs(found - expected).max() < 0.02
    session.close()


def test_bfloat16_stands_in_too(tmp_path: Path) -> None:
    body = "g (float[batch, 8] x) => (float[batch, 8] y) { a = Cast<to=16>(x) b = Mul(a, a) "
    model = text_model(body + "y = Cast<to=1>(b) }")
    session = StandIn(saved(typed(model), tmp_path), "x", "why", None)
    x = np.linspace(0.1, 1, 8, dtype=np.float32)[None]
    found = session.run({"x": x})["y"]
    import ml_dtypes

    rounded = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(
        found, (rounded * rounded).astype(ml_dtypes.bfloat16).astype(np.float32)
    )


@pytest.mark.parametrize("name", [PLAN, GRAPH])
def test_a_stand_in_of_another_engine_is_refused(kept: Artifact, name: str) -> None:
    path = kept.path.with_name(name)
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="changed since the engine was built"):
        TensorrtRtxEmitter().open(kept, request())


def test_an_engine_alone_cannot_be_run(kept: Artifact) -> None:
    alone = kept.path.parent / "alone" / PLAN
    alone.parent.mkdir()
    alone.write_bytes(kept.path.read_bytes())
    with pytest.raises(DependencyError, match="no GPU here"):
        TensorrtRtxEmitter().open(replace(kept, path=alone), request())
    alone.write_bytes(alone.read_bytes()[:100])
    with pytest.raises(ModelError, match="damaged"):
        TensorrtRtxEmitter().open(replace(kept, path=alone), request())
    alone.unlink()
    alone.parent.rmdir()


def test_weights_beside_the_graph_are_held_to_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emitter, "APART", 1000)
    made = TensorrtRtxEmitter().emit(conv_model(), tmp_path, "fp32", request())
    data = tmp_path / f"{GRAPH}.data"
    assert data.is_file()
    TensorrtRtxEmitter().open(made, request()).close()
    with data.open("r+b") as file:
        file.write(b"\x01\x02\x03")
    with pytest.raises(ModelError, match="changed since"):
        TensorrtRtxEmitter().open(made, request())
