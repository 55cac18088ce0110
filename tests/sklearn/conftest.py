"""A model in its process, beside what ONNX Runtime makes of its export."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from converter.runtime.worker import Worker
from parsers.sklearn.spec import SKLEARN
from tests.frameworks import framework, outputs


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    """One child for all tests."""
    with framework(SKLEARN) as made:
        yield made


def both(worker: Worker, path: Path, feeds: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """For each output its name, what the model itself gives and what ONNX Runtime does."""
    kinds = {".skops": "skops", ".txt": "lightgbm", ".joblib": "pickle"}
    kind, onnx = kinds.get(path.suffix, "xgboost"), path.with_suffix(".onnx")
    worker.call("load", file=str(path), kind=kind, trust=kind == "pickle", search_paths=[])
    worker.call("export", out=str(onnx), opset=20)
    wanted = outputs(worker, path.parent, feeds)
    session = onnxruntime.InferenceSession(onnx)
    found = session.run(list(wanted), feeds)
    return [(name, wanted[name], value) for name, value in zip(wanted, found, strict=True)]
