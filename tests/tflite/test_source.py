"""A TFLite file as a source: its Model and its reference, LiteRT in a child process."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.errors import ModelError, UnsupportedError, UsageError
from converter.files.arrays import save_arrays
from converter.ir.model import Model
from converter.options.request import Request
from converter.runtime.ort import OrtSession
from converter.runtime.session import Session
from converter.runtime.worker import Worker
from parsers.tflite.parser import TfliteParser
from parsers.tflite.reader import read
from parsers.tflite.source import TfliteSource
from parsers.tflite.spec import LITERT
from tests.frameworks import framework, outputs
from tests.tflite.build import File, adder, counter
from tests.tflite.litert import Stepped
from tests.tflite.real import real_file

Array = np.ndarray[Any, Any]

Open = Callable[..., TfliteSource]


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Open]:
    """Opens files as sources, and closes them."""
    with ExitStack() as opened:

        def opening(path: Path | File, **options: Any) -> TfliteSource:
            request = Request(str(_written(path, tmp_path)), **options)
            return opened.enter_context(closing(TfliteParser().open(request, tmp_path, print)))

        yield opening


def _written(file: Path | File, folder: Path) -> Path:
    if isinstance(file, Path):
        return file
    (folder / "test.tflite").write_bytes(file.content())
    return folder / "test.tflite"


def _random(model: Model, batch: int = 1) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    shapes = {spec: spec.sized({"batch": batch}) for spec in model.inputs}
    drawn = {
        spec: rng.random(shape) if spec.is_float else rng.integers(-128, 128, shape)
        for spec, shape in shapes.items()
    }
    return {spec.name: array.astype(spec.dtype) for spec, array in drawn.items()}


def _compare(model: Model, reference: Session, feeds: Mapping[str, Array], within: float) -> None:
    ours, theirs = OrtSession(model.graph).run(feeds), reference.run(feeds)
    assert list(ours) == list(theirs) == [spec.name for spec in model.outputs]
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, 0, within, err_msg=name, strict=True)


def test_identity_by_contents(tmp_path: Path) -> None:
    path, parser = real_file("alexa"), TfliteParser()
    found = parser.identify(Request(str(path)))
    assert (found.name, found.format, dict(found.files)) == ("alexa", "tflite", {path.name: path})
    assert set(found.versions) == {"ai-edge-litert", "flatbuffers"}
    with pytest.raises(UsageError, match=r"reading none\.tflite"):
        parser.identify(Request(str(tmp_path / "none.tflite")))
    with pytest.raises(UsageError, match="--weights"):
        parser.identify(Request(str(path), weights="w.pth"))
    (tmp_path / "model.bin").write_bytes(path.read_bytes())
    (tmp_path / "other.bin").write_bytes(b"0123TFL4")
    names = ("model.bin", "none.tflite", "other.bin", "")
    assert [parser.sniff(str(tmp_path / name)) for name in names] == [True, True, False, False]


@pytest.mark.parametrize(("name", "inputs", "outputs", "said", "within"), [
    ("face-short", ["input: float32[1, 128, 128, 3]"], "regressors classificators", [], 1e-3),
    ("basic-pitch", ["input_2: float32[batch, 43844, 1]"], "contour note onset", [], 1e-5),
    ("fer", ["x: float32[1, 64, 64, 1]"], "output_0", ["HYBRID QUANTIZATION"], 0.05),
])  # fmt: skip
def test_real_files(source: Open, name: str, inputs: list[str], outputs: str, said: list[str],
                    within: float) -> None:  # fmt: skip
    """Names are the signature's, where there is one."""
    opened = source(real_file(name))
    model = opened.parse()
    assert [f"{spec.name}: {spec.describe()}" for spec in model.inputs] == inputs
    assert [spec.name for spec in model.outputs] == outputs.split()
    assert [text.partition(":")[0] for text in opened.warnings] == said
    assert model.source["arithmetic"] == ("int8" if said else "float32")
    assert model.source["framework"].startswith("ai-edge-litert ")
    assert name != "face-short" or model.inputs[0].layout == "NHWC"
    assert name != "basic-pitch" or model.source["signature"] == "serving_default"
    for batch in (2, 1, 3) if name == "basic-pitch" else (1,):
        _compare(model, opened.reference(), _random(model, batch), within)


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


