"""Real models on the card: every gate of every precision, as engines and in ONNX Runtime."""

from collections.abc import Mapping
from typing import Any

import pytest

from bench.gpu_models import PRECISIONS, SUBJECTS, Subject, converted

each_model = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def _require_packages(subject: Subject) -> None:
    pytest.importorskip("torch")
    if subject.name == "minilm":
        pytest.importorskip("transformers")


def _cosine(report: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(gate for gate in report["gates"] if gate["name"] == "cosine")


@each_model
@pytest.mark.parametrize("precision", PRECISIONS)
def test_engine(subject: Subject, precision: str, target: str) -> None:
    _require_packages(subject)
    report = converted(subject, target, precision, providers=["cpu"]).report
    assert all(gate["status"] == "passed" for gate in report["gates"])
    assert _cosine(report)["value"] >= _cosine(report)["limit"]
    assert report["runtime"]["name"] == target
    assert report["runtime"]["device"]


@each_model
@pytest.mark.parametrize("precision", ("fp32", "fp16"))
def test_onnx_runtime_cuda(subject: Subject, precision: str, ort_cuda: None) -> None:
    _require_packages(subject)
    report = converted(subject, "onnx", precision, providers=["cuda"]).report
    assert all(gate["status"] == "passed" for gate in report["gates"])
    nodes = report["runtime"]["nodes"]
    assert nodes["CUDA"] > 0.9 * sum(nodes.values())
