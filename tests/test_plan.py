"""The steps of a request, and what their keys depend on."""

import re
from dataclasses import Field
from pathlib import Path
from typing import Any

import pytest

from converter.errors import UsageError
from converter.options.option import BESIDE, STEPS
from converter.options.recipe import make_request
from converter.options.request import all_fields, of_plugins, option_of, taken
from converter.options.spelling import value_type
from converter.passes.order import SIMPLIFY_PASSES
from converter.pipeline.plan import Plan, plan
from converter.plugins import available, load
from converter.precision.int8.scheme import ONNXRUNTIME_CPU
from emitters.tflite.scheme import TFLITE

ROOT = Path(__file__).parents[1]


def planned(**fields: Any) -> Plan:
    request = make_request({"source": "m.onnx", **fields})
    return plan(request, {name: ["onnx"] for name in request.serve})


def test_steps_come_after_what_they_need_and_some_run_alone() -> None:
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
    steps = planned(serve=["triton"], precision=["fp32", "fp16"]).steps
    alone = {step.kind for step in steps if step.alone}
    assert alone == {"reference", "calibrate", "quantize", "bench", "trace"}
    steps = planned(to=["onnx", "tflite"]).steps
    assert {step.kind for step in steps if step.threaded} == {"check"}
    assert {step.id for step in steps if step.light} == {"emit:tflite:fp32", "pack:tflite:fp32"}


@pytest.mark.parametrize("precision", ["fp16", "bf16", "int8"])
def test_what_values_are_measured_for_sees_clamped_masks(precision: str) -> None:
    """For Core ML as for others: a mask's -3.4e38 is no number that 16 bits or a scale can hold."""
    made = planned(to=["coreml"], precision=["fp32", precision], check=False, bench=False)
    for id in ("calibrate", f"quantize:{precision}"):
        assert made.step(id).needs[0] == "masks"
    assert made.step("masks").needs == ("simplify", "samples")


def test_a_cosine_is_tried_in_the_runtimes_that_round_otherwise() -> None:
    """Where the check will ask for it, in whatever of the target's integers."""
    schemes = {"onnx": ONNXRUNTIME_CPU, "tflite": TFLITE}
    asked = {"to": ["onnx", "tflite"], "precision": ["fp16", "int8", "int16x8"], "bench": False}
    for more, expected in (
        ({"min_cosine": 0.99}, ["int8:tflite-int8", "int16x8:tflite-int16x8"]),
        ({"min_cosine": 0.99, "check": False}, []),
        ({"max_drop": 1.0, "metric": ["top1"]}, []),
    ):
        request = make_request({"source": "m.onnx", **asked, **more})
        skipped = {"onnx:int16x8": "it has none"}
        tried = {s.id: s.params["runtimes"] for s in plan(request, {}, schemes, skipped).steps
                 if s.params.get("runtimes")}  # fmt: skip
        assert tried == {f"quantize:{name}": ["tflite"] for name in expected}


