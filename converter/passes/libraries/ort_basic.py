"""ONNX Runtime's own basic optimizations, as a pass: exact rewrites in standard operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir
import onnxruntime

from converter.passes.libraries.library import LibraryPass
from converter.passes.libraries.tools import run_tool
from converter.runtime.ort import WRONG


@dataclass(frozen=True)
class OrtBasicParameters:
    """Parameters of :class:`OrtBasic`.

    Attributes:
        without: Its rewrites that are left out.
    """

    without: tuple[str, ...] = WRONG


class OrtBasic(LibraryPass):
    """Loads the model at ``ORT_ENABLE_BASIC`` and takes the graph that ONNX Runtime then holds.

    The basic level stays within standard operators; the higher ones write ``com.microsoft``
    operators, which only ONNX Runtime knows. It runs in the simplifiers' process: some Ifs in Ifs
    make it crash.
    """

    name = "ort-basic"
    level = "ORT_ENABLE_BASIC"
    summary = "ONNX Runtime's basic level: folds constants, drops and fuses standard operators"
    parameters = OrtBasicParameters()

    def versions(self) -> Mapping[str, str]:
        return {"onnxruntime": onnxruntime.__version__}

    def simplify(self, model: onnx_ir.Model) -> onnx_ir.Model:
        """What ONNX Runtime makes of ``model``."""
        options = {"level": self.level, "without": list(self.parameters.without)}
        return run_tool("ort-basic", model, options)
