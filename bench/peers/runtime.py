"""``runtime.py RUNTIME FILE SAMPLES THREADS [OUTPUTS]``: runs a model's file on the CPU.

RUNTIME is ``onnxruntime``, ``litert`` or ``openvino``, which have their own defaults but for
threads, and that OpenVINO computes in float32 what isn't integers. SAMPLES is an .npz with
``NUMBER/INPUT`` for each sample's inputs. The first is timed, and the median of its milliseconds
printed; with OUTPUTS all are run instead, and their first outputs stored by number. It runs in the
runtime's environment.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

WARM, SECONDS = 0.2, 0.6
"""How long it runs before times count, and with them."""
OPENVINO = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
Feeds = Mapping[str, Any]
Run = Callable[[Feeds], Any]


def onnxruntime(file: str, threads: int) -> Run:
    """A session's ``run``."""
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)[0]


def litert(file: str, threads: int) -> Run:
    """An interpreter with its default delegate, XNNPACK."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(file, num_threads=threads)
    inputs = {item["name"]: item for item in interpreter.get_input_details()}
    output = interpreter.get_output_details()[0]["index"]
    shapes: dict[str, tuple[int, ...]] = {}

    def run(feeds: Feeds) -> Any:
        if shapes != (found := {name: feeds[name].shape for name in inputs}):
            for name, shape in found.items():
                interpreter.resize_tensor_input(inputs[name]["index"], shape)
            interpreter.allocate_tensors()
            shapes.update(found)
        for name, item in inputs.items():
            interpreter.set_tensor(item["index"], feeds[name].astype(item["dtype"]))
        interpreter.invoke()
        return interpreter.get_tensor(output)

    return run


def openvino(file: str, threads: int) -> Run:
    """An infer request of the model compiled for a sample's shapes."""
    import openvino as runtime  # type: ignore[import-not-found]

    core, requests = runtime.Core(), dict[str, Any]()

    def run(feeds: Feeds) -> Any:
        shapes = {name: array.shape for name, array in feeds.items()}
        if (key := str(shapes)) not in requests:
            model = core.read_model(file)
            model.reshape(shapes)
            options = {**OPENVINO, "INFERENCE_NUM_THREADS": threads}
            requests[key] = core.compile_model(model, "CPU", options).create_infer_request()
        return requests[key].infer(feeds, share_inputs=True)[0]

    return run


def read_samples(path: str, count: int | None = None) -> list[dict[str, Any]]:
    """Each sample's inputs by name; of the first ``count`` samples."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    with np.load(path) as stored:
        for key in stored.files:
            number, name = key.split("/", 1)
            if count is None or int(number) < count:
                found[number][name] = stored[key]
    return [found[number] for number in sorted(found)]


def main(name: str, file: str, samples: str, threads: str, outputs: str = "") -> None:
    """Measures and prints, or runs and stores.

    Args:
        name: ``onnxruntime``, ``litert`` or ``openvino``.
        file: The model's file.
        samples: An .npz, as the module's documentation says.
        threads: How many run it.
        outputs: An .npz that takes the outputs; empty: the file is timed.
    """
    run: Run = globals()[name](file, int(threads))
    feeds = read_samples(samples, None if outputs else 1)
    if outputs:
        given: Any = {f"{n:04}": np.array(run(each)) for n, each in enumerate(feeds)}
        np.savez(outputs, **given)
        return
    taken, end = list[tuple[float, float]](), time.perf_counter() + WARM + SECONDS
    while (start := time.perf_counter()) < end:
        run(feeds[0])
        taken.append((start, (time.perf_counter() - start) * 1e3))
    print(statistics.median(ms for start, ms in taken if start >= end - SECONDS))


if __name__ == "__main__":
    main(*sys.argv[1:])
