"""``nncf_int8.py MODEL SAMPLES OUT PRESET``: an ONNX file as OpenVINO's int8, by NNCF.

SAMPLES is calibrated on, an .npz as ``runtime.py`` takes it; PRESET is ``performance`` (NNCF's
default) or ``mixed`` (activations needn't be symmetric; whole bias correction). Prints what share
of the multiply-adds the compiled model does in integers, by its runtime model. It runs in
OpenVINO's environment.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import prod
from typing import Any

import nncf  # type: ignore[import-not-found]
import openvino  # type: ignore[import-not-found]
from runtime import OPENVINO, read_samples  # type: ignore[import-not-found]

PRODUCTS = ("Convolution", "FullyConnected", "MatMul")


def integers(model: Any) -> float:
    """The share of the multiply-adds whose operator's ``runtimePrecision`` is of eight bits."""
    found = dict[bool, int]()
    for op, info in _operators(openvino.Core().compile_model(model, "CPU", OPENVINO)):
        if info["layerType"] in PRODUCTS:
            data, weights = (tuple(each.get_shape()) for each in list(op.inputs())[:2])
            summed = data[-1]
            if info["layerType"] == "Convolution":  # of groups: G x O/G x I/G x height x width
                summed = prod(weights[1 + (len(weights) > len(data)) :])
            lowered = info["runtimePrecision"] in ("i8", "u8")
            found[lowered] = found.get(lowered, 0) + prod(op.output(0).get_shape()) * summed
    return found.get(True, 0) / sum(found.values())


def _operators(compiled: Any) -> Iterator[tuple[Any, dict[str, str]]]:
    for op in compiled.get_runtime_model().get_ordered_ops():
        info = {key: str(getattr(value, "value", value)) for key, value in op.get_rt_info().items()}
        yield op, info


def main(file: str, samples: str, out: str, preset: str) -> None:
    """Quantizes, saves, prints.

    Args:
        file: The float32 ONNX file.
        samples: What is calibrated on, an .npz.
        out: The file that is written.
        preset: ``performance`` or ``mixed``.
    """
    feeds = read_samples(samples)
    mixed = preset == "mixed"
    words = "attention_mask" in feeds[0]
    made = nncf.quantize(
        openvino.Core().read_model(file),
        nncf.Dataset(feeds),
        subset_size=len(feeds),
        preset=nncf.QuantizationPreset.MIXED if mixed else nncf.QuantizationPreset.PERFORMANCE,
        fast_bias_correction=not mixed,
        model_type=nncf.ModelType.TRANSFORMER if words else None,
    )
    openvino.save_model(made, out, compress_to_fp16=False)
    made.reshape({name: array.shape for name, array in feeds[0].items()})
    print(integers(made))


if __name__ == "__main__":
    main(*sys.argv[1:])
