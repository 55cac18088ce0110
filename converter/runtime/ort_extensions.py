"""The library of operators that decode files in ONNX Runtime."""

from __future__ import annotations

import importlib.util

import onnxruntime

from converter.errors import DependencyError

PICTURES, SOUNDS = "com.microsoft.extensions", "ai.onnx.contrib"
"""The domains of its operators for pictures, and for sounds."""

REGISTERED = (
    "pip install onnxruntime-extensions; "
    "options.register_custom_ops_library(onnxruntime_extensions.get_library_path()) "
    "of the SessionOptions that InferenceSession gets"
)
"""How a file that needs it is run elsewhere."""


def require_extensions() -> None:
    """Raises DependencyError where it isn't installed."""
    if importlib.util.find_spec("onnxruntime_extensions") is None:
        raise DependencyError(
            "the file needs onnxruntime-extensions, which isn't installed",
            code="package-missing",
            hint="pip install 'modelyard[extensions]'",
        )


def register(options: onnxruntime.SessionOptions) -> None:
    """Makes a session know its operators.

    Raises:
        DependencyError: It isn't installed.
    """
    require_extensions()
    import onnxruntime_extensions

    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
