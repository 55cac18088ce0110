"""Plain JSON: a POST of ``{input: nested lists}``, answered by ``{output: nested lists}``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from converter.ir.model import TensorSpec
from converter.serving.address import Address
from converter.serving.http import message
from converter.serving.tensors import Array, from_values, to_lists
from converter.serving.v2 import HttpAsker
from converter.serving.wire import Wire


@dataclass(frozen=True)
class Plain(Wire):
    """A model at one path.

    Attributes:
        address: Where it is.
        outputs: The outputs, which JSON has no types of; those that aren't known are float32, or
            int64 where all values are whole.
        inputs_key, outputs_key: What inputs and outputs stand under; empty where their names stand
            at the top. ``*``: the answer is the only output's values.
    """

    address: Address
    outputs: Sequence[TensorSpec] = field(default=())
    inputs_key: str = ""
    outputs_key: str = ""

    def connect(self) -> HttpAsker:
        return HttpAsker(self.address)

    def encode(self, feeds: Mapping[str, Array]) -> bytes:
        """A POST; NaN is null, Infinity is spelled as Python's JSON does."""
        named = {name: to_lists(array) for name, array in feeds.items()}
        body = json.dumps({self.inputs_key: named} if self.inputs_key else named).encode()
        headers = {"Content-Type": "application/json"}
        return message("POST", self.address.place, self.address.model or "/", body, headers)

    def decode(self, answer: bytes) -> dict[str, Array]:
        said = json.loads(answer)
        if self.outputs_key == "*":
            said = {self.outputs[0].name if self.outputs else "output": said}
        elif self.outputs_key:
            said = said[self.outputs_key]
        if not isinstance(said, dict):
            raise ValueError(f"it answers {type(said).__name__}, and not outputs by name")
        known = {item.name: item.dtype for item in self.outputs}
        return {name: _array(values, known.get(name)) for name, values in said.items()}


def _array(values: object, dtype: str | None) -> Array:
    made = from_values(values, dtype or "float64")
    if dtype is not None:
        return made
    whole = from_values(values, "int64") if not _has_float(values) else None
    return made.astype("float32") if whole is None else whole


def _has_float(values: object) -> bool:
    return any(map(_has_float, values)) if isinstance(values, list) else isinstance(values, float)
