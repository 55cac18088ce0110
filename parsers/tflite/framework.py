"""What runs TFLite files: LiteRT."""

from __future__ import annotations

from converter.runtime.frameworks import Framework

LITERT = Framework(
    *("LiteRT", "tflite.child.litert:LiteRTBackend", "tflite"),
    needs=("ai-edge-litert",),
    own=("ai-edge-litert",),
    uses=("numpy",),
)
