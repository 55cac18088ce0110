"""ONNX Runtime's own basic optimizations, as a pass: exact rewrites in standard operators."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir
import onnxruntime

from converter.passes.library import LibraryPass
from converter.passes.tools import run_tool


class OrtBasic(LibraryPass):
    """Loads the model at ``ORT_ENABLE_BASIC`` and takes the graph that ONNX Runtime then holds.

    The basic level stays within standard operators; the higher ones write ``com.microsoft``
    operators, which only ONNX Runtime knows. It runs in the simplifiers' process: some Ifs in Ifs
    make it crash.
    """

    name = "ort-basic"
    level = "ORT_ENABLE_BASIC"
    summary = "ONNX Runtime's basic level: folds constants, drops and fuses standard operators"

    def versions(self) -> Mapping[str, str]:
        """ONNX Runtime's version."""
        return {"onnxruntime": onnxruntime.__version__}

    def simplify(self, model: onnx_ir.Model) -> onnx_ir.Model:
        """What ONNX Runtime makes of ``model``."""
        return run_tool("ort-basic", model, {"level": self.level})
