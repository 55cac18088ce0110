"""ONNX files to ``.ort`` files, by ONNX Runtime itself, the same bytes each time.

After the model, ONNX Runtime writes which types its kernels hang on (``KernelTypeStrResolver``), in
the order of a hash table whose seed is another in each process. A flatbuffer is written from its
end to its start, so that these tables come before the model's bytes: they are written anew, sorted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import onnxruntime

from converter.errors import ModelError, from_os_error
from converter.runtime.ort import PROVIDERS, WRONG, clean_message
from emitters.ort.flatbuffer import MARK, schema, session_of

_ALIGNMENT = 32
"""The most that flatbuffers align to: what lies at some distance from the end stays aligned."""

WITHOUT = (*WRONG, "NchwcTransformer", "FuseFp16InitializerToFp32NodeTransformer")
"""Rewrites that are left out: wrong ones; blocks as wide as the registers of the CPU at hand, which
no ARM runs; and weights of float16 written as float32, where a kernel takes no others."""


def write(model: Path, made: Path, level: str) -> None:
    """Writes ``made``, a ``.ort`` file, from an ONNX file, optimized for any CPU.

    Args:
        model: The ONNX file.
        made: Where the other goes.
        level: How far it is optimized: ``basic``, ``extended``, ``all``.

    Raises:
        ModelError: ONNX Runtime refuses the model, or can't write it in this format.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(made)
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = getattr(levels, f"ORT_ENABLE_{level.upper()}")
    options.add_session_config_entry("session.save_model_format", "ORT")
    cpu, without = [PROVIDERS["cpu"]], list(WITHOUT)
    try:
        onnxruntime.InferenceSession(
            str(model), options, providers=cpu, disabled_optimizers=without
        )
    except Exception as error:  # its own exception classes share no public base
        raise ModelError(
            f"ONNX Runtime can't write {made.name}: {clean_message(error)}", code="runtime-failed"
        ) from error
    try:
        made.write_bytes(_canonical(made))
    except OSError as error:
        raise from_os_error(error, f"writing {made.name}") from error


def _canonical(path: Path) -> bytes:
    """The file's bytes with the tables before the model sorted."""
    import flatbuffers

    content, session = path.read_bytes(), session_of(path)
    table = session.Model()._tab.Pos
    (back,) = struct.unpack_from("<i", content, table)
    kept = content[min(table, table - back) :]  # the model's vtable lies before it
    builder = flatbuffers.Builder(len(content) + (1 << 16))
    builder.head -= len(kept)
    builder.Bytes[builder.head :] = kept
    builder.minalign = _ALIGNMENT
    resolver = _resolver(builder, session.KernelTypeStrResolver())
    version = builder.CreateString(session.OrtVersion())
    fbs = schema().InferenceSession
    fbs.Start(builder)
    fbs.AddOrtVersion(builder, version)
    fbs.AddModel(builder, len(content) - table)
    fbs.AddKernelTypeStrResolver(builder, resolver)
    builder.Finish(fbs.End(builder), MARK)
    return bytes(builder.Output())


def _resolver(builder: Any, read: Any) -> int:
    """For each operator its type parameters, and for each of them the inputs and outputs."""
    fbs = schema()
    entries = [read.OpKernelTypeStrArgs(i) for i in range(read.OpKernelTypeStrArgsLength())]
    made = [_operator(builder, entry) for entry in sorted(entries, key=lambda each: each.OpId())]
    vector = _vector(builder, fbs.KernelTypeStrResolver.StartOpKernelTypeStrArgsVector, made)
    fbs.KernelTypeStrResolver.Start(builder)
    fbs.KernelTypeStrResolver.AddOpKernelTypeStrArgs(builder, vector)
    return int(fbs.KernelTypeStrResolver.End(builder))


def _operator(builder: Any, read: Any) -> int:
    fbs = schema().OpIdKernelTypeStrArgsEntry
    found = [read.KernelTypeStrArgs(index) for index in range(read.KernelTypeStrArgsLength())]
    ordered = sorted(found, key=lambda each: each.KernelTypeStr())
    vector = _vector(
        builder, fbs.StartKernelTypeStrArgsVector, [_parameter(builder, each) for each in ordered]
    )
    name = builder.CreateString(read.OpId())
    fbs.Start(builder)
    fbs.AddOpId(builder, name)
    fbs.AddKernelTypeStrArgs(builder, vector)
    return int(fbs.End(builder))


def _parameter(builder: Any, read: Any) -> int:
    fbs = schema()
    places = []
    for each in (read.Args(index) for index in range(read.ArgsLength())):
        fbs.ArgTypeAndIndex.Start(builder)
        fbs.ArgTypeAndIndex.AddArgType(builder, each.ArgType())
        fbs.ArgTypeAndIndex.AddIndex(builder, each.Index())
        places.append(int(fbs.ArgTypeAndIndex.End(builder)))
    vector = _vector(builder, fbs.KernelTypeStrArgsEntry.StartArgsVector, places)
    name = builder.CreateString(read.KernelTypeStr())
    fbs.KernelTypeStrArgsEntry.Start(builder)
    fbs.KernelTypeStrArgsEntry.AddKernelTypeStr(builder, name)
    fbs.KernelTypeStrArgsEntry.AddArgs(builder, vector)
    return int(fbs.KernelTypeStrArgsEntry.End(builder))


def _vector(builder: Any, start: Callable[[Any, int], Any], tables: list[int]) -> int:
    start(builder, len(tables))
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    return int(builder.EndVector())


@cache
def operators() -> frozenset[tuple[str, str]]:
    """Domain and name of every operator that ONNX Runtime has a schema for."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    known = {(item.domain, item.name) for item in state.get_all_operator_schema()}
    return frozenset(known | {("ai.onnx", name) for domain, name in known if not domain})
