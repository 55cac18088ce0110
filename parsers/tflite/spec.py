"""What is known of the source format tflite without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.protocols.spec import ParserSpec
from parsers.tflite.framework import LITERT

SPECS = {
    "tflite": ParserSpec(
        options=("state_as_inputs",),
        framework=LITERT,
        extra=LITERT.extra,
        marks=Marks(
            suffixes=(".tflite",), magic=((4, b"TFL3", "a TensorFlow Lite model (.tflite)"),)
        ),
    )
}
