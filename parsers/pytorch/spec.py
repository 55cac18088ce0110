"""What is known of the source format pytorch without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.protocols.spec import ParserSpec
from converter.runtime.frameworks import Framework
from converter.runtime.lent_packages import Lent

_PICKLE = "a Python pickle, as PyTorch writes (.pth, .pt)"

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

MANIFEST = "MAR-INF/MANIFEST.json"
"""What makes a zip a model archive of TorchServe's."""

_OPTIONS = ("state_as_inputs", "submodule", "weights_key")

SPECS = {
    "mar": ParserSpec(
        options=(*_OPTIONS, "signature"),
        marks=Marks(
            suffixes=(".mar",),
            archives=((rf"^{MANIFEST}$", "a model archive of TorchServe (.mar)"),),
        ),
    ),
    "pytorch": ParserSpec(
        options=_OPTIONS,
        framework=PYTORCH,
        extra=PYTORCH.extra,
        marks=Marks(
            suffixes=(".pt2", ".pt"),
            live="a torch.nn.Module",
            magic=tuple((0, bytes([0x80, number]), _PICKLE) for number in (2, 3, 4, 5)),
            archives=(
                (r"data\.pkl$|/constants\.pkl$", "a PyTorch file (.pth, .pt)"),
                (r"model\.json|archive_format", "a PyTorch exported program (.pt2)"),
            ),
        ),
    ),
}
