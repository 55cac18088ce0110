"""Options that change nothing are named, and those that do aren't; names that there aren't are
refused early."""

from pathlib import Path
from typing import Any

import pytest

from converter import plugins
from converter.commands.convert import plan_of
from converter.errors import UsageError
from converter.options.recipe import make_request
from converter.options.request import Request, group, option_of, options
from converter.options.unused_options import CONDITIONS, without_effect
from tests.acceptance.cli import command, small_cnn

DELAY = "--queue-delay (for kserve, litserve, mlserver, rayserve, tfserving, torchserve, triton)"


def _named(images: bool = False, format: str = "onnx", **options: Any) -> list[str]:
    request = make_request({"source": "m.onnx", **options})
    return without_effect(request, set(options), images=images, source=format)


@pytest.mark.parametrize(("options", "says"), [
    ({"image_mean": [1.0]}, "--image-mean (the samples aren't images)"),
    ({"calibration": "minmax"}, "--calibration (for int8 and int16x8)"),
    ({"coreml_target": "iOS18"}, "--coreml-target (for coreml)"),
    ({"shapes": ["x:1,2,3"]}, "--shapes (for coreml, tensorrt, tensorrt-rtx)"),
    ({"queue_delay": 5}, DELAY),
    ({"queue_delay": 5, "serve": ["triton"], "dynamic_batching": False},
     "--queue-delay (--no-dynamic-batching)"),
    ({"search_seconds": 3.0, "precision": ["int8"]},
     "--search-seconds (no --min-cosine or --max-drop below fp32)"),
    ({"palette_bits": 4, "precision": ["int8"]}, "--palette-bits (for palettized)"),
    ({"bench_batches": [8], "bench": False}, "--bench-batch (--no-bench)"),
    ({"metric": ["top1"], "check": False}, "--metric (--no-check)"),
    ({"labels": "filename"}, "--labels (no --samples)"),
    ({"external_data": True, "to": ["coreml"]},
     "--external-data (for onnx, tensorrt, tensorrt-rtx)"),
    ({"state_as_inputs": False}, "--no-state (for coreml, huggingface, mar, pytorch, tflite)"),
    ({"submodule": "encoder"}, "--submodule (for mar, pytorch)"),
    ({"weights_key": "ema"}, "--weights-key (for mar, pytorch)"),
    ({"signature": "main"}, "--signature (for coreml, mar, tensorflow, tflite)"),
    ({"random_as_input": True, "format": "keras"}, "--random-as-input (for onnx)"),
    ({"weight_methods": ["none"], "precision": ["fp16"]},
     "--weight-methods (no precision with integer weights is asked for)"),
])  # fmt: skip
def test_an_option_without_effect_is_named_with_why(options: dict[str, Any], says: str) -> None:
    assert says in _named(**options)


@pytest.mark.parametrize("options", [
    {"image_mean": [1.0], "images": True},
    {"state_as_inputs": False, "submodule": "a", "format": "pytorch"},
    {"state_as_inputs": False, "format": ""},
    {"random_as_input": True},
    {"signature": "main", "state_as_inputs": False, "format": "mar"},
    {"image_mean": [1.0], "to": ["tflite"]},
    {"calibration": "minmax", "precision": ["int8"]},
    {"coreml_target": "iOS18", "to": ["onnx", "coreml"]},
    {"shapes": ["x:1,2,3"], "to": ["tensorrt"]},
    {"queue_delay": 5, "serve": ["triton"]},
    {"max_batch": 4, "to": ["coreml"]},
    {"search_seconds": 3.0, "precision": ["int8"], "min_cosine": 0.99},
    {"search_seconds": 3.0, "precision": ["int8-weights"]},
    {"min_cosine": 0.99, "precision": ["int8"], "check": False},
    {"labels": "filename", "samples": "photos"},
    {"keep_float": ["x"], "precision": ["fp16"]},
])  # fmt: skip
def test_an_option_with_effect_is_not(options: dict[str, Any]) -> None:
    assert _named(**options) == []


def test_only_what_was_given_is_named() -> None:
    """The catalogue's options for images, say, where the user brings other samples."""
    request = Request("m.onnx", image_mean=[1.0])
    assert without_effect(request, set(), images=False) == []


def test_what_plug_ins_and_options_say_is_there() -> None:
    needed = {option.needs for option in options().values()} - {""}
    assert set(CONDITIONS) <= needed
    for name in needed - set(CONDITIONS):
        assert option_of(name).flags[0].startswith(f"--{name.replace('_', '-')}/--no-")
    for kind in ("parsers", "emitters", "servers"):
        for name in plugins.available(kind):
            for option in getattr(plugins.load(kind, name), "options", ()):
                assert option in options() or group(option), (name, option)


@pytest.mark.parametrize(("options", "says"), [
    ({"metric": ["recall"]}, "There are: top1, top5, mse, f1, map"),
    ({"metric": ["top2"]}, "Did you mean top"),
    ({"metric": ["nowhere.py:f1"]}, "there is no file nowhere.py"),
    ({"providers": ["gpu"]}, "--provider gpu: there is no such provider"),
    ({"weight_methods": ["round"]}, "Did you mean rounding?"),
])  # fmt: skip
def test_unknown_names_are_refused_with_the_plan(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as refusal:
        plan_of(make_request({"source": "m.onnx", **options}))
    assert says in str(refusal.value)


def test_the_command_line_says_so(tmp_path: Path) -> None:
    small_cnn(tmp_path / "m.onnx")
    args = ("convert", "m.onnx", "--no-bench", "--queue-delay", "5", "--image-std", "2,2,2")
    planned = command(*args, "--dry-run", cwd=tmp_path)
    assert f"WITHOUT EFFECT: {DELAY}" in planned.out
    said = command(*args, cwd=tmp_path)
    assert said.code == 0, said.err
    text = " ".join(said.out.split())
    assert "without effect: --image-std (the samples aren't images), --queue-delay" in text
    assert "without effect" in (tmp_path / "build/m/report.html").read_text()
    for line in (("convert", "m.onnx"), ("check", "m.onnx", "--against", "m.onnx")):
        said = command(*line, "--metric", "recall", cwd=tmp_path).no_traceback()
        assert said.code == 2 and "there is no such metric" in said.err


def test_an_option_of_other_sources_is_refused_or_told(tmp_path: Path) -> None:
    small_cnn(tmp_path / "m.onnx")
    for line in ("convert m.onnx", "inspect m.onnx", "check m.onnx --against m.onnx",
                 "bench m.onnx"):  # fmt: skip
        said = command(*line.split(), "--weights", "w.pth", cwd=tmp_path).no_traceback()
        assert said.code == 2 and "--weights only works with a PyTorch class" in said.err, line
    said = command("convert", "m.onnx", "--signature", "main", "--dry-run", cwd=tmp_path)
    assert "WITHOUT EFFECT: --signature (for coreml, mar, tensorflow, tflite)" in said.out
