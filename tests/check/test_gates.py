"""Gates: limits, what decides, and what is not judged."""

import numpy as np
import pytest

from converter.check.accuracy import AccuracyResult
from converter.check.gates import Drop, GateResult, Limits, judge, require
from converter.check.metric import MetricResult
from converter.check.metrics import Comparer, compare
from converter.errors import GateError
from converter.options.request import Request
from tests.report.build import point


def gate(gates: list[GateResult], name: str) -> GateResult:
    return next(item for item in gates if item.name == name)


def outputs(**arrays: object) -> dict[str, np.ndarray]:
    return {name: np.asarray(array) for name, array in arrays.items()}


def judged(r: dict[str, np.ndarray], c: dict[str, np.ndarray], **limits: float) -> list[GateResult]:
    return judge(Limits(**{"cosine": 0.999, **limits}), AccuracyResult(compare(r, c)))


@pytest.mark.parametrize(
    ("precision", "limit"),
    [("fp32", 0.9999), ("fp16", 0.999), ("bf16", 0.999), ("int8", 0.99), ("int8-dynamic", 0.99)],
)
def test_default_limits(precision: str, limit: float) -> None:
    assert Limits.of(Request("m"), precision).cosine == limit
    assert Limits.of(Request("m", min_cosine=0.5), precision).cosine == 0.5


@pytest.mark.parametrize(("asked", "found", "status", "words"), [
    ("float16", np.float16, "passed", "for float16 where the source has float32, as asked"),
    ("float16", np.float32, "failed", "is float32; --io-dtype float16 was asked for"),
    ("float32", np.float16, "failed", "--io-dtype float16, say so"),
    ("float32", np.float32, "passed", "are the source's"),
])  # fmt: skip
def test_the_type_that_was_asked_for(asked: str, found: type, status: str, words: str) -> None:
    r, c = outputs(y=np.ones((1, 3), np.float32)), outputs(y=np.ones((1, 3), found))
    gates = judge(Limits(0.999, io_dtype=asked), AccuracyResult(compare(r, c)))
    result = gate(gates, "interface")
    assert (result.status, words in result.why) == (status, True), result.why


def test_only_the_precision_s_own_type_is_expected() -> None:
    request = Request("m", precision=["fp32", "fp16", "bf16"], io_dtype="float16")
    types = {name: Limits.of(request, name).io_dtype for name in request.precision}
    assert types == {"fp32": "float32", "fp16": "float16", "bf16": "float32"}


def test_the_same_outputs_pass() -> None:
    values = outputs(y=np.ones((1, 3), np.float32), i=np.array([1]))
    gates = judged(values, values)
    assert {item.name for item in gates} == {
        "interface", "non-finite", "cosine", "scale", "agreement"
    }  # fmt: skip
    assert all(item.passed for item in gates)
    require(gates, "onnx fp32")


def test_the_worst_output_decides() -> None:
    good, bad = np.ones(4), np.array([1, 1, 1, -1.0])
    gates = judged(outputs(a=good, b=good), outputs(a=good, b=bad), max_abs=0.1)
    assert gate(gates, "cosine").value == pytest.approx(0.5)
    assert gate(gates, "cosine").why.startswith("b on sample 1")
    assert gate(gates, "max-abs-error").value == 2
    with pytest.raises(GateError, match="missed 2 gates") as caught:
        require(gates, "onnx fp32")
    assert caught.value.exit_code == 4 and len(caught.value.details) == 2
    assert caught.value.details[0].startswith("cosine: 0.500000, limit 0.999; b on sample 1")


def test_a_wrong_factor_is_caught_though_cosine_is_one() -> None:
    values = np.arange(1.0, 5)
    gates = judged(outputs(y=values, z=values), outputs(y=values * 2, z=values))
    assert gate(gates, "cosine").passed
    assert gate(gates, "scale").status == "failed"
    assert gate(judged(outputs(y=values), outputs(y=values * 1.02)), "scale").passed


def test_all_zero_outputs() -> None:
    zero = outputs(y=np.zeros(3))
    assert [item.name for item in judged(zero, zero)] == ["interface", "non-finite", "judged"]
    assert gate(judged(zero, outputs(y=np.ones(3))), "cosine").status == "failed"


