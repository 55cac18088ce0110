"""What TensorFlow's and Keras' sources need in the Python that reads them."""

from __future__ import annotations

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
