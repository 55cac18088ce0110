"""What is known of the source format huggingface without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.protocols.spec import ParserSpec
from converter.runtime.frameworks import Framework
from parsers.huggingface.hub import hint_for

HUGGINGFACE = Framework(
    *("Hugging Face", "huggingface.child.backend:HuggingFaceBackend", "huggingface"),
    needs=("transformers", "torch", "onnxscript", "safetensors"),
    own=("transformers", "tokenizers"),
    uses=("tokenizers",),
)

SPECS = {
    "huggingface": ParserSpec(
        elsewhere=hint_for,
        options=("state_as_inputs",),
        framework=HUGGINGFACE,
        extra=HUGGINGFACE.extra,
        marks=Marks(folder="a Hugging Face model (config.json and safetensors)"),
    )
}
