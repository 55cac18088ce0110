"""What is known of the source format huggingface without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.protocols.spec import ParserSpec
from parsers.huggingface.framework import HUGGINGFACE
from parsers.huggingface.hub import hint_for

SPECS = {
    "huggingface": ParserSpec(
        elsewhere=hint_for,
        options=("state_as_inputs",),
        framework=HUGGINGFACE,
        extra=HUGGINGFACE.extra,
        marks=Marks(folder="a Hugging Face model (config.json and safetensors)"),
    )
}
