"""Builds a plan as modelyard does: with its own settings of the builder, for the same libraries."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emitters.tensorrt.child_network import describe
from emitters.tensorrt.child_settings import (
    Missing,
    SettingsError,
    load_plugins,
    network_flags,
    set_up,
)
from emitters.tensorrt.engine_script.refusals import DEPENDENCY, MODEL, Stopped, shown

COMPUTES_IN = {"fp16": "float16", "bf16": "bfloat16", "int8": "int8"}
"""What at least one layer of an engine locked in a precision has to compute in."""


def import_library(name: str) -> Any:
    """The module ``tensorrt`` or ``tensorrt_rtx``.

    Raises:
        Stopped: It isn't installed, or doesn't load.
    """
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:  # OSError: a shared library of its own is missing
        raise Stopped(
            DEPENDENCY,
            f"the Python package {name} can't be used: {error}",
            hint="Run this where TensorRT is: in the container "
            "nvcr.io/nvidia/tensorrt:YY.MM-py3 with the server's YY.MM, or after pip "
            "install tensorrt==VERSION with the server's version.",
        ) from None


def make_log(trt: Any, verbose: bool) -> Any:
    """A logger of the library that keeps errors and warnings, and prints what it gets if asked."""

    class Log(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.kept: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if severity in (trt.ILogger.INTERNAL_ERROR, trt.ILogger.ERROR, trt.ILogger.WARNING):
                self.kept.append(message)
            if verbose:
                print(shown(f"  {message}"), flush=True)

    return Log()


def build_plan(
    trt: Any,
    model: Path,
    lock: Mapping[str, Any],
    *,
    log: Any,
    plugins: Sequence[Path] = (),
    capabilities: Sequence[str] = (),
    timing_cache: Path | None = None,
) -> bytes:
    """The serialized engine that the lock asks for, strongly typed.

    Args:
        trt: The library's module.
        model: The ONNX file; its weights' file lies beside it.
        lock: As :func:`~emitters.tensorrt.engine_script.lock.read_lock` gives it.
        log: As :func:`make_log` gives it; it names the reasons of a failure.
        plugins: Plugin libraries to load first.
        capabilities: ``8.6``...: what TensorRT-RTX builds ahead of time for.
        timing_cache: A file of the builder's timings, read if it is there, and written.

    Raises:
        Stopped: The library lacks an option, can't read the model, or can't build it.
    """
    title = f"{trt.__name__} {trt.__version__}"
    try:
        load_plugins(trt, log, plugins)
    except SettingsError as error:
        raise Stopped(DEPENDENCY, f"{title}: {error}", log.kept) from None
    builder = trt.Builder(log)
    network = builder.create_network(network_flags(trt))
    _parse(trt, network, model, log)
    note_precision(describe(trt, network)["layers"], lock["precision"])
    options = {**lock["options"], "compute_capabilities": list(capabilities)}
    file = str(timing_cache) if timing_cache and options["timing_cache"] else None
    try:
        config = set_up(trt, builder, network, options, file)
    except Missing as error:
        lacking = [f"{name}: {why}" for name, why in error.missing.items()]
        title += " lacks what the engine is locked with"
        raise Stopped(DEPENDENCY, title, lacking) from None
    except (SettingsError, ValueError) as error:
        raise Stopped(MODEL, f"{title} refuses the settings: {error}", log.kept[-20:]) from None
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        reasons = log.kept[-20:] or ["the library gave no reason"]
        raise Stopped(MODEL, f"{title} built no engine", reasons)
    if timing_cache and file and config.get_timing_cache() is not None:
        timing_cache.write_bytes(bytes(config.get_timing_cache().serialize()))
    return bytes(plan)


def _parse(trt: Any, network: Any, model: Path, log: Any) -> None:
    parser = trt.OnnxParser(network, log)
    if parser.parse_from_file(str(model)):
        return
    found = [str(parser.get_error(index).desc()) for index in range(parser.num_errors)]
    title = f"{trt.__name__} {trt.__version__} can't read {model.name}"
    raise Stopped(MODEL, title, found or log.kept[-20:])


def note_precision(layers: Sequence[Mapping[str, Any]], precision: str) -> None:
    """Says of a network that no layer of it computes in the precision that it is locked in."""
    wanted = COMPUTES_IN.get(precision)
    if wanted and all(layer["type"] != wanted for layer in layers):
        told = f"unlowered: locked as {precision}, and no layer of it is {wanted}"
        print(shown(told), flush=True)
