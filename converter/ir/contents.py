"""What a written file holds: what its operators compute in, and what its weights are stored in.

An emitter reads it out of its artifact (:meth:`Emitter.contents`); what a report
says of shares and sizes is counted here, and not taken from what a step meant to do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from converter.text import words

DYNAMIC = "int8-dynamic"
"""Int8 weights beside float activations that are rounded to eight bits as it runs."""

INTEGERS = ("int8", "int16x8", DYNAMIC)
"""What operators compute in whose two factors are integers."""

_HALVES = {"fp16": "float16", "bf16": "bfloat16"}
_INTEGER = re.compile(r"u?int(\d+)")


@dataclass(frozen=True)
class Product:
    """An operator that multiplies: a convolution, a matrix product, a recurrent layer.

    Attributes:
        name, op: As the file has them.
        computes: ``float32``, ``float16``, ``bfloat16``, or one of :data:`INTEGERS`.
        macs: Its multiply-adds; None where its shapes aren't known.
    """

    name: str
    op: str
    computes: str
    macs: float | None


@dataclass(frozen=True)
class Contents:
    """What a file holds.

    Attributes:
        what: What was counted in: ``model.onnx``.
        products: Its operators that multiply, those of bodies once each.
        stored: Bytes of its constants by the type of their elements, those that are shared once.
        why: What this target leaves in float32 whatever is asked for, where there is something.
    """

    what: str
    products: Sequence[Product]
    stored: Mapping[str, int]
    why: str = ""

    @property
    def computes(self) -> dict[str, float]:
        """Shares of the multiply-adds by type, the largest first; of the operators, where none
        could be counted; empty where there are none."""
        known = any(product.macs for product in self.products)
        sums: Counter[str] = Counter()
        for product in self.products:
            sums[product.computes] += (product.macs or 0) if known else 1  # type: ignore[assignment]
        total = sums.total()
        return {name: count / total for name, count in sums.most_common()}

    @property
    def weights(self) -> dict[str, int]:
        """Bytes by type, the most first, of floats and of integers of up to 16 bits: wider ones are
        shapes, indices and sums."""
        sums = Counter({name: size for name, size in self.stored.items() if is_weight(name)})
        return dict(sums.most_common())

    def lowered_share(self, precision: str) -> float | None:
        """Share of the multiply-adds that are in a precision; None where there are none."""
        asked = precision.split("+")[0]
        lower = {_HALVES[asked]} if asked in _HALVES else set(INTEGERS)
        found = self.computes
        return sum(share for name, share in found.items() if name in lower) if found else None

    def stored_share(self, precision: str) -> float | None:
        """Share of the weights' bytes that are of a precision's type; None where there are none."""
        found = self.weights
        lower = sum(size for name, size in found.items() if _is_lower(name, precision))
        return lower / sum(found.values()) if found else None

    def told(self) -> str:
        """Both in a sentence."""
        parts = [
            f"{words.percent(share)} of the multiply-adds are {name}"
            if index == 0
            else f"{words.percent(share)} {name}"
            for index, (name, share) in enumerate(self.computes.items())
        ] or ["nothing in it multiplies"]
        total = sum(self.weights.values())
        stored = [f"{words.percent(size / total)} {name}" for name, size in self.weights.items()]
        weights = (
            f"; of {words.size(total)} of weights and their scales {', '.join(stored)}"
            if stored
            else ""
        )
        return f"{', '.join(parts)}{weights} (counted in {self.what})"


def _bits(name: str) -> int | None:
    """Of an integer type."""
    found = _INTEGER.fullmatch(name)
    return int(found[1]) if found else None


def is_weight(name: str) -> bool:
    """Whether constants of a type are numbers to compute with: no shapes, indices, or sums."""
    bits = _bits(name)
    return bits <= 16 if bits is not None else name.startswith(("float", "bfloat"))


def _is_lower(name: str, precision: str) -> bool:
    if precision in _HALVES:
        return name == _HALVES[precision]
    bits = _bits(name)
    return bits is not None and bits <= (16 if precision == "int16x8" else 8)
