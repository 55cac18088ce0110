"""Builds an engine in a process of its own, and turns what the library says into errors."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from converter.errors import MachineError, ModelError, Unsupported, UnsupportedError
from converter.runtime.child import Child
from converter.runtime.session import Progress
from emitters.tensorrt.cache import timing_cache_of
from emitters.tensorrt.libraries import Library, has_gpu
from emitters.tensorrt.options import EngineOptions, refuse
from emitters.tensorrt.process import MORE_MEMORY, ask, started
from emitters.tensorrt.refusals import refused

_HINTS = (
    (r"within workspace limit|workspace", "Raise --workspace, or leave it out."),
    (r"cudaError 35|driver version is insufficient", "It needs an NVIDIA driver and a GPU here."),
    (r"\(SM75\)", "Leave 7.5 out of --compute-capability, or convert at fp16."),
    (r"cannot be negative|rofile", "Give other shapes: --shapes NAME:MIN,OPT,MAX, or --dim."),
    (r"lean", "Leave --version-compatible out."),
    (r"sm_vers_|graph_jit", "Leave --refit and --strip-weights out: they need the GPU here."),
)
"""What to do about what the builder says, by what is found in its words."""

_NO_MEMORY = re.compile(r"out of memory|OutOfMemory|bad_alloc|cudaErrorMemoryAllocation", re.I)

_TIMES = re.compile(r"(\d[\d.e+-]*)( ?(?:ms|seconds|sec|s)\b)")
_MEMORY = re.compile(r"\[MemUsage\w*\]")


@dataclass(frozen=True)
class BuildReport:
    """What a build gave.

    Attributes:
        version: Of the library, as it says itself.
        seconds: Of its parts: ``load`` the library, ``prepare`` its builder, ``parse``, ``build``,
            ``write``; ``all`` from the request to the answer.
        layers: The network's layers: what was asked for. See :mod:`.child_network`.
        engine: The engine's layers, as its inspector tells them; empty without a GPU.
        inputs, outputs: Name, type and shape (-1 where free) of each.
        log: What the builder logged, a line each, without times and memory use, which differ
            from run to run.
        fixed_addresses: Whether the system allowed memory at fixed addresses: without it the same
            build gives other bytes each time.
        sha256: Of the plan's file.
    """

    version: str
    seconds: dict[str, float]
    layers: list[dict[str, Any]] = field(default_factory=list)
    engine: list[Any] = field(default_factory=list)
    inputs: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[dict[str, Any]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    fixed_addresses: bool = True
    sha256: str = ""


LIBRARY = ("load", "prepare", "parse", "build")
"""Which of a build's seconds are the library's own."""


def build(
    onnx: Path,
    plan: Path,
    options: EngineOptions,
    library: Library,
    progress: Progress,
    child: Child | None = None,
) -> BuildReport:
    """Builds the engine of the typed graph in ``onnx`` and writes it to ``plan``.

    Args:
        onnx: The model; its external weights lie beside it.
        plan: Where the engine goes; its folder is where the process works.
        options: What it is to be.
        library: What builds it.
        progress: Told what is being done.
        child: A process that :func:`.process.started` gave; None for one of its own.

    Raises:
        UnsupportedError: The parser refuses nodes.
        ModelError: The builder made no engine; its reasons are in the details.
        UsageError: The library lacks an option that is asked for.
        DependencyError: The library can't be loaded.
        MachineError: The process died, or memory ran out.
    """
    progress(f"building the engine with {library.title}")
    start = time.perf_counter()
    asked = {**options.as_dict(), "plugins": [str(Path(p).absolute()) for p in options.plugins]}
    request = {
        "task": "build",
        "onnx": os.path.relpath(onnx, plan.parent),
        "plan": plan.name,
        "options": asked,
        "timing_cache": timing_cache_of(library) if options.timing_cache else None,
        "inspect": has_gpu(),
    }
    if child is None:
        answer = call(request, plan.parent, library)
    else:
        answer = ask(child, request, plan.parent, library)
    _require_built(answer, onnx, options, library)
    seconds = {**answer["seconds"], "all": time.perf_counter() - start}
    return BuildReport(
        answer["version"],
        {name: round(value, 4) for name, value in seconds.items()},
        answer["layers"],
        answer.get("engine", []),
        answer["inputs"],
        answer["outputs"],
        steady_log(answer["log"]),
        answer["fixed_addresses"],
        answer["sha256"],
    )


def describe(onnx: Path, options: EngineOptions, library: Library) -> BuildReport:
    """The network that the parser makes of a file; nothing is built.

    Args:
        onnx: The file.
        options: The build's.
        library: TensorRT or TensorRT-RTX.

    Raises:
        As :func:`build`.
    """
    asked = {**options.as_dict(), "plugins": [str(Path(p).absolute()) for p in options.plugins]}
    with tempfile.TemporaryDirectory(prefix="modelyard-") as folder:
        request = {
            "task": "build",
            "dry": True,
            "onnx": str(onnx.absolute()),
            "plan": "",
            "options": asked,
        }
        answer = call(request, Path(folder), library)
    _require_built(answer, onnx, options, library)
    parts = ("layers", "inputs", "outputs", "fixed_addresses")
    found = {name: answer[name] for name in parts}
    return BuildReport(answer["version"], answer["seconds"], log=steady_log(answer["log"]), **found)


def call(request: Mapping[str, Any], folder: Path, library: Library) -> dict[str, Any]:
    """What a new process answers.

    Args:
        request: What it is to do; paths are relative to ``folder``.
        folder: Where it works.
        library: TensorRT or TensorRT-RTX.

    Raises:
        As :func:`emitters.tensorrt.process.ask`.
    """
    with started(library) as child:
        return ask(child, request, folder, library)


def _require_built(
    answer: Mapping[str, Any], onnx: Path, options: EngineOptions, library: Library
) -> None:
    stage = answer["stage"]
    if stage == "missing":
        refuse(options, answer["missing"], library)
    if stage == "parse":
        items = refused(answer["errors"]) or [Unsupported("", onnx.name, *_unsaid(answer["log"]))]
        raise UnsupportedError(f"{library.title} can't take {len(items)} nodes of the model", items)
    if stage == "build":
        raise no_engine(answer["log"], library, answer["layers"])


def _unsaid(log: Sequence[Sequence[str]]) -> tuple[str, str]:
    reasons = reasons_in(log)
    return ("; ".join(reasons) or "the parser gave no reason", "")


def no_engine(
    log: Sequence[Sequence[str]], library: Library, layers: Sequence[Mapping[str, Any]] = ()
) -> ModelError | MachineError:
    """The error for a builder that gave nothing: its reason is in its log alone.

    Args:
        log: What the builder logged: severity and text of each line.
        library: TensorRT or TensorRT-RTX.
        layers: The network's, by whose names a line's layer is known.
    """
    reasons = [_with_nodes(text, layers) for text in reasons_in(log)]
    text = "\n".join(reasons)
    if _NO_MEMORY.search(text):
        return MachineError(
            f"{library.title} ran out of memory",
            code="out-of-memory",
            details=reasons,
            hint=MORE_MEMORY,
        )
    hint = next((hint for pattern, hint in _HINTS if re.search(pattern, text)), "")
    return ModelError(
        f"{library.title} built no engine",
        code="runtime-failed",
        details=reasons or ["its log gives no reason"],
        hint=hint,
    )


def reasons_in(log: Sequence[Sequence[str]]) -> list[str]:
    """The errors in a log, each once and without where in the library they come from."""
    texts = [_plain(text) for severity, text in log if severity == "error"]
    return list(dict.fromkeys(texts))


def _plain(text: str) -> str:
    text = re.sub(r"\s+In [\w:~]+ at /[^\s()]+", "", text.replace("\n", " "))
    text = re.sub(r"\[\w+\.(?:cpp|h):[^\]]*\]\s*", "", text)
    text = re.sub(r"^IBuilder::buildSerializedNetwork: ", "", text)
    text = re.sub(r"Assertion \S+ failed\. (\S+) has no runners that implement it", _NONE, text)
    inner = re.fullmatch(r"\s*Error Code \d+: (?:Internal|API Usage) Error \((.*?)\)?\s*", text)
    return (inner[1] if inner else text).strip()


_NONE = r"\1: the library has nothing that computes it"


def _with_nodes(text: str, layers: Sequence[Mapping[str, Any]]) -> str:
    """A reason, with the ONNX nodes behind the first layer that it names."""
    for layer in layers:
        if layer["name"] and layer["nodes"] and layer["name"] in text.replace(":", " ").split():
            nodes = [name for name in layer["nodes"] if name != layer["name"]]
            return f"{text} (ONNX: {', '.join(nodes)})" if nodes else text
    return text


def steady_log(log: Sequence[Sequence[str]]) -> list[str]:
    """The log as text, without what differs between two runs of the same build."""
    lines = []
    for severity, text in log:
        if not _MEMORY.search(text):
            steady = _TIMES.sub(r"-\2", text.replace("\n", " "))
            lines.append(f"{severity}: {steady}")
    return lines
