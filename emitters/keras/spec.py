"""What is known of Keras' code as a target without its code."""

from __future__ import annotations

from converter.options.precisions import QUANTIZED
from converter.protocols.spec import TargetSpec
from emitters.code.request import FLOATS_ALONE, FOLDING, HEADING

SPECS = {
    "keras": TargetSpec(
        precisions=("fp32", "fp16"),
        lacks={
            "bf16": ('keras.config.set_dtype_policy("mixed_bfloat16") trains so', "Use fp32."),
            **dict.fromkeys(QUANTIZED, FLOATS_ALONE),
        },
        extra="tensorflow",
        packages=("keras", "h5py"),
        options=(HEADING,),
        passes_left_out={"trainable": FOLDING},
    )
}
