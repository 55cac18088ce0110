"""What a package's inputs and outputs are, where Core ML hasn't what the model has.

Core ML has no int64, no booleans and no scalars at a program's border, and names are identifiers.
Integers and booleans are int32 there, scalars have one axis, and other characters in names become
underscores. What was changed is stored in the package, so that whoever opens it, ours among them,
can feed it what the model takes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from converter.errors import Unsupported
from converter.ir import TensorSpec
from emitters.coreml import limits

KEY = "modelyard.interface"
"""Of the package's user-defined metadata: JSON, a list of :class:`Port` for inputs and outputs."""

_HELD = {"float32": "float32", "float16": "float16"}
_WHOLE = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@dataclass(frozen=True)
class Port:
    """One input or output.

    Attributes:
        spec: As the model has it.
        name: As the package has it.
        dtype: ``float32``, ``float16`` or ``int32``.
    """

    spec: TensorSpec
    name: str
    dtype: str

    @property
    def scalar(self) -> bool:
        """Whether the model's has no axes, and the package's one of size 1."""
        return self.spec.shape == ()

    def told(self) -> str:
        """What differs, in words; empty where nothing does."""
        parts = [f"is called {self.name}"] if self.name != self.spec.name else []
        if self.dtype != self.spec.dtype:
            parts.append(f"is {self.dtype}, not {self.spec.dtype}")
        if self.scalar:
            parts.append("has the shape [1], not []")
        return f"{self.spec.name} {' and '.join(parts)} in Core ML" if parts else ""


def ports(specs: Iterable[TensorSpec], taken: set[str]) -> tuple[list[Port], list[Unsupported]]:
    """The ports of inputs or outputs, and what can't be one.

    Args:
        specs: The model's.
        taken: Names in use already; those that are given are added.
    """
    made, refused = [], []
    for spec in specs:
        dtype = "int32" if spec.dtype in _WHOLE else _HELD.get(spec.dtype, "")
        reason = _why_not(spec, dtype)
        if reason:
            refused.append(Unsupported("", f"{spec.name}", reason, "cut the model after it"))
            continue
        made.append(Port(spec, _identifier(spec.name, taken), dtype))
    return made, refused


def _why_not(spec: TensorSpec, dtype: str) -> str:
    if spec.shape is None:
        return "its number of axes isn't known"
    if not dtype:
        named = {"float64": limits.DOUBLE, "string": limits.STRINGS, "bfloat16": limits.BFLOAT}
        if spec.dtype.startswith("complex"):
            return limits.COMPLEX
        return named.get(spec.dtype, limits.SMALL_FLOATS)
    if len(spec.shape) > limits.MAX_RANK:
        return limits.RANK
    return limits.EMPTY if 0 in spec.shape else ""


def _identifier(name: str, taken: set[str]) -> str:
    base = re.sub(r"\W", "_", name, flags=re.ASCII) or "value"
    base = f"_{base}" if base[0].isdigit() else base
    made, number = base, 0
    while made in taken:
        number += 1
        made = f"{base}_{number}"
    taken.add(made)
    return made


def stored(inputs: Iterable[Port], outputs: Iterable[Port]) -> str:
    """The ports as the package's metadata has them."""
    kinds = {"inputs": inputs, "outputs": outputs}
    listed = {kind: [_dict(port) for port in items] for kind, items in kinds.items()}
    return json.dumps(listed, sort_keys=True, ensure_ascii=False)


def _dict(port: Port) -> dict[str, Any]:
    shape = None if port.spec.shape is None else list(port.spec.shape)
    return {"of": port.spec.name, "dtype": port.spec.dtype, "shape": shape, "name": port.name}


def read(text: str, specs: Mapping[str, TensorSpec]) -> dict[str, list[Port]]:
    """The ports that a package's metadata has, by ``inputs`` and ``outputs``.

    Args:
        text: The metadata.
        specs: The package's own inputs and outputs by name.
    """
    found: dict[str, list[Port]] = {}
    for kind, items in json.loads(text).items():
        found[kind] = []
        for item in items:
            own = specs[item["name"]]
            shape = tuple(item["shape"])
            spec = replace(own, name=item["of"], dtype=item["dtype"], shape=shape)
            found[kind].append(Port(spec, own.name, own.dtype))
    return found
