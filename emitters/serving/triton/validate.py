"""Reads a Triton model folder back from disk and says what is wrong with it.

Nothing of what wrote the folder is asked: the configuration is parsed as text, the model is
opened in ONNX Runtime, and both are held against each other by the rules of Triton's core
(``model_config_utils.cc``) and of its onnxruntime backend (``CompareDimsSupported``). Engines, and
what they are built from, are :mod:`emitters.serving.triton.validate_engine`'s.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

from converter.errors import ModelyardError
from converter.ir.model import TensorSpec
from converter.runtime.ort import OrtSession
from emitters.serving.triton import as_is
from emitters.serving.triton.config import (
    CONFIG_NAME,
    ITEM_SIZES,
    MODEL_FILE,
    TYPES,
    read_config,
    type_name,
    version_numbers,
)
from emitters.serving.triton.front_files import called_by, front_problems
from emitters.serving.triton.litert import is_litert, version_problems
from emitters.serving.triton.sequences import kept_names, state_files, state_problems
from emitters.serving.triton.validate_engine import (
    deferral_problems,
    group_problems,
    is_engine,
    plan_problems,
)


def validate_folder(path: Path) -> list[str]:
    """Everything that Triton, or a client, would stumble over; empty if it is fine.

    Checked: the configuration parses and has the folder's name; every version holds a model
    whose inputs and outputs are the configuration's, in type and dims, or an engine that the
    server loads; the version policy names a version that is there; each warm-up file has the bytes
    that its dims say; each label file is there, with a label for every value.

    Args:
        path: ``<repository>/<model>``.
    """
    try:
        config = read_config(path / CONFIG_NAME)
    except ModelyardError as error:
        return [error.message]
    problems = []
    if config.name != path.name:
        problems.append(f"the configuration names {config.name!r}, the folder {path.name!r}")
    if called_by(config):
        return [*problems, *front_problems(path, config)]
    problems += _version_problems(path, config)
    problems += group_problems(config)
    problems += state_files(path, config)
    return [*problems, *beside_problems(path, config)]


def beside_problems(path: Path, config: Any) -> list[str]:
    """What doesn't fit the configuration of the files beside it: warm-up requests, labels."""
    problems = [text for entry in config.model_warmup for text in _warmup(path, config, entry)]
    return problems + [text for entry in config.output for text in _label_problems(path, entry)]


def _version_problems(path: Path, config: Any) -> Iterator[str]:
    versions = version_numbers(path)
    if not versions:
        yield "there is no version folder"
    wanted = config.version_policy.specific.versions
    if wanted and not set(wanted) & set(versions):
        yield f"the version policy names {', '.join(map(str, wanted))}: none of them is there"
    for number in versions:
        if as_is.backend_of(config):
            yield from as_is.version_problems(path / str(number), config)
            continue
        if is_litert(config):
            yield from version_problems(path / str(number), config, _port_problems)
            continue
        if is_engine(config):
            yield from plan_problems(path / str(number), config)
            continue
        yield from deferral_problems(path / str(number), path / CONFIG_NAME)
        file = path / str(number) / (config.default_model_filename or MODEL_FILE)
        if not file.is_file():
            yield f"version {number} holds no {file.name}"
            continue
        try:
            session = OrtSession(file, plain=True)
        except ModelyardError as error:
            yield f"version {number}: {error.message}"
            continue
        kept = kept_names(config)
        for kind, specs, entries in (
            ("input", session.inputs, config.input),
            ("output", session.outputs, config.output),
        ):
            served = [spec for spec in specs if spec.name not in kept]
            for text in _port_problems(served, entries, config.max_batch_size):
                yield f"version {number}, {kind} {text}"
        for text in state_problems(config, session.inputs, session.outputs):
            yield f"version {number}, {text}"
        session.close()


def _port_problems(
    specs: Sequence[TensorSpec], entries: Sequence[Any], max_batch: int
) -> Iterator[str]:
    known = {spec.name: spec for spec in specs}
    named = [entry.name for entry in entries]
    for name in sorted({*known, *named}):
        if name not in known or named.count(name) != 1:
            where = f"{named.count(name)} times in the configuration"
            yield f"{name}: {'in' if name in known else 'not in'} the model, {where}"
    for entry in entries:
        spec = known.get(entry.name)
        if spec is None:
            continue
        if type_name(entry.data_type) != TYPES.get(spec.dtype):
            yield f"{entry.name}: {type_name(entry.data_type)}, and the model has {spec.dtype}"
        shape = [dim if isinstance(dim, int) else -1 for dim in spec.shape or ()]
        dims = list(entry.reshape.shape if entry.HasField("reshape") else entry.dims)
        ragged = getattr(entry, "allow_ragged_batch", False)  # its requests are joined to a row
        seen = [-1, *dims] if max_batch and not ragged else dims
        scalar = not shape and not max_batch and all(dim == 1 for dim in dims)
        if not entry.dims or (seen != shape and not scalar):
            yield f"{entry.name}: dims {seen} with the batch, and the model has {shape}"


def _warmup(path: Path, config: Any, entry: Any) -> Iterator[str]:
    if entry.batch_size < 1 or entry.batch_size > max(config.max_batch_size, 1):
        most = f"max_batch_size is {config.max_batch_size}"
        yield f"warm-up {entry.name}: a batch of {entry.batch_size} is out of range, {most}"
    declared = {port.name: port for port in config.input}
    if set(entry.inputs) != set(declared):
        yield f"warm-up {entry.name}: its inputs are {sorted(entry.inputs)}"
    for name, item in sorted(entry.inputs.items()):
        port = declared.get(name)
        if port is None:
            continue
        fits = len(item.dims) == len(port.dims) and all(
            dim >= 1 and wanted in (-1, dim)
            for dim, wanted in zip(item.dims, port.dims, strict=True)
        )
        if not fits or item.data_type != port.data_type:
            yield f"warm-up {entry.name}: {name} is {type_name(item.data_type)} {list(item.dims)}"
        elif item.input_data_file:
            yield from _file_problems(path / "warmup" / item.input_data_file, item)


def _file_problems(file: Path, item: Any) -> Iterator[str]:
    if not file.is_file():
        yield f"warm-up file {file.name} is missing"
        return
    kind, elements = type_name(item.data_type), prod(item.dims)
    if kind == "TYPE_STRING":
        found = _count_strings(file.read_bytes())
        if found != elements:
            yield f"warm-up file {file.name} holds {found} strings, and its dims say {elements}"
    elif file.stat().st_size != elements * ITEM_SIZES[kind]:
        yield (
            f"warm-up file {file.name} has {file.stat().st_size} bytes, "
            f"and its dims say {elements * ITEM_SIZES[kind]}"
        )


def _count_strings(data: bytes) -> int | None:
    """How many length-prefixed strings ``data`` is; None where it ends within one."""
    count = at = 0
    while at < len(data):
        if at + 4 > len(data):
            return None
        at += 4 + struct.unpack_from("<I", data, at)[0]
        count += 1
    return count if at == len(data) else None


def _label_problems(path: Path, entry: Any) -> Iterator[str]:
    if not entry.label_filename:
        return
    file = path / entry.label_filename
    if not file.is_file():
        yield f"the label file {entry.label_filename} is missing"
        return
    lines = file.read_text(encoding="utf-8").count("\n")
    if entry.dims[-1] != lines:
        yield f"{file.name} has {lines} labels, and {entry.name} has {entry.dims[-1]} values"
