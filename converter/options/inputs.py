"""Reads what a user writes about inputs: ``--input NAME[:DTYPE]:DIMxDIM`` and ``--dim NAME=SIZE``.

Read from the right, since names may hold colons (``serving_default_x:0``): what
stands after the last colon is the shape, and what stands before that is a type only if it is
the name of one. A dimension is a number or a symbol (``batch``). Dimensions are separated by
``x``, so a symbol that holds an x has to be written with commas: ``ids:int64:batch,max_len``.
A number is a number: only a symbol leaves a dimension free. A first dimension that is called like
a batch (``N``, ``bs``) is :data:`BATCH`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from converter.errors import UsageError
from converter.ir.batch_name import BATCH, BATCH_LIKE

DTYPES = (
    *("float16", "bfloat16", "float32", "float64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("bool", "string", "complex64", "complex128"),
)
"""The types an input can be given."""


_FORM = "NAME[:DTYPE]:DIMxDIMx..., as in image:batchx3x224x224 or ids:int64:batchxtokens"
_SYMBOL = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "int": "int64",
    "long": "int64",
    "str": "string",
}


@dataclass(frozen=True)
class InputSpec:
    """An input as the user wants it.

    Attributes:
        name: Its name.
        dtype: One of :data:`DTYPES`.
        shape: A number or a symbol for each dimension; empty for a scalar.
        typed: Whether the user wrote the type; float32 stands in for one left out, and a
            source that has types of its own keeps them.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    typed: bool = True

    def describe(self) -> str:
        """As it is written."""
        dims = [str(dim) for dim in self.shape]
        by = "," if any("x" in dim for dim in dims) else "x"
        return ":".join([self.name, *([self.dtype] if self.typed else []), by.join(dims)])


def parse_input(text: str) -> InputSpec:
    """Reads one ``--input``; ``step:int64:`` is a scalar.

    Raises:
        UsageError: It isn't of that form; the error says which part, and what is.
    """
    head, colon, dims = text.rpartition(":")
    if not colon:
        raise _wrong(text, "it has no dimensions")
    if dims in DTYPES or dims in _ALIASES:
        raise _wrong(text, f"{dims!r} is a type; write the dimensions after it")
    name, colon, dtype = head.rpartition(":")
    if not colon or (dtype not in DTYPES and dtype not in _ALIASES):
        name, dtype = head, ""
    if not name:
        raise _wrong(text, "it has no name")
    if dtype in _ALIASES:
        raise _wrong(text, f"write the type {dtype!r} as {_ALIASES[dtype]}")
    return InputSpec(name, dtype or "float32", _shape(text, dims), typed=bool(dtype))


def parse_inputs(texts: Iterable[str]) -> tuple[InputSpec, ...]:
    """Reads every ``--input``, in order; a batch is called :data:`BATCH` in all of them.

    Raises:
        UsageError: One isn't of the form, or two have one name.
    """
    specs = tuple(parse_input(text) for text in texts)
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"--input {name} is given {names.count(name)} times", code="option-conflict"
            )
    firsts = [str(spec.shape[0]) for spec in specs if spec.shape]
    batch = {dim: BATCH for dim in firsts if BATCH_LIKE.fullmatch(dim)}
    return tuple(
        replace(spec, shape=tuple(batch.get(str(dim), dim) for dim in spec.shape)) for spec in specs
    )


def with_batch(specs: Sequence[InputSpec], batch: str | None) -> list[InputSpec]:
    """The inputs with the batch of ``--batch``, which goes before what their dimensions say.

    Args:
        specs: The inputs. Their batch is :data:`BATCH` or, where none has that and all begin with
            one number, this.
        batch: ``dynamic``, a number, or None or ``keep``: as they are.
    """
    if batch in (None, "keep"):
        return list(specs)
    new = BATCH if batch == "dynamic" else int(batch or 1)
    firsts = {spec.shape[0] for spec in specs if spec.shape}
    shapes: list[tuple[int | str, ...]]
    if any(BATCH in spec.shape for spec in specs):
        shapes = [tuple(new if dim == BATCH else dim for dim in spec.shape) for spec in specs]
    elif len(firsts) == 1 and isinstance(firsts.pop(), int):
        shapes = [(new, *spec.shape[1:]) if spec.shape else () for spec in specs]
    else:
        shapes = [spec.shape for spec in specs]
    return [replace(spec, shape=shape) for spec, shape in zip(specs, shapes, strict=True)]


def fixed_to_one(specs: Sequence[InputSpec]) -> list[str]:
    """The note on inputs whose batch the user wrote as 1, if it is one; at most one line."""
    batched = [spec for spec in specs if len(spec.shape) > 1]
    if not batched or any(spec.shape[0] != 1 for spec in batched):
        return []
    first = batched[0]
    free = replace(first, shape=(BATCH, *first.shape[1:])).describe()
    return [f"the batch is 1, as written; --input {free} leaves it free"]


def _shape(text: str, dims: str) -> tuple[int | str, ...]:
    if not dims.strip():
        return ()
    parts = dims.split("," if "," in dims else "x")
    return tuple(_dimension(text, part.strip()) for part in parts)


def _dimension(text: str, part: str) -> int | str:
    if part.isdecimal() and int(part) > 0:
        return int(part)
    if part in ("-1", "0", "?", "None", "*"):
        raise _wrong(
            text,
            f"the dimension {part!r} has no name",
            "Give a free dimension a name, such as batch.",
        )
    if not _SYMBOL.fullmatch(part):
        raise _wrong(
            text,
            f"{part!r} is neither a number nor a symbol",
            "If a symbol contains an x, separate the dimensions by commas: NAME:batch,max_len.",
        )
    return part


def _wrong(text: str, why: str, hint: str = "") -> UsageError:
    return UsageError(
        f"--input {text}: {why}", code="option-value", hint=f"{hint} It is {_FORM}.".strip()
    )
