"""ONNX Runtime's own basic optimizations, as a pass: exact rewrites in standard operators."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import onnx
import onnx_ir
import onnxruntime

from converter.passes.library import LibraryError, LibraryPass


class OrtBasic(LibraryPass):
    """Loads the model at ``ORT_ENABLE_BASIC`` and takes the graph that ONNX Runtime then holds.

    The basic level stays within standard operators; the higher ones write ``com.microsoft``
    operators, which only ONNX Runtime knows.
    """

    name = "ort-basic"
    summary = "ONNX Runtime's basic level: folds constants, drops and fuses standard operators"

    def versions(self) -> Mapping[str, str]:
        """ONNX Runtime's version."""
        return {"onnxruntime": onnxruntime.__version__}

    def simplify(self, model: onnx_ir.Model) -> onnx_ir.Model:
        """What ONNX Runtime makes of ``model``."""
        with tempfile.TemporaryDirectory(prefix="modelyard-") as folder:
            written = Path(folder, "basic.onnx")
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            options.intra_op_num_threads = 1
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
            options.optimized_model_filepath = str(written)
            options.add_session_config_entry("session.disable_prepacking", "1")
            source = onnx_ir.to_proto(model).SerializeToString()
            try:
                onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
            except Exception as error:  # its own exception classes share no public base
                raise LibraryError(f"ONNX Runtime refuses the model: {error}") from error
            return onnx_ir.from_proto(onnx.load(written))
