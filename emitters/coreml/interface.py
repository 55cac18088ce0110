"""What a package's inputs and outputs are, where Core ML hasn't what the model has.

Core ML has no int64, no booleans and no scalars at a program's border, no more than five axes, and
names are identifiers. Integers and booleans are int32 there, scalars have one axis, the last of
many axes are joined, and other characters in names become underscores. An image is a picture's
pixels (:mod:`emitters.coreml.images`). What was changed is stored in the package, so that whoever
opens it, ours among them, can feed it what the model takes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any

from converter.errors import Unsupported
from converter.ir.model import TensorSpec
from emitters.coreml import limits
from emitters.coreml.images import Image

KEY = "modelyard.interface"
"""Of the package's user-defined metadata: JSON, a list of :class:`Port` for inputs and outputs."""

_RESERVED = frozenset(
    ("any", "bool", "program", "func", "tensor", "list", "dict", "tuple", "true", "false", "string",
     "bf16", "fp16", "fp32", "fp64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
     "uint64", "state")
)  # fmt: skip
"""Words of MIL's text form: coremltools renames what is called so."""

_HELD = {"float32": "float32", "float16": "float16"}
_WHOLE = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@dataclass(frozen=True)
class Port:
    """One input or output.

    Attributes:
        spec: As the model has it.
        name: As the package has it.
        dtype: ``float32``, ``float16`` or ``int32``.
        shape: As the package has it: a number or a symbol for each dimension.
        image: How the package takes it, where that is as an image.
    """

    spec: TensorSpec
    name: str
    dtype: str
    shape: tuple[int | str, ...]
    image: Image | None = None

    @property
    def scalar(self) -> bool:
        """Whether the model's has no axes, and the package's one of size 1."""
        return self.spec.shape == ()

    @property
    def joined(self) -> tuple[int, tuple[int, ...]] | None:
        """Which axes of the model's are one in the package: from which on, and their sizes. A
        scalar's are none; None where the axes are the same."""
        shape = self.spec.shape
        first = _first_joined(shape)
        if shape is None or first is None:
            return None
        return first, tuple(dim for dim in shape[first:] if isinstance(dim, int))

    def told(self) -> str:
        """What differs, in words; empty where nothing does."""
        parts = [f"is called {self.name}"] if self.name != self.spec.name else []
        if self.image is not None:
            parts.append(f"is an image ({self.image.color}), pixels of 0..255")
        elif self.dtype != self.spec.dtype:
            parts.append(f"is {self.dtype}, not {self.spec.dtype}")
        if self.scalar:
            parts.append("has the shape [1], not []")
        elif self.joined is not None:
            parts.append(f"has {len(self.shape)} axes, the last {len(self.joined[1])} joined")
        return f"{self.spec.name} {' and '.join(parts)} in Core ML" if parts else ""


def ports(
    specs: Iterable[TensorSpec],
    taken: set[str],
    fixed: Mapping[str, int] | None = None,
    images: Mapping[str, Image] | None = None,
) -> tuple[list[Port], list[Unsupported]]:
    """The ports of inputs or outputs, and what can't be one.

    Args:
        specs: The model's.
        taken: Names in use already; those that are given are added.
        fixed: Sizes of free dimensions that the package fixes.
        images: Inputs that it takes as images, by their names.
    """
    made, refused = [], []
    for spec in specs:
        image = (images or {}).get(spec.name)
        dtype = "int32" if spec.dtype in _WHOLE else _HELD.get(spec.dtype, "")
        reason = _why_not(spec, dtype)
        if reason:
            hint = _JOIN if reason == limits.RANK else "cut the model after it"
            refused.append(Unsupported("", f"{spec.name}", reason, hint))
            continue
        shape = _held_shape(tuple((fixed or {}).get(str(dim), dim) for dim in spec.shape or ()))
        if image is not None:
            shape, dtype = image.arranged(shape), "float32"
        made.append(Port(spec, free_name(spec.name, taken), dtype, shape, image))
    return made, refused


_JOIN = "fix the sizes from the fifth axis on (--input): they are joined then"


def _first_joined(shape: tuple[int | str, ...] | None) -> int | None:
    """From which axis on a shape's axes are one in a package."""
    if shape is None or 0 < len(shape) <= limits.MAX_RANK:
        return None
    return min(len(shape), limits.MAX_RANK - 1)


def _held_shape(shape: tuple[int | str, ...]) -> tuple[int | str, ...]:
    first = _first_joined(shape)
    if first is None:
        return shape
    return (*shape[:first], prod(dim for dim in shape[first:] if isinstance(dim, int)))


def _why_not(spec: TensorSpec, dtype: str) -> str:
    if spec.shape is None:
        return "its number of axes isn't known"
    if not dtype:
        named = {"float64": limits.DOUBLE, "string": limits.STRINGS, "bfloat16": limits.BFLOAT}
        if spec.dtype.startswith("complex"):
            return limits.COMPLEX
        return named.get(spec.dtype, limits.SMALL_FLOATS)
    first = _first_joined(spec.shape)
    if first is not None and any(isinstance(dim, str) for dim in spec.shape[first:]):
        return limits.RANK
    return limits.EMPTY if 0 in spec.shape else ""


_WORDS = frozenset((
    "any", "bool", "program", "func", "tensor", "list", "dict", "tuple", "true", "false", "string",
    "bf16", "fp16", "fp32", "fp64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "state",
))  # fmt: skip
"""Words of MIL itself, which nothing may be called; coremltools would call it something else."""


def free_name(name: str, taken: set[str]) -> str:
    """A free identifier (letters, digits, underscores) like ``name``; it is taken then."""
    base = re.sub(r"\W", "_", name, flags=re.ASCII) or "value"
    base = f"_{base}" if base[0].isdigit() else base
    base = f"{base}_" if base in _WORDS else base
    made, number = base, 0
    while made in taken or made in _RESERVED:
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
    made: dict[str, Any] = {
        "of": port.spec.name,
        "dtype": port.spec.dtype,
        "shape": list(port.spec.shape or ()),
        "name": port.name,
    }
    return made if port.image is None else {**made, "image": asdict(port.image)}


def read(text: str, specs: Mapping[str, TensorSpec]) -> dict[str, list[Port]]:
    """The ports that a package's metadata has, by ``inputs`` and ``outputs``.

    Args:
        text: The metadata.
        specs: The package's own inputs and outputs by name.
    """
    return {
        kind: [_port(item, specs[item["name"]]) for item in items]
        for kind, items in json.loads(text).items()
    }


def _port(item: Mapping[str, Any], own: TensorSpec) -> Port:
    spec = replace(own, name=item["of"], dtype=item["dtype"], shape=tuple(item["shape"]))
    image = item.get("image")
    if image is not None:
        image = Image(**{**image, "scale": tuple(image["scale"]), "bias": tuple(image["bias"])})
    return Port(spec, own.name, own.dtype, own.shape or (), image)
