"""What is known of the source format tensorflow without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.protocols.spec import ParserSpec
from converter.runtime.frameworks import Framework

TENSORFLOWS = (
    *("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tensorflow-rocm"),
    *("tensorflow-intel", "tensorflow-aarch64", "tensorflow-cpu-aws", "tf-nightly"),
)
"""The distributions that install the module ``tensorflow``."""

TENSORFLOW = Framework(
    *("TensorFlow, Keras", "tensorflow.child.backend:TensorFlowBackend", "tensorflow"),
    needs=("|".join(TENSORFLOWS), "keras", "tf2onnx", "onnx", "onnx-ir"),
    own=(*TENSORFLOWS, "keras", "tf2onnx"),
    uses=("numpy", "h5py"),
)

SPECS = {
    "tensorflow": ParserSpec(
        options=("signature",),
        framework=TENSORFLOW,
        extra=TENSORFLOW.extra,
        marks=Marks(suffixes=(".pb", ".meta"), folder="a SavedModel (saved_model.pb)"),
    )
}
