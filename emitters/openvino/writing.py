"""An IR made of ONNX by OpenVINO's own conversion."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir

from converter.errors import Unsupported, UnsupportedError
from converter.ir.external import replaced
from converter.ir.model import Model
from emitters.openvino.engine import engine, words
from emitters.openvino.mending import bodies, mend, number, put_back
from emitters.openvino.session import BORDERS, TYPES

_RULELESS = re.compile(r"No conversion rule found for operations: (.+)")
_FAILED = re.compile(r"^-- (\w+)-\d+ with a message:\n(.*?)(?=^-- |^Summary:|\Z)", re.M | re.S)
_NODE = re.compile(r"ONNX node '<Node\(\w+\): (.*?)>'")
_LARGE = 1 << 10
"""Bytes of a weight from which it isn't copied into the ONNX file."""

_MEMORY = "*/_ORT_MEM_ADDR_/*"
"""The file that stands for this process's memory, in which the offset is an address (OpenVINO's
reader of ONNX has it for ONNX Runtime's sake; seen in 2026.4)."""

_REMEDY = "use --to onnx, or replace it with other operators"


def write(model: Model, path: Path) -> int:
    """Writes ``path``, the XML, and the ``.bin`` beside it; gives the number of operators.

    Raises:
        UnsupportedError: OpenVINO has no conversion of an operator, or its CPU doesn't take what
            came of it; all of it is listed.
        OSError: The folder can't be written.
    """
    model = model.copy()  # others read it meanwhile
    with tempfile.TemporaryDirectory(prefix="modelyard-") as aside:
        plain = Path(aside) / "model.onnx"
        held = _in_memory(model)
        with replaced({value: tensor for value, (tensor, _) in held.items()}):
            plain.write_bytes(model.to_proto().SerializeToString())
        made = _converted(plain, model)
        borders = {
            side: [(spec.name, spec.shape) for spec in specs]
            for side, specs in (("inputs", model.inputs), ("outputs", model.outputs))
        }
        number(made, set(_names(model)))
        made.set_rt_info(json.dumps(borders), list(BORDERS))
        engine().save_model(made, path, compress_to_fp16=False)
        count = len(made.get_ops())
        del made, held  # in this order: it has weights where they lie
        return count


def _in_memory(model: Model) -> dict[onnx_ir.Value, tuple[onnx_ir.ExternalTensor, Any]]:
    """Of large weights what says where they lie, and what keeps them there."""
    found = {}
    for value in model.initializers():
        tensor = value.const_value
        if tensor is None or tensor.dtype == onnx_ir.DataType.STRING or tensor.nbytes < _LARGE:
            continue
        array = np.ascontiguousarray(tensor.numpy())
        if array.nbytes != tensor.nbytes:  # several to a byte
            array = np.frombuffer(tensor.tobytes(), np.uint8)
        told = onnx_ir.ExternalTensor(
            _MEMORY,
            array.ctypes.data,
            tensor.nbytes,
            tensor.dtype,
            shape=onnx_ir.Shape(tensor.shape.numpy()),
            name=value.name or "",
        )
        found[value] = told, array
    return found


def _converted(plain: Path, model: Model) -> Any:
    try:
        made = engine().convert_model(plain)
    except Exception as error:  # OpConversionFailure and others, with no base but RuntimeError
        raise _refused(list(_unconverted(str(error), model)) or [words(error)]) from error
    mend(made)
    if items := list(_untaken(made)):
        raise _refused(items)
    return put_back(made, model.inputs, {ours: theirs for theirs, ours in TYPES.items()})


def _names(model: Model) -> Iterator[str]:
    for node in model.nodes():
        yield from (value.name or "" for value in node.outputs)
        yield node.name or ""
    yield from (spec.name for spec in model.inputs)


def _refused(items: Sequence[Unsupported | str]) -> UnsupportedError:
    listed = [i if isinstance(i, Unsupported) else Unsupported("", "", i, _REMEDY) for i in items]
    return UnsupportedError(f"openvino can't take {len(listed)} of this model's operators", listed)


def _unconverted(said: str, model: Model) -> Iterator[Unsupported]:
    """What OpenVINO says that it didn't convert."""
    lacking = {
        name.rsplit("-", 1)[0] for line in _RULELESS.findall(said) for name in line.split(", ")
    }
    for node in model.nodes():
        name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        if name in lacking or node.op_type in lacking:
            op = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
            yield Unsupported(node.name or "", op, "OpenVINO has no such operator", _REMEDY)
    for op, message in _FAILED.findall(said):
        lines = [line.strip() for line in message.splitlines() if line.strip()]
        place = _NODE.search(message)
        yield Unsupported(
            place[1] if place else "", op, f"OpenVINO refuses it: {lines[-1]}", _REMEDY
        )


def _untaken(model: Any) -> Iterator[Unsupported]:
    """What OpenVINO's CPU refuses when it is compiled."""
    for node in model.get_ordered_ops():
        for body in bodies(node):
            yield from _untaken(body)
        for output in node.outputs():
            kind, name = node.get_type_name(), node.get_friendly_name()
            if output.get_partial_shape().rank.is_dynamic and kind != "Constant":
                why = (
                    "OpenVINO's CPU plug-in takes no tensors whose number of axes depends on values"
                )
                yield Unsupported(name, kind, why, "make the value that decides it constant")
            elif output.get_element_type().get_type_name() == "string":
                why = "OpenVINO's CPU computes nothing of text"
                yield Unsupported(name, kind, why, _REMEDY)