@pytest.mark.parametrize("name", ["alexa", "okay-nabu"])
def test_a_stateful_model_in_integers(source: Open, name: str) -> None:
    """The original keeps its state; ours, in ONNX Runtime, is fed it. Exact to the last bit."""
    path = real_file(name)
    opened, graph = source(path), read(path.read_bytes(), name).subgraphs[0]
    model = opened.parse()
    sound, *states = model.inputs
    assert (sound.dtype, sound.zero_point) == ("int8", -128)
    assert sound.scale == pytest.approx(26 / 255)
    assert {spec.meaning for spec in states} == {"state"}
    assert model.source["states"] == {spec.name: -128 for spec in states}
    assert [spec.name for spec in states] == sorted(
        (spec.name for spec in states), key=lambda text: int("".join(filter(str.isdigit, text)))
    )
    assert "stream_6_states (starts at -128)" in opened.warnings[-1]
    original, session = Stepped(path, inner=False), OrtSession(model.graph)
    kept = {spec.name: np.full(spec.sized({}), -128, np.int8) for spec in states}
    rng = np.random.default_rng(0)
    for _ in range(20):
        frame = rng.integers(-128, 128, sound.sized({})).astype(np.int8)
        original.run({graph.inputs[0]: frame})
        feeds = {sound.name: frame, **kept}
        found, by_litert = session.run(feeds), opened.reference().run(feeds)
        assert all(np.array_equal(found[name], by_litert[name]) for name in found)
        assert np.array_equal(found[model.outputs[0].name], original.get(graph.outputs[0]))
        kept = {spec.name: found[f"{spec.name}_out"] for spec in states}
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


def test_state_and_operators_are_refused_together(source: Open) -> None:
    file, graph = counter()
    graph.read(graph.variable("other"), (1, 2))
    graph.op("HASHTABLE_FIND", [0], [graph.tensor("made", (1, 2))])
    with pytest.raises(UnsupportedError) as caught:
        source(file).parse()
    assert [item.op for item in caught.value.items] == ["READ_VARIABLE", "HASHTABLE_FIND"]


def test_files_that_are_none_and_parts_that_are_not_there(source: Open, tmp_path: Path) -> None:
    file, graph = adder()
    graph.interface([0], [])
    with pytest.raises(ModelError, match="subgraph 0 has no outputs"):
        source(file).parse()
    with pytest.raises(UsageError, match="--signature train") as caught:
        source(real_file("alexa"), signature="train").parse()
    assert len(caught.value.details) == 1
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
    versions = {"ai-edge-litert", "python", "flatbuffers", "ai-edge-litert schema"}
    assert set(TfliteParser().identify(request).versions) == versions
    opened = source(real_file("alexa"), python=sys.executable)
    model = opened.parse()
    _compare(model, opened.reference(), _random(model), 0)


LINE = np.zeros((1, 4), np.float32)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """One child for all tests."""
    with framework(LITERT) as made:
        yield made


def _load(worker: Worker, file: Path | File, folder: Path, *places: int) -> None:
    """A file whose input x and output y are in these places."""
    ends = [{"name": name, "index": index} for name, index in zip("xy", places, strict=True)]
    worker.call("load", file=str(_written(file, folder)), inputs=ends[:1], outputs=ends[1:])


@pytest.mark.parametrize(("threads", "concurrency"), [(1, 1), (2, 1), (1, 2), (None, 1)])
def test_latency(worker: Worker, tmp_path: Path, threads: int | None, concurrency: int) -> None:
    _load(worker, real_file("face-short"), tmp_path, 0, 175)
    save_arrays(tmp_path / "in.npz", {"x": np.zeros((1, 128, 128, 3), np.float32)})
    how = {"runs": 4, "threads": threads, "concurrency": concurrency, "warmup": 1}
    answer = worker.call("time", feeds=str(tmp_path / "in.npz"), **how)
    assert len(answer["ns"]) == 4 and all(ns > 10_000 for ns in answer["ns"])
    assert answer["total_ns"] >= max(answer["ns"])
    assert answer["threads"] == threads if threads else answer["threads"] >= 1


def test_what_litert_refuses(worker: Worker, tmp_path: Path) -> None:
    """Shapes that the file's own checks don't look at."""
    file = File()
    graph = file.graph()
    x, three = graph.tensor("x", (1, 4)), graph.constant(np.ones(3, np.float32))
    graph.interface([x], [graph.add(x, three, (1, 4), "y")])
    with pytest.raises(ModelError, match="LiteRT failed while"):
        _load(worker, file, tmp_path, 0, 2)
        outputs(worker, tmp_path, {"x": LINE})


def test_feeds_that_do_not_fit(worker: Worker, tmp_path: Path) -> None:
    _load(worker, adder()[0], tmp_path, 0, 2)
    with pytest.raises(UsageError, match="inputs are missing: x"):
        outputs(worker, tmp_path, {"z": LINE})
    with pytest.raises(ModelError, match="LiteRT failed while running the model"):
        outputs(worker, tmp_path, {"x": LINE.astype(np.int8)})
    with pytest.raises(UsageError, match="the feeds can't be read"):
        worker.call("run", feeds=str(tmp_path / "none.npz"), out=str(tmp_path / "out.npz"))