@pytest.mark.parametrize(("r", "c", "status"), [
    ([1.0, np.nan], [1.0, np.nan], "passed"),
    ([1.0, 2.0], [1.0, np.nan], "failed"),
    ([1.0, 2.0], [1.0, np.inf], "failed"),
    ([1.0, -np.inf], [1.0, -65504.0], "passed"),
    ([1.0, -np.inf], [1.0, np.nan], "failed"),
    ([1.0, np.inf], [1.0, -np.inf], "failed"),
])  # fmt: skip
def test_non_finite(r: list[float], c: list[float], status: str) -> None:
    assert gate(judged(outputs(y=r), outputs(y=c)), "non-finite").status == status


@pytest.mark.parametrize(("c", "words"), [
    (outputs(z=np.ones(2)), "y is missing"),
    (outputs(y=np.ones(2), z=np.ones(2)), "z is not in the source"),
    (outputs(y=np.ones(2, np.float16)), "y is float16, the source's is float64"),
    (outputs(y=np.ones((2, 1))), "another shape"),
])  # fmt: skip
def test_interface(c: dict[str, np.ndarray], words: str) -> None:
    result = gate(judged(outputs(y=np.ones(2)), c), "interface")
    assert result.status == "failed" and words in result.why


def test_what_can_not_be_compared_does_not_pass() -> None:
    gates = judged(outputs(y=np.ones(2)), outputs(y=np.ones(3)), max_abs=1)
    assert gate(gates, "cosine").status == "failed"
    assert gate(gates, "max-abs-error").status == "not judged"
    assert gate(judged(outputs(y=np.ones(2)), {}), "cosine").status == "failed"
    for accuracy in (None, AccuracyResult(Comparer().result())):
        gates = judge(Limits(0.99, latency_ms=3), accuracy, metrics_asked=["top1"])
        assert {item.status for item in gates} == {"not judged"}
        assert all(item.why for item in gates)


def metric(drop: float, unit: str = "%") -> AccuracyResult:
    result = MetricResult("m", unit, True, 50, 80.0, 80 - drop, drop)
    values = outputs(y=np.ones(2))
    return AccuracyResult(compare(values, values), (result,))


@pytest.mark.parametrize(("drop", "limit", "unit", "status"), [
    (1.0, None, "%", "passed"),
    (1.1, None, "%", "failed"),
    (-3.0, None, "%", "passed"),
    (0.4, 0.3, "%", "failed"),
    (0.4, None, "", "not judged"),
    (0.4, 0.5, "", "passed"),
    (0.4, 0.3, "mm", "failed"),
    (0.4, {"m": 0.3, "": 1.0}, "%", "failed"),
    (0.4, {"n": 0.3, "": 1.0}, "mm", "passed"),
    (0.4, {"n": 0.3}, "mm", "not judged"),
    (1.1, {"n": 0.3}, "%", "failed"),
])  # fmt: skip
def test_drop(drop: float, limit: Drop, unit: str, status: str) -> None:
    gates = judge(Limits(0.99, max_drop=limit), metric(drop, unit))
    assert gate(gates, "drop m").status == status


def test_a_metric_without_labels_is_not_judged() -> None:
    values = outputs(y=np.ones(2))
    gates = judge(Limits(0.99), AccuracyResult(compare(values, values)), metrics_asked=["top1"])
    assert gate(gates, "drop top1").status == "not judged"
    assert "no labels" in gate(gates, "drop top1").why
    gates = judge(Limits(0.99), metric(0.0), metrics_asked=["folder/m"])
    assert [item.status for item in gates if item.name.startswith("drop")] == ["passed"]


def test_latency() -> None:
    points = [point("artifact", 8, 1, 3.0, 500), point("artifact", 1, 1, 10.0, 500)]
    nothing = AccuracyResult(Comparer().result())
    for limit, status in ((20.0, "passed"), (9.0, "failed")):
        result = gate(judge(Limits(0.9, latency_ms=limit), nothing, points), "latency p95")
        assert result.status == status and result.measured
    few = [point("artifact", 1, 1, 10.0, 15)]
    result = gate(judge(Limits(0.9, latency_ms=20), nothing, few), "latency p95")
    assert result.status == "not judged" and "15 runs" in result.why


def test_limits_of_other_sources_and_kernels() -> None:
    """A source in integers has int8's, as runtimes round them differently; the user's go first."""
    assert Limits.of(Request("m"), "fp32", "int8").cosine == 0.99
    assert Limits.of(Request("m"), "fp32", "float32").cosine == 0.9999
    assert Limits.of(Request("m", min_cosine=0.9999), "fp32", "int8").cosine == 0.9999
    assert Limits(0.9999, latency_ms=1.0).elsewhere() == Limits(0.9999)
