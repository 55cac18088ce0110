"""A TFLite file as a source: its Model, its reference, and a whole conversion."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter import api
from converter.errors import ModelError, UnsupportedError, UsageError
from converter.ir import Model
from converter.ort import OrtSession
from converter.plugins import Session
from converter.request import Request
from parsers.tflite import TfliteParser
from parsers.tflite_source import TfliteSource
from tests.tflite.build import File, adder, counter
from tests.tflite.litert import Stepped
from tests.tflite.real import real_file

Array = np.ndarray[Any, Any]

Open = Callable[..., TfliteSource]


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Open]:
    """Opens files as sources, and closes them."""
    opened: list[TfliteSource] = []

    def opening(path: Path | File, **options: Any) -> TfliteSource:
        if isinstance(path, File):
            content = path.content()
            path = tmp_path / "test.tflite"
            path.write_bytes(content)
        request = Request(str(path), **options)
        made = TfliteParser().open(request, tmp_path, lambda text: None)
        opened.append(made)
        return made

    yield opening
    for made in opened:
        made.close()


def _random(model: Model, batch: int = 1) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    shapes = {spec: spec.sized({"batch": batch}) for spec in model.inputs}
    return {
        spec.name: rng.random(shape).astype(np.float32)
        if spec.is_float
        else rng.integers(-128, 128, shape).astype(spec.dtype)
        for spec, shape in shapes.items()
    }


def _compare(model: Model, reference: Session, feeds: Mapping[str, Array], within: float) -> None:
    ours, theirs = OrtSession(model.graph).run(feeds), reference.run(feeds)
    assert list(ours) == list(theirs) == [spec.name for spec in model.outputs]
    for name, value in theirs.items():
        assert value.shape == ours[name].shape
        assert value.dtype == ours[name].dtype
        worst = np.abs(value.astype(np.float64) - ours[name]).max()
        assert worst <= within, name


# -- what it is --------------------------------------------------------------------------


def test_files_are_known_by_their_contents(tmp_path: Path) -> None:
    parser = TfliteParser()
    plain = tmp_path / "model.bin"
    plain.write_bytes(real_file("alexa").read_bytes())
    assert parser.sniff(str(plain))
    assert parser.sniff("anything.tflite")
    plain.write_bytes(b"0123TFL4")
    assert not parser.sniff(str(plain))
    assert not parser.sniff(str(tmp_path))


def test_identity(tmp_path: Path) -> None:
    path = real_file("alexa")
    found = TfliteParser().identify(Request(str(path)))
    assert (found.name, found.format, dict(found.files)) == ("alexa", "tflite", {path.name: path})
    assert set(found.versions) == {"ai-edge-litert", "flatbuffers"}
    with pytest.raises(UsageError, match=r"reading none\.tflite"):
        TfliteParser().identify(Request(str(tmp_path / "none.tflite")))
    with pytest.raises(UsageError, match="--weights"):
        TfliteParser().identify(Request(str(path), weights="w.pth"))


# -- real files --------------------------------------------------------------------------


def test_images(source: Open) -> None:
    opened = source(real_file("face-short"))
    model = opened.parse()
    (image,) = model.inputs
    assert (image.name, image.dtype, image.shape) == ("input", "float32", (1, 128, 128, 3))
    assert image.layout == "NHWC"
    assert [spec.name for spec in model.outputs] == ["regressors", "classificators"]
    assert model.source["arithmetic"] == "float32"
    assert model.source["framework"].startswith("ai-edge-litert ")
    assert not opened.warnings
    _compare(model, opened.reference(), _random(model), 1e-3)


def test_free_batch(source: Open) -> None:
    """The three that Basic Pitch comes as have these names: the signature's."""
    opened = source(real_file("basic-pitch"))
    model = opened.parse()
    assert [spec.describe() for spec in model.inputs] == ["float32[batch, 43844, 1]"]
    assert [spec.name for spec in model.outputs] == ["contour", "note", "onset"]
    assert model.source["signature"] == "serving_default"
    _compare(model, opened.reference(), _random(model, 2), 1e-5)


def test_hybrid(source: Open) -> None:
    opened = source(real_file("fer"))
    model = opened.parse()
    assert [spec.name for spec in (*model.inputs, *model.outputs)] == ["x", "output_0"]
    assert model.source["arithmetic"] == "int8"
    assert [text.partition(":")[0] for text in opened.warnings] == ["HYBRID QUANTIZATION"]
    _compare(model, opened.reference(), _random(model), 0.05)


@pytest.mark.parametrize("batch", ["dynamic", "3"])
def test_another_batch(source: Open, batch: str) -> None:
    """LiteRT runs it in pieces of the file's own size."""
    opened = source(real_file("face-short"), batch=batch)
    model = opened.parse()
    first = "batch" if batch == "dynamic" else 3
    assert {(spec.shape or ())[0] for spec in (*model.inputs, *model.outputs)} == {first}
    feeds, reference = _random(model, 3), opened.reference()
    _compare(model, reference, feeds, 1e-3)
    single = source(real_file("face-short"))
    single.parse()
    alone = single.reference().run({"input": feeds["input"][2:]})
    assert np.array_equal(alone["regressors"], reference.run(feeds)["regressors"][2:])
    timing = reference.time(feeds, 2)
    assert len(timing.ns) == 2 and sum(timing.ns) <= timing.total_ns


