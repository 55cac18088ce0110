"""What is known of PyTorch's code as a target without its code."""

from __future__ import annotations

from converter.options.precisions import QUANTIZED
from converter.protocols.spec import TargetSpec
from emitters.code.request import FLOATS_ALONE, FOLDING, HEADING

SPECS = {
    "pytorch": TargetSpec(
        precisions=("fp32", "fp16"),
        lacks={
            "bf16": ("model.to(torch.bfloat16) makes it of fp32's", "Use fp32."),
            **dict.fromkeys(QUANTIZED, FLOATS_ALONE),
        },
        extra="torch",
        packages=("torch",),
        options=(HEADING,),
        passes_left_out={"trainable": FOLDING},
    )
}
