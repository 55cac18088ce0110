"""Builds by TensorRT-RTX itself, each in a process of its own; what a machine can lack is one clear
error each, and the tool lives on."""

import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from converter.errors import DependencyError, MachineError, ModelError, UsageError
from converter.files.digest import file_digest
from converter.ir.model import Model
from emitters.tensorrt import build as building
from emitters.tensorrt import process
from emitters.tensorrt.build import build, no_engine, steady_log
from emitters.tensorrt.build_child import load_plugins
from emitters.tensorrt.cuda import open_device
from emitters.tensorrt.emitter import DEFAULT_CAPABILITIES
from emitters.tensorrt.libraries import Library, find, has_gpu, installed
from emitters.tensorrt.options import EngineOptions
from emitters.tensorrt.plan_header import read_header
from emitters.tensorrt.shape_inputs import shape_inputs, values_seen
from tests.serving.models import text_model
from tests.tensorrt.models import HALF, conv_model, request, saved

RTX = find("tensorrt-rtx")


def options(model: Model, precision: str = "fp32", **asked: object) -> EngineOptions:
    made = EngineOptions.of(request(**asked), model, precision)
    return replace(made, compute_capabilities=made.compute_capabilities or DEFAULT_CAPABILITIES)


def built(model: Model, folder: Path, **asked: object) -> building.BuildReport:
    graph = saved(model, folder)
    return build(graph, folder / "model.plan", options(model, **asked), RTX, lambda text: None)


def test_an_engine_is_built_without_a_gpu(tmp_path: Path) -> None:
    report = built(conv_model(HALF), tmp_path)
    header = read_header(tmp_path / "model.plan")
    assert (header.target, header.version) == ("tensorrt-rtx", report.version)
    assert header.compute_capabilities == DEFAULT_CAPABILITIES
    assert [item["name"] for item in report.inputs] == ["x"]
    convolutions = [layer for layer in report.layers if layer["kind"] == "CONVOLUTION"]
    assert [layer["nodes"] for layer in convolutions] == [["Conv_1"], ["Conv_3"]]
    assert {layer["type"] for layer in convolutions} == {"float16"}
    assert {*building.LIBRARY, "write", "all"} <= report.seconds.keys()
    assert report.sha256 == file_digest(tmp_path / "model.plan")
    assert {path.name for path in tmp_path.iterdir()} == {"model.onnx", "model.plan"}


def test_a_library_s_own_plugins_are_loaded_where_it_has_such() -> None:
    """Stand-ins: TensorRT has some, TensorRT-RTX's function has none behind it."""
    loaded: list[str] = []
    load_plugins(SimpleNamespace(), None, [])
    library = SimpleNamespace(init_libnvinfer_plugins=lambda log, space: loaded.append(space))
    load_plugins(library, None, [])
    assert loaded == [""]


