"""Hand-made ONNX models of a node or two, and the folders that a Triton server reads them from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from tests.serving.models import BATCH_3, Shape, make_proto


def model_bytes(*parts: Any) -> bytes:
    """A checked model of what ``make_proto`` takes, serialized."""
    model = make_proto(*parts)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def adder(shape: Shape = BATCH_3, increment: float = 1.0) -> bytes:
    """A model of `y = x + increment` on 32-bit floats."""
    tensor = (TensorProto.FLOAT, shape)
    step = helper.make_tensor("step", TensorProto.FLOAT, [], [increment])
    node = helper.make_node("Add", ["x", "step"], ["y"])
    return model_bytes([node], {"x": tensor}, {"y": tensor}, [step])


def put_model(
    repository: Path,
    name: str,
    config: str,
    versions: Mapping[int, bytes],
    files: Mapping[str, bytes] | None = None,
) -> None:
    """Write a model folder."""
    folder = repository / name
    models = {f"{version}/model.onnx": model for version, model in versions.items()}
    for path, content in {**models, **(files or {})}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    (folder / "config.pbtxt").write_text(config, encoding="utf-8")
