"""Where a lower precision doesn't pay, it is said, with the reason where one is known."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.check.kernels import kernels_of
from converter.check.latency import LatencyPoint
from converter.machine import Machine
from converter.pipeline import slow_int8
from converter.pipeline.slow_int8 import not_faster
from converter.precision.quantized import Kept
from converter.report.model import ArtifactReport
from tests.acceptance.cli import typed, written
from tests.passes.models import text_model
from tests.report.build import point

VNNI = ("avx2", "avx512f", "avx512_vnni")


def machine(*flags: str) -> Machine:
    return Machine("a CPU", 2, 2.0, 8.0, "Linux", "3.11", flags)


def at(role: str, ms: float, batch: int = 1, callers: int = 1) -> LatencyPoint:
    return point(role, batch, callers, ms, 200)


def artifact(precision: str, *points: LatencyPoint, **fields: Any) -> ArtifactReport:
    values = {"target": "onnx", "path": "none.onnx", "bytes": 1, "sha256": "", **fields}
    values.setdefault("runtime", {"providers": ["CPU"]})
    return ArtifactReport(precision=precision, latency=list(points), **values)


def said(
    *artifacts: ArtifactReport, flags: tuple[str, ...] = VNNI, folder: Path = Path("nowhere")
) -> list[str]:
    return list(not_faster(artifacts, machine(*flags), folder))


FP32 = artifact("fp32", at("artifact", 20.0))


def test_what_is_slower_is_named_with_both_times_and_batches() -> None:
    assert said(FP32, artifact("int8", at("artifact", 8.0))) == []
    (line,) = said(FP32, artifact("int8", at("artifact", 25.0)), artifact("fp16"))
    assert line.startswith("onnx int8 IS NOT FASTER HERE: ") and "ms, float32 " in line
    assert said(artifact("int8", at("artifact", 25.0), target="other")) == []
    (line,) = said(artifact("int8", at("artifact", 25.0), at("source", 20.0), target="other"))
    assert ", the source " in line
    fp32 = artifact("fp32", at("artifact", 20.0), at("artifact", 90.0, 8))
    for one, eight, words in ((22.0, 30.0, "HERE at batch 1: "), (5.0, 100.0, "at batch 8: ")):
        (line,) = said(fp32, artifact("int8", at("artifact", one), at("artifact", eight, 8)))
        assert words in line


@pytest.mark.parametrize(("flags", "words"), [
    (("avx2", "fma"), "no VNNI"),
    (("asimd", "asimdhp"), "no dotprod"),
    (("asimd", "asimddp"), ""),
    (("avx2", "avx_vnni"), ""),
    ((), ""),
])  # fmt: skip
def test_a_cpu_without_the_instructions_is_the_reason(flags: tuple[str, ...], words: str) -> None:
    fp32 = artifact("fp32", at("artifact", 20.0), target="other")
    (line,) = said(fp32, artifact("int8", at("artifact", 25.0), target="other"), flags=flags)
    assert (words in line) if words else line.endswith(" ms")


@pytest.mark.parametrize("change", [{"warm": False}, {"n": 5}, {"run_to_run": 0.5}])
def test_nothing_is_said_of_unsettled_runs(change: dict[str, Any]) -> None:
    slow = at("artifact", 22.0)
    assert said(FP32, artifact("int8", slow)) != []
    assert said(FP32, artifact("int8", replace(slow, **change))) == []


@pytest.mark.parametrize(("precision", "more", "words"), [
    ("fp16", {}, "meant for GPUs"),
    ("int8", {}, "too small"),
    ("int8", {"lowered_share": 0.1}, "only 10.0% of the multiply-adds are int8"),
    ("fp16", {"runtime": {"providers": ["CUDA", "CPU"]}}, " ms"),
])  # fmt: skip
def test_other_reasons(precision: str, more: dict[str, Any], words: str) -> None:
    slow = artifact(precision, at("artifact", 0.3), **more)
    (line,) = said(artifact("fp32", at("artifact", 0.2)), slow)
    assert line.endswith(words) if words == " ms" else words in line


def quantized(path: Path, *ops: str) -> Path:
    """Layers between DequantizeLinear and QuantizeLinear, one after another."""
    rng = np.random.default_rng(0)
    weights = {
        f"w{i}": rng.integers(-100, 100, (4, 4, 3, 3)).astype(np.int8) for i in range(len(ops))
    }
    layers = [
        f"a{i} = DequantizeLinear(q{i}, s, z) b{i} = DequantizeLinear(w{i}, s, wz) "
        f"c{i} = {op}<pads = [1,1,1,1]>(a{i}, b{i}) q{i + 1} = QuantizeLinear(c{i}, s, z)"
        for i, op in enumerate(ops)
    ]
    text = f"""m (float[batch,4,8,8] x) => (float[batch,4,8,8] y)
        <float s = {{0.05}}, uint8 z = {{128}}, int8 wz = {{0}}>
        {{ q0 = QuantizeLinear(x, s, z) {" ".join(layers)}
           y = DequantizeLinear(q{len(ops)}, s, z) }}"""
    text_model(text, **weights).save(path)
    return path


def test_layers_without_an_int8_kernel_are_the_reason(tmp_path: Path) -> None:
    """The runtime itself is asked."""
    found = kernels_of(quantized(tmp_path / "fused.onnx", "Conv", "Conv"))
    assert (found.fused, found.in_float) == (2, {})
    found = kernels_of(quantized(tmp_path / "m.onnx", "Conv", "ConvTranspose"))
    assert (found.fused, found.in_float) == (1, {"ConvTranspose": 1})
    fp32 = artifact("fp32", at("artifact", 2.0))
    int8 = artifact("int8", at("artifact", 2.5), path="m.onnx")
    (line,) = said(fp32, int8, folder=tmp_path)
    assert "no fused int8 kernel for 1 ConvTranspose of 2 quantized layers; " in line


def test_what_costs_is_named(tmp_path: Path) -> None:
    """What stayed in float32 and why, the conversions around it, and where the time goes."""
    quantized(tmp_path / "m.onnx", "Conv", "ConvTranspose")
    fp32, int8 = artifact("fp32", at("artifact", 2.0)), artifact("int8", at("artifact", 2.5))
    left = [Kept(f"n{i}", "GRU", f"why {i}", macs) for i, macs in enumerate((1, 4, 2, 3))]
    kept = {"onnx int8": [*left, Kept("w", "MatMul", "", 9, instead="has int8 weights")]}
    named = int8.model_copy(update={"path": "m.onnx"})
    (line,) = not_faster([fp32, named], machine(*VNNI), tmp_path, kept)
    assert "; in float32 stay n1 (GRU): why 1, n3 (GRU): why 3, n2 (GRU): why 2, 1 more; " in line
    assert re.search(
        r"; 4 conversions run between int8 and float32; most of its time takes \w+ ", line
    )


def test_a_conversion_says_what_stayed_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever times are measured, each counts as slow."""
    monkeypatch.setattr(slow_int8, "WORTH", 0.0)
    monkeypatch.setattr(LatencyPoint, "settled", True)
    rng = np.random.default_rng(0)
    shapes = {"w0": (8, 8), "w": (1, 24, 8), "r": (1, 24, 8)}
    weights = {name: rng.standard_normal(size).astype(np.float32) for name, size in shapes.items()}
    text = """m (float[batch, 4, 8] x) => (float[1, batch, 8] y) { [linear] a = MatMul(x, w0)
        b = Transpose<perm = [1, 0, 2]>(a) [gru] all, y = GRU<hidden_size = 8>(b, w, r) }"""
    written(tmp_path / "m.onnx", text, **weights)
    bench = "--bench-seconds 0.1 --bench-batch 1 --bench-concurrency 1"
    line = f"convert m.onnx --samples random:8 --precision fp32,int8 {bench} --out out --json"
    alerts = [alert["text"] for alert in typed(line, tmp_path).json["report"]["alerts"]]
    (said,) = [text for text in alerts if text.startswith("onnx int8 IS NOT FASTER HERE")]
    assert "; in float32 stay gru (GRU): " in said and "most of its time takes " in said
