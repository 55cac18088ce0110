"""What is known of the source format tflite without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.protocols.spec import ParserSpec
from converter.runtime.frameworks import Framework

LITERT = Framework(
    *("LiteRT", "tflite.child.litert:LiteRTBackend", "tflite"),
    needs=("ai-edge-litert",),
    own=("ai-edge-litert",),
    uses=("numpy",),
)

SPECS = {
    "tflite": ParserSpec(
        options=("state_as_inputs", "signature"),
        framework=LITERT,
        extra=LITERT.extra,
        marks=Marks(
            suffixes=(".tflite",), magic=((4, b"TFL3", "a TensorFlow Lite model (.tflite)"),)
        ),
    )
}
