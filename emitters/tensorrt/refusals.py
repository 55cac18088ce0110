"""What the ONNX parser refused, in words: which node, why, what can be done."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from converter.errors import Unsupported
from converter.ir.facts import INTEGER_PRODUCTS, RANDOM, SEQUENCES, STRINGS
from converter.ir.model import Model, dtype_name

_NO_OPERATOR = "the library's ONNX parser has no such operator"

_CUT = (
    "replace it by standard operators, leave it out (--output, --submodule), or name a plugin "
    "library for it (--plugin)"
)
_FLOAT_SOURCE = (
    "convert the float model, with --precision int8: it gives Q/DQ, which TensorRT takes"
)
_REMEDIES = {
    **dict.fromkeys(
        INTEGER_PRODUCTS | {"DynamicQuantizeLinear", "QLinearAdd", "QGemm"}, _FLOAT_SOURCE
    ),
    **dict.fromkeys(SEQUENCES, "give and take tensors instead of sequences and optionals"),
    **dict.fromkeys(STRINGS, "process strings before the model"),
    **dict.fromkeys(RANDOM, "draw the numbers outside, and hand them to the model as an input"),
    "Unique": "do it outside of the model: how much it gives depends on its values",
}


def refused(errors: Sequence[Mapping[str, Any]]) -> list[Unsupported]:
    """A line for each node that the parser refused, in its order."""
    items = [
        Unsupported(
            str(error["name"]),
            str(error["op"]) or "the model",
            reason(error),
            _REMEDIES.get(str(error["op"]), _CUT if error["op"] else ""),
        )
        for error in errors
    ]
    return list(dict.fromkeys(items))


_TYPES = frozenset(
    ("float32", "float64", "float16", "bfloat16", "float8e4m3fn", "int64", "int32", "int8", "int4",
     "uint8", "bool", "")
)  # fmt: skip
"""Types of inputs and outputs that the parser of TensorRT-RTX 1.7 takes, by the IR's names; an
empty one isn't known. It only words what a parser refused."""

_WITHOUT_TYPE = "Failed to convert ONNX date type"  # sic


def typed_refusals(model: Model, items: Sequence[Unsupported]) -> list[Unsupported]:
    """``items``, the parser's nameless one about types replaced by the tensors that it is about."""
    others = [item for item in items if item.node or _WITHOUT_TYPE not in item.reason]
    if len(others) == len(items):
        return others
    graph = model.graph.graph
    found = [
        Unsupported(value.name or "", kind, f"TensorRT has no {dtype}", "cast it outside")
        for kind, values in (("input", graph.inputs), ("output", graph.outputs))
        for value in values
        if (dtype := dtype_name(value.dtype) if value.dtype else "") not in _TYPES
    ]
    unnamed = Unsupported(
        "", "the model", "one of its tensors has a type that TensorRT doesn't have"
    )
    return [*(found or [unnamed]), *others]


def reason(error: Mapping[str, Any]) -> str:
    """Why, without the library's own source code in it."""
    text = re.sub(r"\s+", " ", str(error["text"])).strip()
    if "Plugin not found" in text:
        return "the library has neither such an operator nor a plugin of that name"
    if text in ("", "false"):
        return _NO_OPERATOR
    quoted = re.search(r'"([^"]+)"', text)
    if quoted:
        said = quoted.group(1)
        return said if " " in said else f"it doesn't take {said!r}"
    return text.rsplit(": ", 1)[-1] if text.startswith("Assertion failed") else text
