"""The steps of a request, and what their keys depend on."""

from typing import Any

import pytest

from converter.errors import UsageError
from converter.plan import SIMPLIFY_PASSES, Plan, plan
from converter.plugins import available
from converter.recipe import make_request


def planned(**fields: Any) -> Plan:
    request = make_request({"source": "m.onnx", **fields})
    return plan(request, {name: ["onnx"] for name in request.serve})


def test_steps_come_after_what_they_need() -> None:
    steps = planned(serve=["triton"]).steps
    seen: set[str] = set()
    for step in steps:
        assert set(step.needs) <= seen, step.id
        seen.add(step.id)
    assert seen == {
        "parse", "samples", "simplify", "reference", "emit:onnx:fp32", "check:onnx:fp32",
        "bench:onnx:fp32", "package:triton:onnx:fp32",
    }  # fmt: skip
    asked = {step.kind for step in planned(check=False, bench=False).steps}
    assert asked == {"parse", "samples", "simplify", "emit"}


def test_what_uses_every_core_runs_alone() -> None:
    steps = planned(serve=["triton"], precision=["fp32", "fp16"]).steps
    alone = {step.kind for step in steps if step.alone}
    assert alone == {"reference", "calibrate", "lower", "check", "bench", "trace"}


def test_each_change_of_the_model_is_traced() -> None:
    made = planned(precision=["fp32", "fp16"])
    traces = {step.id: step.needs for step in made.steps if step.kind == "trace"}
    assert traces == {
        "trace:simplify": ("parse", "simplify", "samples"),
        "trace:lower:fp16": ("lower:fp16", "simplify", "samples"),
    }
    for untraced in (planned(), planned(check=False, precision=["fp16"])):
        assert not any(step.kind == "trace" for step in untraced.steps)
    assert planned(keep_steps=True).has("trace:simplify")


@pytest.mark.parametrize(("io_dtype", "precision", "right"), [
    ("float32", ["int8"], True),
    ("float16", ["fp32", "fp16"], True),
    ("bfloat16", ["bf16"], True),
    ("float16", ["bf16"], False),
    ("bfloat16", ["fp16"], False),
    ("float16", ["fp32", "int8"], False),
])  # fmt: skip
def test_io_dtype_needs_its_precision(io_dtype: str, precision: list[str], right: bool) -> None:
    if right:
        planned(io_dtype=io_dtype, precision=precision)
        return
    wanted = {"float16": "fp16", "bfloat16": "bf16"}[io_dtype]
    with pytest.raises(UsageError, match=f"--io-dtype {io_dtype} is for {wanted}") as caught:
        planned(io_dtype=io_dtype, precision=precision)
    assert f"Add {wanted} to --precision" in caught.value.hint


def test_passes_are_there_and_can_be_left_out() -> None:
    assert set(SIMPLIFY_PASSES) <= set(available("passes"))
    passes = planned(skip_passes=["onnxsim"]).step("simplify").params["passes"]
    assert "onnxsim" not in passes
    assert "onnxslim" in passes
    assert set(planned(simplify=False).step("simplify").params["passes"]).isdisjoint(
        SIMPLIFY_PASSES
    )


@pytest.mark.parametrize(("fields", "kind"), [
    ({"dims": {"n": 3}}, "parse"),
    ({"skip_passes": ["onnxsim"]}, "simplify"),
    ({"batch": "4"}, "parse"),
    ({"min_cosine": 0.5}, "check:onnx:fp32"),
])  # fmt: skip
def test_what_changes_a_result_changes_its_key(fields: dict[str, Any], kind: str) -> None:
    versions = {"onnx": "1", "onnxruntime-gpu": "2"}
    before, after = planned().step(kind), planned(**fields).step(kind)
    assert before.key(["x"], versions) != after.key(["x"], versions)
    assert before.key(["x"], versions) == planned().step(kind).key(["x"], versions)
    assert before.key(["x"], versions) != before.key(["y"], versions)


def test_what_code_of_the_user_s_judges_is_not_kept() -> None:
    for metric, kept in ((["top1"], True), (["top1", "metric.py:iou"], False)):
        made = planned(precision=["fp16"], max_drop=1.0, metric=metric)
        assert made.step("lower:fp16").kept is kept
    assert planned(precision=["fp16"], metric=["metric.py:iou"]).step("lower:fp16").kept


def test_a_tool_s_version_is_in_the_key_of_what_it_carries_out() -> None:
    step = planned().step("simplify")
    for tool in ("onnxsim", "onnxslim", "onnxscript", "onnxruntime-gpu", "onnx-ir"):
        assert step.key([], {tool: "1"}) != step.key([], {tool: "2"})


@pytest.mark.parametrize("fields", [
    {"precision": ["int9"]},
    {"to": ["onnx", "onnx"]},
    {"repository": "models"},
    {"batch": "0"},
    {"min_cosine": 2.0},
    {"skip_passes": ["nothing"]},
    {"max_latency": 1.0, "bench": False},
    {"max_latency": 1.0, "bench_batches": [8]},
])  # fmt: skip
def test_contradictions_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        planned(**fields)


def test_a_server_that_takes_no_target_is_refused() -> None:
    request = make_request({"source": "m.onnx", "serve": ["triton"]})
    with pytest.raises(UsageError, match="can't serve"):
        plan(request, {"triton": ["tensorrt"]})


def test_what_only_led_to_what_cannot_be_is_dropped() -> None:
    request = make_request(
        {"source": "m.onnx", "to": ["onnx", "tflite"], "precision": ["fp32", "fp16", "int8"],
         "serve": ["triton"]}
    )  # fmt: skip
    schemes = {"onnx": "onnxruntime-u8s8", "tflite": "tflite-int8"}
    made = plan(request, {"triton": ["onnx"]}, schemes, {"tflite:fp16": "it has none"})
    assert made.has("emit:onnx:fp16") and not made.has("emit:tflite:fp16")
    everything = {step.id for step in made.steps}
    assert made.wanted(()) == everything
    left = everything - made.wanted({"emit:tflite:int8"})
    assert left == {
        "emit:tflite:int8", "check:tflite:int8", "bench:tflite:int8", "lower:int8:tflite-int8",
        "trace:lower:int8:tflite-int8",
    }  # fmt: skip
    wanted = made.wanted({"masks"})
    assert not [id for id in wanted if "int8" in id]
    assert {"emit:onnx:fp16", "package:triton:onnx:fp32", "calibrate"} <= wanted
    assert "masks" in made.wanted({"lower:int8:tflite-int8"})
