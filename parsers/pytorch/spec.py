"""What is known of the source format pytorch without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.protocols.spec import ParserSpec
from parsers.pytorch.framework import PYTORCH

_PICKLE = "a Python pickle, as PyTorch writes (.pth, .pt)"

SPECS = {
    "pytorch": ParserSpec(
        options=("state_as_inputs", "submodule"),
        framework=PYTORCH,
        extra=PYTORCH.extra,
        marks=Marks(
            suffixes=(".pt2", ".pt"),
            live="a torch.nn.Module",
            magic=tuple((0, bytes([0x80, number]), _PICKLE) for number in (2, 3, 4, 5)),
            archives=(
                (r"data\.pkl$|/constants\.pkl$", "a PyTorch file (.pth, .pt)"),
                (r"model\.json|archive_format", "a PyTorch exported program (.pt2)"),
            ),
        ),
    )
}
