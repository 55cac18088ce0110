"""How much memory a large model takes while it is converted and checked: mapped pages count."""

import sys
from pathlib import Path

import pytest

from bench.growth import make_large
from bench.resident import MOST, converted

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from Linux's /proc"),
]


@pytest.mark.parametrize(
    ("target", "precision"), [("onnx", "fp32"), ("onnx", "fp16"), ("coreml", "fp16+int8-weights")]
)
def test_a_large_model_takes_little_more_than_its_bytes(
    target: str, precision: str, tmp_path: Path
) -> None:
    make_large(tmp_path / "small.onnx", 1 << 22)
    held = make_large(tmp_path / "large.onnx", 8 << 26, 4096)
    small, large = (
        converted(tmp_path, f"{name}.onnx", target, precision) for name in ("small", "large")
    )
    assert large.resident - small.resident <= MOST * held