def test_each_change_of_the_model_is_traced() -> None:
    made = planned(precision=["fp32", "fp16"])
    traces = {step.id: step.needs for step in made.steps if step.kind == "trace"}
    assert traces == {
        "trace:simplify": ("parse", "simplify", "samples"),
        "trace:quantize:fp16": ("quantize:fp16", "simplify", "samples"),
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
    with pytest.raises(UsageError, match=f"--io-dtype {io_dtype} needs {wanted}") as caught:
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


EVERYTHING: dict[str, Any] = {
    "to": ["onnx", "ort", "tflite", "coreml", "tensorrt", "tensorrt-rtx"],
    "precision": ["fp32", "fp16", "int8", "palettized"],
    "serve": [name for name in available("servers") if "onnx" in load("servers", name).accepts],
    "max_drop": 1.0,  # without which no metric changes a model
    "bench_batches": [1],
}
OTHERS: dict[str, list[Any]] = {
    "batch": ["4"], "dims": [{"n": 3}], "kwargs": [{"n": 3}], "palette_bits": [4],
    "skip_passes": [["onnxsim"]], "precision": [["fp32"]], "to": [["onnx"]], "serve": [[]],
    "metric": [["top1"]], "repository": ["models"], "max_latency": [9.0], "max_memory": ["9MB"],
    "min_cosine": [0.9], "max_drop": [2.0], "io_dtype": ["float16"],
    "preparation": [[{"kind": "picture"}]], "answer": [[{"kind": "classes"}]],
    "flow": [["find"]], "layers": [{"zoo": {}}], "deploy": [[]],
}  # fmt: skip
"""Values that options may have, where it isn't any text or number."""


def others(item: Field[Any], now: Any) -> list[Any]:
    """Other values of a field."""
    if item.name in OTHERS:
        return OTHERS[item.name]
    if choices := option_of(item.name).choices:
        return [choice for choice in choices if choice != now]
    if isinstance(now, bool):
        return [not now]
    kind = value_type(item.name)
    one = kind(2 if now != 2 else 3) if kind in (int, float) else "x"
    return [{"x": one} if isinstance(now, dict) else [one] if isinstance(now, list) else one]


def keys(**fields: Any) -> dict[str, str]:
    """Each step's own key, whatever those of the steps before it are."""
    request = make_request({"source": "m.onnx", **EVERYTHING, **fields})
    targets = {name: load("emitters", name) for name in request.to}
    schemes = {name: target.scheme for name, target in targets.items()}
    serves = {name: load("servers", name).accepts for name in request.serve}
    return {step.id: step.key([], {}) for step in plan(request, serves, schemes).steps}


def test_an_option_is_in_the_keys_of_the_steps_that_it_says_it_affects() -> None:
    """And in no other's; an option of one target or server, only in that one's."""
    before, wrong = keys(), []
    assert {id.split(":")[0] for id in before} == {*STEPS, "trace"}
    for item in all_fields()[1:]:
        affects = set(item.metadata["affects"])
        assert affects and affects <= {*STEPS, *BESIDE}, item.name
        value = make_request({"source": "", **EVERYTHING}).value(item.name)
        after = [keys(**{item.name: other}) for other in others(item, value)]
        if "plan" in affects:
            continue
        assert all(made.keys() == before.keys() for made in after), item.name
        changed = {id for id in before if any(made[id] != before[id] for made in after)}
        said = {id for id in before if affects.intersection(id.split(":")[:1]) and reads(id, item)}
        some = {id for id in said if id.startswith("quantize:")}  # by what it is lowered to
        wrong += [(item.name, id) for id in changed ^ said if id not in some]
        wrong += [(item.name, "quantize")] if some and not some & changed else []
    assert not wrong


ROOMS = {
    "parsers": {"parse", "reference"},
    "converter/samples": {"samples"},
    "converter/precision": {"calibrate", "quantize"},
    "converter/check": {"check", "bench", "results"},
    "emitters": {"emit", "check", "bench", "pack"},
    "emitters/packaging": {"pack", "package"},
    "emitters/serving": {"package"},
}
"""Where steps are carried out, by folder."""

_OTHERS = re.compile("/child/|_backend/")
TOLD = {
    ("emitters/serving/python/served.py", "io_dtype"),  # to refuse what emit made otherwise
    ("parsers/pytorch/source.py", "samples"),  # it runs code, and is known by what it gave
    ("emitters/serving/batching.py", "batch"),  # for a hint alone
    ("converter/samples/images.py", "batch"),
}
"""Readers of options that don't say so, each with why it may."""


def test_no_step_reads_an_option_that_does_not_say_it_affects_it() -> None:
    affects = {item.name: set(item.metadata["affects"]) for item in all_fields()[1:]}
    reading = re.compile(r"(?:\brequest|\basked|\w+\([\w.]*request\))\.([a-z_0-9]+)\b")
    found = set()
    for path in {path for room in ROOMS for path in (ROOT / room).rglob("*.py")}:
        place = path.relative_to(ROOT).as_posix()
        may = ROOMS[max((room for room in ROOMS if place.startswith(f"{room}/")), key=len)]
        names = {name for name in reading.findall(path.read_text()) if name in affects}
        names = set() if _OTHERS.search(place) else names  # its requests are of another kind
        found |= {(place, n) for n in names if not affects[n] & may and not affects[n] <= {*BESIDE}}
    assert found == TOLD


def reads(id: str, item: Field[Any]) -> bool:
    """Whether the target or server that a step is for takes an option."""
    kind, name = [*id.split(":"), ""][:2]
    if item.name not in of_plugins() or kind not in ("emit", "check", "bench", "pack", "package"):
        return True
    plugin = load("servers" if kind == "package" else "emitters", name)
    return item.name in taken(plugin.options)


def test_a_key_hangs_on_what_comes_before_and_on_tools() -> None:
    step, versions = planned().step("simplify"), {"onnx": "1", "onnxruntime-gpu": "2"}
    assert step.key(["x"], versions) == planned().step("simplify").key(["x"], versions)
    assert step.key(["x"], versions) != step.key(["y"], versions)
    step = planned().step("simplify")
    for tool in ("onnxsim", "onnxslim", "onnxscript", "onnxruntime-gpu", "onnx-ir"):
        assert step.key([], {tool: "1"}) != step.key([], {tool: "2"})


def test_what_code_of_the_user_s_judges_is_not_kept() -> None:
    for metric, kept in ((["top1"], True), (["top1", "metric.py:iou"], False)):
        made = planned(precision=["fp16"], max_drop=1.0, metric=metric)
        assert made.step("quantize:fp16").kept is kept
    assert planned(precision=["fp16"], metric=["metric.py:iou"]).step("quantize:fp16").kept


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
    with pytest.raises(UsageError, match="can't serve"):
        planned(serve=["triton"], to=["tensorrt"])


def test_what_only_led_to_what_cannot_be_is_dropped() -> None:
    request = make_request(
        {"source": "m.onnx", "to": ["onnx", "tflite"], "precision": ["fp32", "fp16", "int8"],
         "serve": ["triton"]}
    )  # fmt: skip
    schemes = {"onnx": ONNXRUNTIME_CPU, "tflite": TFLITE}
    made = plan(request, {"triton": ["onnx"]}, schemes, {"tflite:fp16": "it has none"})
    assert made.has("emit:onnx:fp16") and not made.has("emit:tflite:fp16")
    everything = {step.id for step in made.steps}
    assert made.wanted(()) == everything
    left = everything - made.wanted({"emit:tflite:int8"})
    assert left == {
        "emit:tflite:int8", "check:tflite:int8", "bench:tflite:int8", "pack:tflite:int8",
        "quantize:int8:tflite-int8", "trace:quantize:int8:tflite-int8",
    }  # fmt: skip
    wanted = made.wanted({"masks"})
    assert not [id for id in wanted if "int8" in id or "fp16" in id or id == "calibrate"]
    assert {"emit:onnx:fp32", "package:triton:onnx:fp32"} <= wanted
    assert "masks" in made.wanted({"quantize:int8:tflite-int8"})
