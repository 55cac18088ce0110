"""Exports every case of layer_cases and compares ONNX Runtime with Keras; run as a script.

``python -m tests.keras.sweep_child FOLDER [CASE...]`` prints a JSON line for each case:
``{"case", "error"}`` with the largest error relative to the outputs' scale, or
``{"case", "refused", "details"}``.
"""

from __future__ import annotations

import json
import sys
import traceback
import zlib
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime
import tensorflow as tf

from parsers.worker import keras_files, tf_export
from parsers.worker.errors import WorkerError
from tests.keras.layer_cases import CASES, Case

SIZES = {"batch": 1, "d1": 6, "d2": 5, "d3": 4}


def main() -> None:
    """Runs the cases."""
    folder = Path(sys.argv[1])
    for name in sys.argv[2:] or CASES:
        print(json.dumps({"case": name, **_result(folder, name)}), flush=True)


def _result(folder: Path, name: str) -> dict[str, Any]:
    keras.utils.set_random_seed(0)
    try:
        path = _saved(folder, CASES[name])
        return {"error": _compared(folder, path)}
    except WorkerError as error:
        return {
            "refused": error.kind,
            "details": [error.message, *error.details],
            "trace": error.trace,
        }
    except Exception:  # a layer may fail in any way, and the test that gets this then fails
        return {"failed": traceback.format_exc()[-1500:]}


def _saved(folder: Path, case: Case) -> Path:
    inputs = [
        keras.Input(shape, dtype=dtype, name=f"in{i}")
        for i, (shape, dtype) in enumerate(case.inputs)
    ]
    model = keras.Model(inputs, case.make(*inputs))
    rng = np.random.default_rng(0)
    # Biases and moving averages start as zeros and ones, which hide what isn't applied.
    for weight in model.weights:
        if weight.dtype == "float32":
            weight.assign(weight + rng.uniform(0.0, 0.3, weight.shape).astype("float32"))
    path = folder / "model.keras"
    model.save(path)
    return path


def _compared(folder: Path, path: Path) -> float:
    opened = keras_files.open_file(str(path), False, [])
    specs = [
        tf_export.Spec(
            info.name,
            info.dtype,
            tuple(
                d if d is not None else ("batch" if i == 0 else f"d{i}")
                for i, d in enumerate(info.shape or ())
            ),
        )
        for info in opened.inputs
    ]
    out = str(folder / "model.onnx")
    request = tf_export.Request(opened, specs, None, 18, out, lambda text: None)
    tf_export.export(request)
    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    return max(_error(opened, session, specs, batch) for batch in (1, 3))


def _error(opened: Any, session: Any, specs: list[tf_export.Spec], batch: int) -> float:
    feeds = {
        s.name: _values(s, [SIZES[d] if isinstance(d, str) else d for d in (batch, *s.shape[1:])])
        for s in specs
    }
    wanted = [t.numpy() for t in opened.function(*map(tf.constant, feeds.values()))]
    found = session.run([o.name for o in opened.outputs], feeds)
    return max(_relative(a, b) for a, b in zip(wanted, found, strict=True))


def _values(spec: tf_export.Spec, shape: list[int]) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(zlib.crc32(f"{spec.name}{shape}".encode()))
    if spec.dtype == "int32":
        values = rng.integers(1, 9, shape)
        # Padding at the end, as a mask sees it.
        values[..., max(values.shape[-1] - 2, 1) :] = 0
        return values.astype(np.int32)
    if spec.dtype == "uint8":
        return rng.integers(0, 256, shape).astype(np.uint8)
    return rng.normal(0.0, 1.5, shape).astype(spec.dtype)


def _relative(wanted: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> float:
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        raise AssertionError(f"{found.dtype}{found.shape} instead of {wanted.dtype}{wanted.shape}")
    if not np.array_equal(np.isfinite(wanted), np.isfinite(found)):
        return float("inf")
    scale = max(float(np.abs(wanted).max(initial=0.0)), 1e-3)
    return float(np.abs(wanted.astype("f8") - found.astype("f8")).max(initial=0.0)) / scale


if __name__ == "__main__":
    main()
