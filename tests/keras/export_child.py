"""Exports Keras layers, or TensorFlow functions, one by one and compares ONNX Runtime with them.

``python -m tests.keras.export_child layers|functions FOLDER [CASE ...]`` prints a JSON line for
each case: ``{"case", "error", "made"}`` with the largest error relative to the outputs' scale, or
``{"case", "refused", "details"}``.
"""

import itertools
import json
import sys
import traceback
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime
import tensorflow as tf

from parsers.keras.child import files as keras_files
from parsers.tensorflow.child import export as tf_export
from parsers.tensorflow.child.model import Opened, TensorInfo
from parsers.worker.errors import WorkerError
from tests.keras.layer_cases import CASES, Case

Array = np.ndarray[Any, Any]
Function = Callable[..., Sequence[Any]]
Specs = list[tf_export.Spec]
IMAGE = tf_export.Spec("image", "float32", ("batch", 7, 5, 2))
LINE = tf_export.Spec("x", "float32", ("batch", "length"))
SIZES = {"length": 6, "rows": 4, "d1": 6, "d2": 5, "d3": 4}


def main(kind: str, folder: Path, names: Sequence[str]) -> None:
    """Runs the cases of these names, or all."""
    for name, make, more in {"layers": _layers, "functions": _functions}[kind](folder):
        if names and name not in names:
            continue
        keras.utils.set_random_seed(0)
        try:
            found = _compared(folder, *make(), **more)
        except WorkerError as error:
            said = [error.message, *error.details]
            found = {"refused": error.kind, "details": said, "trace": error.trace}
        except Exception:  # a layer may fail in any way, and the test that gets this then fails
            found = {"failed": traceback.format_exc()[-1500:]}
        print(json.dumps({"case": name, **found}), flush=True)


Made = Callable[[], tuple[Opened, Specs]]


def _layers(folder: Path) -> Iterator[tuple[str, Made, dict[str, Any]]]:
    for name, case in CASES.items():
        yield name, lambda case=case: _opened(folder, case), {}


def _opened(folder: Path, case: Case) -> tuple[Opened, Specs]:
    """The layer out of a .keras file."""
    ends = [keras.Input(shape, dtype=dtype, name=f"in{i}")
            for i, (shape, dtype) in enumerate(case.inputs)]  # fmt: skip
    model = keras.Model(ends, case.outputs(keras, ends))
    rng = np.random.default_rng(0)
    # Biases and moving averages start as zeros and ones, which hide what isn't applied.
    for weight in model.weights:
        if weight.dtype == "float32":
            weight.assign(weight + rng.uniform(0.0, 0.3, weight.shape).astype("float32"))
    model.save(folder / "model.keras")
    opened = keras_files.open_file(str(folder / "model.keras"), False, [])
    specs = []
    for info in opened.inputs:
        sizes = [size or f"d{axis}" for axis, size in enumerate(info.shape or ())]
        specs.append(tf_export.Spec(info.name, info.dtype, ("batch", *sizes[1:])))
    return opened, specs


