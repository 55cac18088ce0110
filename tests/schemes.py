"""All int8 schemes by name, in an order for tables of tests."""

from typing import Any

from converter.precision.int8.scheme import ONNXRUNTIME_CPU, ONNXRUNTIME_CPU_REDUCED, Scheme
from converter.runtime.ort_integers import saturates
from emitters.coreml.scheme import COREML
from emitters.tensorrt.scheme import TENSORRT
from emitters.tflite.scheme import TFLITE, TFLITE_INT16

HERE: dict[str, Any] = {"reduce_range": saturates()}
"""Options for int8 in ONNX Runtime that computes right on this machine: on x86 without VNNI, only
with 7 bits."""

SCHEMES: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        *(ONNXRUNTIME_CPU, ONNXRUNTIME_CPU_REDUCED),
        *(TENSORRT, TFLITE, TFLITE_INT16, COREML),
    )
}
