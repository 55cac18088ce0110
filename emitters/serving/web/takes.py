"""What a page in a browser can do of a model and of a declaration, and what it refuses."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from converter.errors import Unsupported, UnsupportedError
from converter.ir.model import TensorSpec
from converter.preparation.declared import Declaration
from emitters.serving.web.runtimes import Runtime

LARGEST = (1 << 31) - 1
"""Bytes of a model's file: more than one array of a browser holds."""

_RATES = (8_000, 96_000)
"""Samples a second that every browser decodes to (Web Audio API 1.1, OfflineAudioContext)."""

_REMEDY = "a server does it: --serve litserve --prepare server"

_FIXED = "--batch 1, --dim NAME=N"

_NOT_DONE = {
    "text": "a page has no tokenizer",
    "row": "a page reads no tables",
    "step": "a page runs no function in Python",
}


def require_ports(specs: Sequence[TensorSpec], runtime: Runtime, known: Collection[str]) -> None:
    """Refuses inputs and outputs that a browser's runtime can't take.

    Args:
        specs: Inputs and outputs.
        runtime: What runs them.
        known: Free sizes that become numbers.

    Raises:
        UnsupportedError: Their types, or free sizes; all of them.
    """
    bad = [
        Unsupported(spec.name, spec.dtype, f"{runtime.title} takes {', '.join(runtime.types)}")
        for spec in specs
        if spec.dtype not in runtime.types
    ]
    if not runtime.free_sizes:
        free = {spec.name: _free(spec, known) for spec in specs}
        bad += [
            Unsupported(name, f"the size {size}", f"{runtime.title} can't have free sizes", _FIXED)
            for name, sizes in free.items()
            for size in sizes
        ]
    if bad:
        raise UnsupportedError("a browser can't run this model", bad)


def _free(spec: TensorSpec, known: Collection[str]) -> list[str]:
    return [size for size in spec.shape or () if isinstance(size, str) and size not in known]


def require_one_row(inputs: Sequence[TensorSpec], declared: Declaration) -> None:
    """Raises UnsupportedError for pictures' inputs of a fixed batch: a page has one file."""
    pictures = {item.input for item in declared.prepare if item.kind == "picture"}
    bad = [
        Unsupported(
            spec.name, f"a batch of {spec.shape[0]}", "a page takes one picture", "--batch 1"
        )
        for spec in inputs
        if spec.name in pictures and spec.shape and len(spec.shape) == 4
        if isinstance(spec.shape[0], int) and spec.shape[0] > 1
    ]
    if bad:
        raise UnsupportedError("a page can't prepare this model's files", bad)


def unprepared(declared: Declaration) -> list[Unsupported]:
    """What of a declaration a page can't do."""
    return [
        Unsupported("", f"{part}: {item.kind}", reason, _REMEDY)
        for part, items in (("prepare", declared.prepare), ("answer", declared.answer))
        for item in items
        for reason in _reasons(part, item)
    ]


def _reasons(part: str, item: Any) -> Iterator[str]:
    if item.kind in _NOT_DONE and (part == "prepare" or item.kind == "step"):
        yield _NOT_DONE[item.kind]
    if "decode" in getattr(item, "fused", ()):
        yield "the model decodes files by an operator that browsers don't have"
    if item.kind == "picture" and item.color in ("rgba", "bgra"):
        yield f"{item.color}: a browser doesn't keep the colours of transparent pixels"
    if item.kind == "sound" and not _RATES[0] <= item.rate <= _RATES[1]:
        yield f"{item.rate} samples a second: browsers decode to {_RATES[0]} to {_RATES[1]}"
