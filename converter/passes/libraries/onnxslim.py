"""OnnxSlim, as a pass: folding, fusions, and dead code, strongest on traced graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version

import onnx_ir

from converter.passes.libraries.library import LibraryPass
from converter.passes.libraries.tools import TIME_LIMIT, run_tool


@dataclass(frozen=True)
class OnnxslimParameters:
    """Parameters of :class:`OnnxslimSimplifier`.

    Attributes:
        time_limit: Seconds after which it is stopped.
    """

    time_limit: float = TIME_LIMIT


class OnnxslimSimplifier(LibraryPass):
    """Runs ``onnxslim.slim`` in the simplifiers' process.

    It believes declared output shapes and folds them in, so a wrong declaration changes the
    result: the comparison after the pass refuses that (its issues 118 and 277 are like it).
    """

    name = "onnxslim"
    summary = "OnnxSlim: folds constants, fuses and drops nodes"

    def __init__(self, parameters: OnnxslimParameters | None = None) -> None:
        self.parameters = parameters or OnnxslimParameters()

    def versions(self) -> Mapping[str, str]:
        """OnnxSlim's version, and that of onnx, which infers its shapes."""
        return {"onnxslim": version("onnxslim"), "onnx": version("onnx")}

    def simplify(self, model: onnx_ir.Model) -> onnx_ir.Model:
        """What OnnxSlim makes of ``model``."""
        return run_tool("onnxslim", model, time_limit=self.parameters.time_limit)
