"""onnxsim (ONNX Simplifier), as a pass: folding by ONNX Runtime and onnxoptimizer's fusions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version

import onnx_ir

from converter.passes.libraries.library import LibraryPass
from converter.passes.libraries.tools import TIME_LIMIT, run_tool


@dataclass(frozen=True)
class OnnxsimParameters:
    """Parameters of :class:`OnnxsimSimplifier`.

    Attributes:
        skipped: Its optimizers that are left out. Those that turn MatMul and Add into Gemm
            with a Reshape on either side make a transformer larger; a Pad by zeros isn't
            what MaxPool does.
        largest_constant: Nothing is folded into a tensor larger than this.
        time_limit: Seconds after which it is stopped.
    """

    skipped: tuple[str, ...] = (
        "fuse_matmul_add_bias_into_gemm",
        "fuse_matmul_add_bias_into_gemm_batched",
        "fuse_qkv",
        "fuse_pad_into_pool",
    )
    largest_constant: str = "1MB"
    time_limit: float = TIME_LIMIT


class OnnxsimSimplifier(LibraryPass):
    """Runs ``onnxsim.simplify`` in the simplifiers' process, without its own check.

    It raises on some models with nested Ifs ("must be topologically sorted"): the pass then
    fails and the model stays.
    """

    name = "onnxsim"
    summary = "onnxsim: folds constants, fuses and drops nodes"

    def __init__(self, parameters: OnnxsimParameters | None = None) -> None:
        self.parameters = parameters or OnnxsimParameters()

    def versions(self) -> Mapping[str, str]:
        """onnxsim's version, and that of ONNX Runtime, which folds for it."""
        import onnxruntime

        return {"onnxsim": version("onnxsim"), "onnxruntime": onnxruntime.__version__}

    def simplify(self, model: onnx_ir.Model) -> onnx_ir.Model:
        """What onnxsim makes of ``model``."""
        options = {
            "skipped_optimizers": list(self.parameters.skipped),
            "tensor_size_threshold": self.parameters.largest_constant,
        }
        return run_tool("onnxsim", model, options, self.parameters.time_limit)