def test_the_same_build_gives_the_same_bytes(tmp_path: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Wherever it is built, and whatever else is in the environment."""
    reports = [built(conv_model(), tmp_path / "a")]
    monkeypatch.setenv("SOMETHING_ELSE", "x" * 5000)
    reports.append(built(conv_model(), tmp_path / ("b" * 100) / "c"))
    plans = [tmp_path / "a" / "model.plan", tmp_path / ("b" * 100) / "c" / "model.plan"]
    assert all(report.fixed_addresses for report in reports)
    assert file_digest(plans[0]) == file_digest(plans[1])
    assert reports[0].log == reports[1].log


def test_the_log_holds_no_path_and_no_time(tmp_path: Path) -> None:
    text = "\n".join(built(conv_model(), tmp_path).log)
    assert str(tmp_path) not in text and "Input filename:   model.onnx" in text
    assert steady_log([("info", "took 1.25e-05ms to assign"), ("info", "in 3.4 seconds.")]) == [
        "info: took -ms to assign",
        "info: in - seconds.",
    ]


def test_options_reach_the_builder(tmp_path: Path) -> None:
    """Each changes the engine's bytes, or is refused by the builder."""
    digests = set()
    for name, asked in {
        "plain": {}, "tf32": {"tf32": False}, "streaming": {"weight_streaming": True},
        "one": {"compute_capabilities": ["8.9"]},
        "profiles": {"shapes": ["x:1x3x16x16,2x3x16x16,4x3x16x16", "x:8x3x16x16"]},
    }.items():  # fmt: skip
        built(conv_model(), tmp_path / name, **asked)
        digests.add(file_digest(tmp_path / name / "model.plan"))
    assert len(digests) == 5


RESIZE = """g (float[1, 1, 4, 4] x, int64[2] s) => (float[1, 1, m, n] y) {
    all = Concat<axis = 0>(ones, s) y = Resize<mode = "linear">(x, , , all) }"""


def test_an_input_whose_values_are_a_shape(tmp_path: Path) -> None:
    """The profile has the samples' values; without samples there are none."""
    model = text_model(RESIZE, ones=np.ones(2, np.int64))
    with pytest.raises(ModelError, match="the values of the input s decide shapes"):
        built(model, tmp_path / "none")
    seen = [{"s": np.array(sizes)} for sizes in ((8, 8), (2, 16), (9, 4))]
    values = values_seen(seen, shape_inputs(model))
    assert values == {"s": ([2, 4], [9, 4], [9, 16])}
    sizes = set()
    for name, known in {"seen": values, "less": {"s": ([8, 8],) * 3}}.items():
        asked = EngineOptions.of(request(), model, "fp32", None, known)
        asked = replace(asked, compute_capabilities=DEFAULT_CAPABILITIES)
        graph = saved(model, tmp_path / name)
        report = build(graph, graph.with_name("model.plan"), asked, RTX, lambda text: None)
        assert [item["name"] for item in report.inputs] == ["x", "s"]
        sizes.add(report.sha256)
    assert len(sizes) == 2


@pytest.mark.parametrize(("text", "found"), [
    ("(float[4] x, int64[2] s) => (float[m, n] y) { y = Reshape(x, s) }", ["s"]),
    ("(float[4] x, int32 k) => (float[n] y) { l = Cast<to = 7>(k) m = Unsqueeze(l, ax) "
     "z = Add(m, ax) y = Tile(x, z) }", ["k"]),
    ("(float[4] x, int64[2] s) => (float[4] y) { z = Shape(s) y = Expand(x, z) }", []),
    ("(float[4] x, int64[n] s) => (float[m] y) { y = Gather(x, s) }", []),
    ("(float[4] x, int64[2, 2] s) => (float[2, 2] y) { y = Gather(x, s) }", []),
])  # fmt: skip
def test_which_inputs_decide_shapes(text: str, found: list[str]) -> None:
    assert shape_inputs(text_model(f"g {text}", ax=np.zeros(1, np.int64))) == found


@pytest.mark.skipif(has_gpu(), reason="it is about machines without a GPU")
def test_a_builder_that_gives_nothing_is_an_error_with_its_reasons(tmp_path: Path) -> None:
    text = "g (float[batch, 64] x) => (float[batch, 64] y) { y = MatMul(x, w) }"
    model = text_model(text, w=np.ones((64, 64), np.float32))
    with pytest.raises(ModelError) as error:
        built(model, tmp_path, compute_capabilities=["7.5"])
    assert error.value.message == f"{RTX.title} built no engine"
    assert "SM75" in error.value.details[0] and "/_src" not in error.value.details[0]
    assert "7.5" in error.value.hint
    assert not (tmp_path / "model.plan").exists()


def test_a_capability_that_the_library_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        built(conv_model(), tmp_path, compute_capabilities=["9.0", "8.9"])
    (detail,) = error.value.details
    assert detail.startswith("--compute-capability: it doesn't build for 9.0")
    assert "8.6" in detail


@pytest.mark.parametrize(("words", "kind", "hint"), [
    ("1: no tactics to implement the operation within workspace limit.", ModelError, "--work"),
    ("2: OutOfMemory (Requested size was 9 bytes.)", MachineError, process.MORE_MEMORY),
])  # fmt: skip
def test_why_there_is_no_engine(words: str, kind: type[Exception], hint: str) -> None:
    error = no_engine([("info", "x"), ("error", f"Error Code {words}")], RTX)
    assert isinstance(error, kind) and hint in error.hint
    assert error.exit_code == (6 if kind is MachineError else ModelError.exit_code)


def test_a_library_that_cannot_be_loaded(tmp_path: Path) -> None:
    missing = Library("tensorrt", "tensorrt_that_is_not_there", "10.0")
    graph = saved(conv_model(), tmp_path)
    with pytest.raises(DependencyError, match="can't be loaded"):
        build(graph, tmp_path / "p", options(conv_model()), missing, lambda text: None)


def test_a_process_that_crashes_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = f"import os; os.kill(os.getpid(), {int(signal.SIGSEGV)})"
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-c", crash))
    with pytest.raises(MachineError, match="SIGSEGV"):
        built(conv_model(), tmp_path)


_LIMITED = """
import resource
from emitters.tensorrt import build_child
build_child.LOOK_SECONDS = 0.3
resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
build_child.main()
"""
"""A build's process that may have so many bytes of addresses."""


def test_too_little_memory_wherever_it_runs_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the library is loaded, and while it builds; an engine is whole or not there."""
    model = conv_model()
    plan = tmp_path / "model.plan"
    ran_out = []
    for megabytes in (100, 200, 250, 300, 350, 400, 450, 100_000):
        script = _LIMITED.format(limit=megabytes << 20)
        monkeypatch.setattr(process, "COMMAND", (sys.executable, "-P", "-c", script))
        try:
            built(model, tmp_path)
        except MachineError as error:
            assert error.message == f"{RTX.title} ran out of memory", (megabytes, error.details)
            assert error.hint == process.MORE_MEMORY and not plan.exists()
            ran_out.append(megabytes)
        else:
            assert read_header(plan).target == "tensorrt-rtx"
            plan.unlink()
    assert len(ran_out) >= 4 and 100_000 not in ran_out


_SHORT = """
import resource, signal
from emitters.tensorrt import build_child
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
build_child.main()
"""
"""A build's process whose files may have so many bytes: what a full disk says, too."""


def test_no_room_for_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-P", "-c", _SHORT))
    with pytest.raises(MachineError, match=r"writing the engine: .*File too large") as error:
        built(conv_model(), tmp_path)
    assert error.value.hint == process.MORE_SPACE


@pytest.mark.skipif(installed("tensorrt") is not None, reason="it is about machines without it")
def test_no_library() -> None:
    with pytest.raises(DependencyError, match="needs the Python package tensorrt") as error:
        find("tensorrt")
    assert "pip install" in error.value.hint


@pytest.mark.skipif(has_gpu(), reason="it is about machines without a GPU")
def test_no_driver() -> None:
    with pytest.raises(DependencyError, match="driver"):
        open_device()
