"""What is known of Keras' code as a target without its code."""

from __future__ import annotations

from converter.protocols.spec import TargetSpec
from emitters.code.request import FOLDING, HEADING

_FLOATS = (
    "layers compute in floats, and integers are another model's",
    "Use fp16, or convert what you trained to a target that has it.",
)

SPECS = {
    "keras": TargetSpec(
        precisions=("fp32", "fp16"),
        lacks={
            "bf16": ('keras.config.set_dtype_policy("mixed_bfloat16") trains so', "Use fp32."),
            **dict.fromkeys(
                (
                    *("int8", "int16x8", "int8-dynamic", "int8-weights", "int4-weights"),
                    *("palettized", "fp16+int8-weights", "fp16+int4-weights", "fp16+palettized"),
                ),
                _FLOATS,
            ),
        },
        extra="tensorflow",
        packages=("keras", "h5py"),
        options=(HEADING,),
        passes_left_out={"trainable": FOLDING},
    )
}