def _functions(folder: Path) -> Iterator[tuple[str, Made, dict[str, Any]]]:
    def case(name: str, function: Function, *specs: tf_export.Spec, **more: Any) -> Any:
        return name, lambda: (_traced(function, specs), list(specs)), more

    other, count = LINE._replace(name="y"), tf.Variable(0.0)
    start = tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2]), tf.constant([3, 4]))
    table = tf.lookup.StaticHashTable(start, 0)
    yield case("unsupported", _unsupported, LINE)
    yield case("state", lambda x: [x + count.assign_add(1.0)], LINE)
    # A variable that no output follows from, as a random layer's seed is at inference.
    yield case("unrelated_state", lambda x: [count.assign_add(1.0), x * 2.0][1:], LINE)
    yield case("strings", lambda x: [tf.strings.length(tf.strings.as_string(x))], LINE)
    yield case("table", lambda x: [table.lookup(tf.cast(x, tf.int32))], LINE)
    yield case("python", lambda x: [tf.py_function(lambda v: v, [x], tf.float32)], LINE)
    yield case("dimensions", _dimensions, LINE, other._replace(shape=("rows", 3)))
    yield case("unused", lambda x, y: [x + 1.0], LINE, other)
    yield case("erfc", lambda x: [tf.math.erfc(x)], LINE)
    yield case("expm1", lambda x: [tf.math.expm1(x)], LINE)
    yield case("bucketize", lambda x: [tf.raw_ops.Bucketize(input=x, boundaries=[-1, 0.5])], LINE)
    kinds = ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic")
    ways = ({}, {"half_pixel_centers": True}, {"align_corners": True})
    resizes = [*itertools.product(kinds, enumerate(ways)), ("ResizeArea", (0, {}))]
    for (kind, (way, how)), size in itertools.product(resizes, ([9, 10], [4, 3])):
        operator = getattr(tf.raw_ops, kind)
        yield case(f"{kind}-{way}-{size[0]}", _run(operator, size=size, **how), IMAGE)
    weight = tf.Variable(np.random.default_rng(0).normal(size=(300, 40)).astype("f4"))
    wide = LINE._replace(shape=("batch", 300))
    yield case("large", lambda x: [x @ weight], wide, large_from=1000)


def _traced(function: Function, specs: Sequence[tf_export.Spec]) -> Opened:
    shapes = [tf.TensorSpec([None] * len(s.shape), s.dtype) for s in specs]
    count = len(tf.function(function, autograph=False).get_concrete_function(*shapes).outputs)
    inputs = [TensorInfo(s.name, s.dtype, None) for s in specs]
    outputs = [TensorInfo(f"out{i}", "float32", None) for i in range(count)]
    return Opened(kind="graph", function=function, inputs=inputs, outputs=outputs)


def _run(operator: Callable[..., Any], **how: Any) -> Function:
    return lambda x: [operator(images=x, **how)]


def _unsupported(x: Any) -> list[Any]:
    return [tf.math.lgamma(x, name="first"), tf.math.bessel_i0(x, name="second")]


def _dimensions(x: Any, y: Any) -> list[Any]:
    return [tf.transpose(x), tf.concat([x, x], 1), y, tf.boolean_mask(y, y[:, 0] > 0)]


def _compared(folder: Path, opened: Opened, specs: Specs, **more: Any) -> dict[str, Any]:
    out = str(folder / "model.onnx")
    request = tf_export.Request(opened, specs, None, 18, out, lambda text: None, **more)
    made = tf_export.export(request)
    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    error = max(_error(opened, session, specs, batch) for batch in (1, 3))
    return {"made": made, "error": error, "files": sorted(path.name for path in folder.iterdir())}


def _error(opened: Opened, session: Any, specs: Specs, batch: int) -> float:
    sizes: dict[Any, Any] = {**SIZES, "batch": batch}
    feeds = {s.name: _values(s, [sizes.get(d, d) for d in s.shape]) for s in specs}
    wanted = [t.numpy() for t in opened.function(*map(tf.constant, feeds.values()))]
    found = session.run([o.name for o in opened.outputs], feeds)
    return max(_relative(a, b) for a, b in zip(wanted, found, strict=True))


def _values(spec: tf_export.Spec, shape: list[int]) -> Array:
    rng = np.random.default_rng(zlib.crc32(f"{spec.name}{shape}".encode()))
    if spec.dtype == "int32":
        values = rng.integers(1, 9, shape)
        # Padding at the end, as a mask sees it.
        values[..., max(values.shape[-1] - 2, 1) :] = 0
        return values.astype(np.int32)
    if spec.dtype == "uint8":
        return rng.integers(0, 256, shape).astype(np.uint8)
    return rng.normal(0.0, 1.5, shape).astype(spec.dtype)


def _relative(wanted: Array, found: Array) -> float:
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        raise AssertionError(f"{found.dtype}{found.shape} instead of {wanted.dtype}{wanted.shape}")
    if not np.array_equal(np.isfinite(wanted), np.isfinite(found)):
        return float("inf")
    scale = max(float(np.abs(wanted).max(initial=0.0)), 1e-3)
    return float(np.abs(wanted.astype("f8") - found.astype("f8")).max(initial=0.0)) / scale


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