def test_names_that_the_user_gives(source: Open) -> None:
    options = {"inputs": ["photo:float32:1x128x128x3"], "outputs": ["boxes", "scores"]}
    opened = source(real_file("face-short"), **options)
    model = opened.parse()
    assert [spec.name for spec in (*model.inputs, *model.outputs)] == ["photo", "boxes", "scores"]
    assert model.inputs[0].layout == "NHWC"
    _compare(model, opened.reference(), _random(model), 1e-3)


# -- state -------------------------------------------------------------------------------


def test_a_stateful_model_in_integers(source: Open) -> None:
    """The original keeps its state; ours, in ONNX Runtime, is fed it. Exact to the last bit."""
    path = real_file("alexa")
    opened = source(path)
    model = opened.parse()
    sound, *states = model.inputs
    assert (sound.name, sound.dtype, sound.zero_point) == ("input_audio", "int8", -128)
    assert sound.scale == pytest.approx(26 / 255)
    assert {spec.meaning for spec in states} == {"state"}
    assert model.source["states"] == {spec.name: -128 for spec in states}
    assert "stream_6_states (starts at -128)" in opened.warnings[-1]
    original, session = Stepped(path, inner=False), OrtSession(model.graph)
    kept = {spec.name: np.full(spec.sized({}), -128, np.int8) for spec in states}
    rng = np.random.default_rng(0)
    for _ in range(20):
        frame = rng.integers(-128, 128, sound.sized({})).astype(np.int8)
        original.run({0: frame})
        feeds = {"input_audio": frame, **kept}
        found = session.run(feeds)
        by_litert = opened.reference().run(feeds)
        assert all(np.array_equal(found[name], by_litert[name]) for name in found)
        assert np.array_equal(found["dense_1"], original.get(69))
        kept = {name: found[f"{name}_out"] for name in kept}
    assert any(np.any(value != -128) for value in kept.values())


def test_a_state_that_starts_at_different_values(source: Open) -> None:
    file, _ = counter((5.0, 7.0))
    opened = source(file)
    model = opened.parse()
    assert [spec.name for spec in model.inputs] == ["x", "running_total"]
    assert [spec.name for spec in model.outputs] == ["y", "running_total_out"]
    assert model.source["states"] == {"running_total": [[5.0, 7.0]]}
    assert "running_total (starts at the values in the manifest)" in opened.warnings[-1]
    _compare(model, opened.reference(), _random(model), 0)


# -- refusals ----------------------------------------------------------------------------


def test_state_and_operators_are_refused_together(source: Open) -> None:
    file, graph = counter()
    handle = graph.variable("other")
    graph.read(handle, (1, 2))
    made = graph.tensor("made", (1, 2))
    graph.op("HASHTABLE_FIND", [0], [made])
    with pytest.raises(UnsupportedError) as caught:
        source(file).parse()
    assert [item.op for item in caught.value.items] == ["READ_VARIABLE", "HASHTABLE_FIND"]


def test_files_that_are_none_and_parts_that_are_not_there(source: Open, tmp_path: Path) -> None:
    file, graph = adder()
    graph.interface([0], [])
    with pytest.raises(ModelError, match="subgraph 0 has no outputs"):
        source(file).parse()
    with pytest.raises(UsageError, match="--signature train"):
        source(real_file("alexa"), signature="train").parse()
    path = tmp_path / "page.tflite"
    path.write_text("<html>not found</html>")
    with pytest.raises(ModelError, match=r"page\.tflite is not a TFLite file"):
        source(path).parse()


def test_another_subgraph_by_its_signature(source: Open) -> None:
    file, first = adder()
    second = file.graph("double")
    x = second.tensor("x", (1, 4))
    second.interface([x], [second.add(x, x, (1, 4), "y")])
    file.signature("add", first, {"number": 0}, {"more": 2})
    file.signature("double", second, {"number": 0}, {"number": 1})
    opened = source(file, signature="double")
    model = opened.parse()
    assert [spec.name for spec in model.outputs] == ["number_out"]  # ONNX names are unique
    _compare(model, opened.reference(), _random(model), 0)


def test_another_interpreter(source: Open) -> None:
    """LiteRT runs there; the file is read here."""
    request = Request(str(real_file("alexa")), python=sys.executable)
    found = TfliteParser().identify(request)
    assert set(found.versions) == {
        *("ai-edge-litert", "python"),
        *("flatbuffers", "ai-edge-litert schema"),
    }
    opened = source(real_file("alexa"), python=sys.executable)
    model = opened.parse()
    _compare(model, opened.reference(), _random(model), 0)


# -- the whole way -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["alexa", "fer"])
@pytest.mark.slow
def test_converted(name: str, tmp_path: Path) -> None:
    done = api.convert(str(real_file(name)), out=str(tmp_path / "out"), bench=False, cache=False)
    assert (tmp_path / "out" / "onnx" / "fp32" / "model.onnx").is_file()
    assert done.report is not None
