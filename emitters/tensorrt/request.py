"""The options of engines: ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from converter.options.option import declared
from converter.options.request import Request

_tensorrt = partial(declared, "TensorRT", affects=("emit",))


@dataclass
class EngineRequest(Request):
    """What is asked of an engine; docs/options.md lists it."""

    optimization_level: int | None = _tensorrt(
        "--optimization-level",
        "How long the builder looks for faster kernels, 0 to 5. Default: the library's.",
        metavar="0..5",
    )
    workspace: int | None = _tensorrt(
        "--workspace", "Most scratch memory that a layer may take.", metavar="MiB"
    )
    timing_cache: bool = _tensorrt(
        "--timing-cache/--no-timing-cache",
        "Keep the builder's timings, by device and version, for the next build.",
        True,
    )
    version_compatible: bool = _tensorrt(
        "--version-compatible",
        "An engine that later versions of the library load.",
        False,
        affects=("emit", "check", "bench"),
    )
    hardware_compatible: str | None = _tensorrt(
        "--hardware-compatible",
        "An engine for other devices than the one it was built on.",
        choices=("ampere+", "same-compute-capability"),
    )
    strip_weights: bool = _tensorrt(
        "--strip-weights",
        "Leave the weights out of the engine; model.onnx has them.",
        False,
        affects=("emit", "package"),
    )
    refit: bool = _tensorrt("--refit", "An engine whose weights can be replaced.", False)
    weight_streaming: bool = _tensorrt(
        "--weight-streaming", "An engine whose weights may stay in the host's memory.", False
    )
    sparsity: bool = _tensorrt("--sparsity", "Use kernels for 2:4 sparse weights.", False)
    tf32: bool = _tensorrt(
        "--tf32/--no-tf32", "Let float32 products round their inputs to 10 bits.", True
    )
    compute_capabilities: list[str] = _tensorrt(
        "--compute-capability",
        "Compute capabilities to build for, by comma (tensorrt-rtx). Default: the device's; "
        "8.6, 8.9, 12.0 without one.",
        [],
        metavar="X.Y,X.Y",
        split=True,
    )
    plugins: list[str] = _tensorrt(
        "--plugin",
        "A TensorRT plugin library, by its path; it runs code: needs --trust-source.",
        [],
        affects=("emit", "check", "bench"),
        metavar="FILE.so",
        reads=True,
    )


def engine(request: Request) -> EngineRequest:
    """The request with these."""
    return request.of(EngineRequest)
