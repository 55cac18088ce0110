"""The precisions that can be asked for: what each computes in, and what it stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Floats = Literal["float32", "float16", "bfloat16"]
Weights = Literal["int8-weights", "int4-weights", "palettized"]


@dataclass(frozen=True)
class Precision:
    """A precision.

    Attributes:
        name: As ``--precision`` has it.
        floats: The type of floats that it computes in.
        activations: The type of integers that activations are; ``run`` where they are made integers
            anew in each run, from what they hold then; empty for floats.
        weights: The form that weights alone are stored in; None where they are as they are, or
            integers because activations are.
    """

    name: str
    floats: Floats = "float32"
    activations: Literal["", "int8", "int16", "run"] = ""
    weights: Weights | None = None

    @property
    def is_float32(self) -> bool:
        """Whether the model stays as it is."""
        return self.name == "fp32"

    @property
    def is_half(self) -> bool:
        """Whether it computes in floats of 16 bits."""
        return self.floats != "float32"

    @property
    def is_calibrated(self) -> bool:
        """Whether activations are integers with scales that are measured on samples."""
        return self.activations in ("int8", "int16")

    @property
    def is_measured(self) -> bool:
        """Whether values are measured on samples: for scales, or for what 16 bits can't hold."""
        return self.is_half or self.is_calibrated

    @property
    def border(self) -> tuple[str, ...]:
        """The types that ``--io-dtype`` may give to inputs and outputs that are float32."""
        if self.is_half:
            return (self.floats,)
        return ("int8", "uint8") if self.activations == "int8" else ()


_FORMS: tuple[Weights, ...] = ("int8-weights", "int4-weights", "palettized")

PRECISIONS = {
    made.name: made
    for made in (
        Precision("fp32"),
        Precision("fp16", "float16"),
        Precision("bf16", "bfloat16"),
        Precision("int8", activations="int8"),
        Precision("int16x8", activations="int16"),
        Precision("int8-dynamic", activations="run"),
        *(Precision(form, weights=form) for form in _FORMS),
        *(Precision(f"fp16+{form}", "float16", weights=form) for form in _FORMS),
    )
}
"""All of them by name, in the order in which people are told of them."""

QUANTIZED = tuple(name for name, made in PRECISIONS.items() if made.activations or made.weights)
"""Those with integers or tables of values."""


def stores_weights(name: str) -> bool:
    """Whether a precision of that name stores weights alone in fewer bits."""
    return bool(PRECISIONS[name].weights)
