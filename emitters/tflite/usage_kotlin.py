"""``usage.kt``: a Kotlin file that runs the model on Android, with its names, types and sizes.

By ``org.tensorflow.lite.Interpreter`` (LiteRT's Java API, ``runSignature``). Buffers are direct and
in native order, as that asks for.
"""

from __future__ import annotations

import json

from converter.ir.model import Model
from converter.options.request import Request
from emitters.templates import render
from emitters.tflite.graph import TfliteModel
from emitters.tflite.usage import usage_of
from emitters.tflite.writer import SIGNATURE

_TAKEN = set(
    """
    as break class continue do else false for fun if in interface is null object package return
    super this throw true try typealias typeof val var when while interpreter run prepare close
    file threads inputs outputs buffer
    """.split()  # noqa: SIM905
)
"""Kotlin's hard keywords, and what the file itself calls things."""

_ARRAYS = {
    "float32": ("FloatArray", "asFloatBuffer()", 4),
    "float64": ("DoubleArray", "asDoubleBuffer()", 8),
    "int64": ("LongArray", "asLongBuffer()", 8),
    "int32": ("IntArray", "asIntBuffer()", 4),
    "int16": ("ShortArray", "asShortBuffer()", 2),
    "int8": ("ByteArray", "duplicate()", 1),
    "uint8": ("ByteArray", "duplicate()", 1),
    "bool": ("ByteArray", "duplicate()", 1),
}
"""By stored type: Kotlin's array, the view of a buffer that copies one, bytes of an element."""


def snippet(made: TfliteModel, model: Model, request: Request) -> str | None:
    """The text of ``usage.kt``; None where an input or output has a type that Kotlin has no array
    of.

    Args:
        made: The TFLite model, as it is written.
        model: What it was made of.
        request: Its ``name``, and how images are prepared.
    """
    usage = usage_of(made, model, request, snake=False, taken=_TAKEN)
    if any(port.dtype not in _ARRAYS for port in (*usage.inputs, *usage.outputs)):
        return None
    values = {"usage": usage, "signature": SIGNATURE, "arrays": _ARRAYS}
    return render("emitters.tflite", "usage.kt.j2", values, text=_text)


def _text(name: str) -> str:
    """A string literal; Kotlin has no ``\\f``."""
    parts = (json.dumps(part)[1:-1] for part in name.split("\f"))
    return '"' + "\\u000c".join(parts).replace("$", "\\$") + '"'
