"""What PyTorch's sources need in the Python that reads them."""

from __future__ import annotations

from converter.runtime.frameworks import Framework
from converter.runtime.lent_packages import Lent

_ALONG = {
    "onnxscript": ("onnxscript",),
    "onnx": ("onnx",),
    "onnx-ir": ("onnx_ir",),
    "ml-dtypes": ("ml_dtypes",),
    "protobuf": ("google.protobuf", "google._upb"),
    "numpy": ("numpy",),
    "packaging": ("packaging",),
    "typing-extensions": ("typing_extensions",),
    "sympy": ("sympy", "mpmath"),
}
"""torch exports with onnxscript, and that with onnx and others: what may go along."""

PYTORCH = Framework(
    *("PyTorch", "pytorch.child.backend:TorchBackend", "torch"),
    needs=("torch", "onnxscript"),
    own=("torch",),
    uses=("onnx", "onnx-ir", "numpy", "safetensors"),
    lends=Lent("torch", _ALONG, ("torch", "onnxscript")),
    forks=True,
)
