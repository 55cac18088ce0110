"""A classifier's classes in types that ONNX, and skl2onnx's converters, have."""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Tuple

import numpy as np
import onnx

from ...worker.errors import WorkerError
from . import steps

_HELD = ("classes_", "_classes", "classes")
_TEXTS, _INTEGERS = "label_texts", np.iinfo(np.int64)


def to_text(model: Any) -> None:
    """Make text of labels that are bytes, everywhere in a model: it then says `yes` for b"yes".

    Raises unsupported, naming the label: bytes that aren't UTF-8.
    """
    for held, name, value in _classes(model, lambda classes: classes.dtype.kind == "S"):
        try:
            held[name] = np.char.decode(value, "utf-8")
        except UnicodeDecodeError as error:
            what = f"the label {error.object!r} isn't UTF-8"
            raise WorkerError("unsupported", "ONNX has no labels of bytes", [what]) from error


@contextmanager
def as_text(model: Any) -> Iterator[Dict[str, int]]:
    """Has a model's odd integers be texts meanwhile: booleans, those beyond 32 bits, and those of
    other types than int64. skl2onnx's converters take texts as they are, and integers through int32
    and float32. Gives the integer of each text, for :func:`put_back`.

    Raises unsupported, naming the label: an integer beyond int64.
    """
    swapped = list(_classes(model, _is_odd))
    numbers: Dict[str, int] = {}
    for held, name, value in swapped:
        held[name] = value.astype(str)
        numbers.update(zip(held[name].tolist(), map(int, value.tolist())))
    try:
        if beyond := [n for n in numbers.values() if not _INTEGERS.min <= n <= _INTEGERS.max]:
            what = f"the label {beyond[0]} is beyond int64"
            raise WorkerError("unsupported", "ONNX has no labels of this kind", [what])
        yield numbers
    finally:
        for held, name, value in swapped:
            held[name] = value


def put_back(made: Any, numbers: Dict[str, int]) -> None:
    """Make integers of the labels of an ONNX model that was exported under :func:`as_text`."""
    label = next((v for v in made.graph.output if v.name == "label"), None)
    if not numbers or label is None:
        return
    for node in made.graph.node:
        for names in (node.input, node.output):
            names[:] = [_TEXTS if name == "label" else name for name in names]
    keys: Dict[str, Any] = {"keys_strings": list(numbers)}
    keys["values_int64s"] = list(numbers.values())
    node = onnx.helper.make_node(
        "LabelEncoder", [_TEXTS], ["label"], name=_TEXTS, domain="ai.onnx.ml", **keys
    )
    made.graph.node.append(node)
    _require_domain(made)
    label.type.tensor_type.elem_type = onnx.TensorProto.INT64


def _require_domain(made: Any) -> None:
    """Have a model know the node, which has been what it is since version 2 of its domain."""
    known = [item for item in made.opset_import if item.domain == "ai.onnx.ml"]
    entry = known[0] if known else made.opset_import.add(domain="ai.onnx.ml")
    entry.version = max(entry.version, 2)


def _is_odd(classes: Any) -> bool:
    kind = classes.dtype.kind
    if kind == "i" and classes.dtype.itemsize == 8:
        return bool(np.any(classes != classes.astype(np.int32)))
    return kind in "biu"


def _classes(
    model: Any, wanted: Callable[[Any], bool]
) -> Iterator[Tuple[Dict[str, Any], str, Any]]:
    """Where a model holds such classes: whose attributes, which, and the classes."""
    for part, _ in steps.parts(model):
        held = getattr(part, "__dict__", {})
        for name in _HELD:
            value = held.get(name)
            if isinstance(value, np.ndarray) and value.ndim == 1 and wanted(value):
                yield held, name, value
