"""What is known of the source format huggingface without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.protocols.spec import ParserSpec
from parsers.huggingface.framework import HUGGINGFACE

SPECS = {
    "huggingface": ParserSpec(
        options=("state_as_inputs",),
        framework=HUGGINGFACE,
        extra=HUGGINGFACE.extra,
        marks=Marks(folder="a Hugging Face model (config.json and safetensors)"),
    )
}
