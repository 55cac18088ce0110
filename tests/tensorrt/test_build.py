"""Builds by TensorRT-RTX itself, each in a process of its own."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from converter.digest import file_digest
from converter.errors import DependencyError, MachineError, ModelError, UsageError
from converter.ir import Model
from emitters.tensorrt import build as building
from emitters.tensorrt import process
from emitters.tensorrt.build import build, no_engine, steady_log
from emitters.tensorrt.emitter import DEFAULT_CAPABILITIES
from emitters.tensorrt.libraries import Library, find, has_gpu
from emitters.tensorrt.options import EngineOptions
from emitters.tensorrt.plan_header import read_header
from tests.tensorrt.models import HALF, conv_model, request, saved, text_model

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


def test_the_same_build_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is built, and whatever else is in the environment."""
    reports = [built(conv_model(), tmp_path / "a")]
    monkeypatch.setenv("SOMETHING_ELSE", "x" * 5000)
    reports.append(built(conv_model(), tmp_path / ("b" * 100) / "c"))
    plans = [tmp_path / "a" / "model.plan", tmp_path / ("b" * 100) / "c" / "model.plan"]
    assert all(report.fixed_addresses for report in reports)
    assert file_digest(plans[0]) == file_digest(plans[1])
    assert reports[0].log == reports[1].log


def test_the_log_holds_no_path_and_no_time(tmp_path: Path) -> None:
    report = built(conv_model(), tmp_path)
    text = "\n".join(report.log)
    assert str(tmp_path) not in text and "Input filename:   model.onnx" in text
    assert steady_log([("info", "took 1.25e-05ms to assign"), ("info", "in 3.4 seconds.")]) == [
        "info: took -ms to assign",
        "info: in - seconds.",
    ]


def test_options_reach_the_builder(tmp_path: Path) -> None:
    """Each changes the engine's bytes, or is refused by the builder."""
    digests = set()
    for name, asked in {
        "plain": {},
        "tf32": {"tf32": False},
        "streaming": {"weight_streaming": True},
        "one": {"compute_capabilities": ["8.9"]},
        "profiles": {"shapes": ["x:1x3x16x16,2x3x16x16,4x3x16x16", "x:8x3x16x16"]},
    }.items():
        built(conv_model(), tmp_path / name, **asked)
        digests.add(file_digest(tmp_path / name / "model.plan"))
    assert len(digests) == 5


def test_an_input_whose_values_are_a_shape_is_refused(tmp_path: Path) -> None:
    model = text_model("g (float[4] x, int64[2] s) => (float[m, n] y) { y = Reshape(x, s) }")
    with pytest.raises(ModelError, match="the values of the input s decide shapes"):
        built(model, tmp_path, shapes=[])


@pytest.mark.skipif(has_gpu(), reason="it is about machines without a GPU")
def test_a_builder_that_gives_nothing_is_an_error_with_its_reasons(tmp_path: Path) -> None:
    model = text_model("g (float[batch, 64] x) => (float[batch, 64] y) { y = MatMul(x, w) }")
    import numpy as np

    from tests.tensorrt.models import add_weight

    add_weight(model, "w", np.ones((64, 64), np.float32))
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


def test_too_little_workspace_says_what_to_raise() -> None:
    words = "Error Code 1: no tactics to implement the operation within workspace limit."
    error = no_engine([("info", "x"), ("error", words)], RTX)
    assert isinstance(error, ModelError) and "--workspace" in error.hint


def test_no_memory_is_the_machines_error() -> None:
    error = no_engine([("error", "Error Code 2: OutOfMemory (Requested size was 9 bytes.)")], RTX)
    assert isinstance(error, MachineError) and error.exit_code == 6


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
