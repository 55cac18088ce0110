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
        "The builder's effort to find faster kernels, 0 to 5. Default: the library's.",
        metavar="0..5",
    )
    workspace: int | None = _tensorrt(
        "--workspace", "The most scratch memory of a layer.", metavar="MiB"
    )
    timing_cache: bool = _tensorrt(
        "--timing-cache/--no-timing-cache",
        "Keep the builder's timings for the next build on the same device and version.",
        True,
    )
    version_compatible: bool = _tensorrt(
        "--version-compatible",
        "Build an engine that later versions of the library can load.",
        False,
        affects=("emit", "check", "bench"),
    )
    hardware_compatible: str | None = _tensorrt(
        "--hardware-compatible",
        "Build an engine that also runs on other devices.",
        choices=("ampere+", "same-compute-capability"),
    )
    strip_weights: bool = _tensorrt(
        "--strip-weights",
        "Leave the weights out of the engine. model.onnx holds them.",
        False,
        affects=("emit", "package"),
    )
    refit: bool = _tensorrt("--refit", "Build an engine whose weights can be replaced.", False)
    weight_streaming: bool = _tensorrt(
        "--weight-streaming", "Build an engine whose weights may stay in the host's memory.", False
    )
    sparsity: bool = _tensorrt("--sparsity", "Use kernels for 2:4 sparse weights.", False)
    tf32: bool = _tensorrt(
        "--tf32/--no-tf32",
        "Let float32 products use TF32, which rounds their inputs to 10 bits.",
        True,
    )
    compute_capabilities: list[str] = _tensorrt(
        "--compute-capability",
        "The compute capabilities to build for, separated by commas (tensorrt-rtx). Default: "
        "the device's, or 8.6, 8.9 and 12.0 without a device.",
        [],
        metavar="X.Y,X.Y",
        split=True,
    )
    plugins: list[str] = _tensorrt(
        "--plugin",
        "The path of a TensorRT plugin library. It runs code and needs --trust-source.",
        [],
        affects=("emit", "check", "bench"),
        metavar="FILE.so",
        reads=True,
    )


def engine(request: Request) -> EngineRequest:
    """The request with these."""
    return request.of(EngineRequest)
