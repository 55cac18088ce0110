"""Exports TensorFlow functions one by one and says what came of it; run as a script.

``python -m tests.keras.export_child FOLDER`` prints a JSON line for each case; see test_export.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import tensorflow as tf

from parsers.worker import tf_export
from parsers.worker.errors import WorkerError
from parsers.worker.tf_model import Opened, TensorInfo

Function = Callable[..., Sequence[Any]]
IMAGE = tf_export.Spec("image", "float32", ("batch", 7, 5, 2))
LINE = tf_export.Spec("x", "float32", ("batch", "length"))


def main() -> None:
    """Runs every case."""
    folder = Path(sys.argv[1])
    for name, (function, specs) in _cases().items():
        print(json.dumps({"case": name, **_result(folder, function, specs)}), flush=True)
    large = _result(folder, _dense(), [LINE._replace(shape=("batch", 300))], external_from=1000)
    large["files"] = sorted(path.name for path in folder.iterdir())
    print(json.dumps({"case": "large", **large}), flush=True)


def _cases() -> dict[str, tuple[Function, list[tf_export.Spec]]]:
    cases: dict[str, tuple[Function, list[tf_export.Spec]]] = {
        "unsupported": (_unsupported, [LINE]),
        "state": (_state(), [LINE]),
        "unrelated_state": (_unrelated_state(), [LINE]),
        "strings": (lambda x: [tf.strings.length(tf.strings.as_string(x))], [LINE]),
        "table": (_table(), [LINE]),
        "python": (lambda x: [tf.py_function(lambda v: v, [x], tf.float32)], [LINE]),
        "dimensions": (_dimensions, [LINE, LINE._replace(name="y", shape=("rows", 3))]),
        "unused": (lambda x, y: [x + 1.0], [LINE, LINE._replace(name="y")]),
        "erfc": (lambda x: [tf.math.erfc(x)], [LINE]),
        "expm1": (lambda x: [tf.math.expm1(x)], [LINE]),
        "bucketize": (lambda x: [tf.raw_ops.Bucketize(input=x, boundaries=[-1, 0.5])], [LINE]),
    }
    kinds = ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic")
    for kind, corners, half in itertools.product(kinds, (False, True), (False, True)):
        if not (corners and half):
            for size in ([9, 10], [4, 3]):
                key = f"{kind}-{corners:d}{half:d}-{size[0]}"
                cases[key] = (_resize(kind, size, corners, half), [IMAGE])
    for size in ([9, 10], [4, 3]):
        cases[f"ResizeArea-{size[0]}"] = (_area(size), [IMAGE])
    return cases


def _resize(kind: str, size: list[int], corners: bool, half: bool) -> Function:
    operator = getattr(tf.raw_ops, kind)
    return lambda x: [operator(images=x, size=size, align_corners=corners, half_pixel_centers=half)]


def _area(size: list[int]) -> Function:
    return lambda x: [tf.raw_ops.ResizeArea(images=x, size=size)]


def _unsupported(x: Any) -> list[Any]:
    return [tf.math.lgamma(x, name="first"), tf.math.bessel_i0(x, name="second")]


def _state() -> Function:
    count = tf.Variable(0.0)
    return lambda x: [x + count.assign_add(1.0)]


def _unrelated_state() -> Function:
    """A variable that no output follows from, as a random layer's seed is at inference."""
    count = tf.Variable(0.0)

    def function(x: Any) -> list[Any]:
        count.assign_add(1.0)
        return [x * 2.0]

    return function


def _table() -> Function:
    start = tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2]), tf.constant([3, 4]))
    table = tf.lookup.StaticHashTable(start, 0)
    return lambda x: [table.lookup(tf.cast(x, tf.int32))]


def _dimensions(x: Any, y: Any) -> list[Any]:
    return [tf.transpose(x), tf.concat([x, x], 1), y, tf.boolean_mask(y, y[:, 0] > 0)]


def _dense() -> Function:
    weight = tf.Variable(np.random.default_rng(0).normal(size=(300, 40)).astype("f4"))
    return lambda x: [x @ weight]


def _result(
    folder: Path, function: Function, specs: list[tf_export.Spec], **options: Any
) -> dict[str, Any]:
    traced = tf.function(function, autograph=False)
    shapes = [tf.TensorSpec([None] * len(s.shape), s.dtype) for s in specs]
    count = len(traced.get_concrete_function(*shapes).outputs)
    opened = Opened(
        kind="graph",
        function=function,
        inputs=[TensorInfo(s.name, s.dtype, None) for s in specs],
        outputs=[TensorInfo(f"out{i}", "float32", None) for i in range(count)],
    )
    out = str(folder / "model.onnx")
    request = tf_export.Request(opened, specs, None, 18, out, lambda text: None, **options)
    try:
        made = tf_export.export(request)
    except WorkerError as error:
        return {"refused": error.kind, "details": error.details}
    return {"made": made, "error": _error(function, specs, out)}


def _error(function: Function, specs: list[tf_export.Spec], out: str) -> float:
    rng = np.random.default_rng(0)
    sizes = {"batch": 2, "length": 6, "rows": 4}
    feeds = {
        s.name: rng.normal(0, 2, [sizes.get(d, d) for d in s.shape]).astype(s.dtype) for s in specs
    }
    found = onnxruntime.InferenceSession(out).run(None, feeds)
    wanted = [t.numpy() for t in function(*map(tf.constant, feeds.values()))]
    if [a.shape for a in wanted] != [a.shape for a in found]:
        return float("inf")
    return max(_relative(a, b) for a, b in zip(wanted, found, strict=True))


def _relative(wanted: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> float:
    scale = max(float(np.abs(wanted).max()), 1e-3)
    return float(np.abs(wanted - found).max()) / scale


if __name__ == "__main__":
    main()
