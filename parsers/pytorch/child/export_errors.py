"""What the exporter's errors mean for the user: sizes that must be fixed, operators it lacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch

from ...worker.errors import WorkerError, where
from .tensors import Spec

_SIZE = re.compile(r"(?:L|inputs)\['tensors'\]\[(\d+)\]\.(?:size\(\)|shape)\[(\d+)\]", re.ASCII)
_CONSTANT = re.compile(r"You marked (.+?) as dynamic but your code specialized .*?\((\d+)\)")
_STATIC = re.compile(
    r"tracing inferred a static shape of (\d+) for dimension (.+?)\.?$", re.MULTILINE
)
_FIXED = re.compile(r"^\s*(\S+) = (\d+)\s*$", re.MULTILINE)
_GUARD = re.compile(r"- Not all values of .*? satisfy the generated guard (.+?)\.?$", re.MULTILINE)
_AT_MOST = re.compile(r"\b(\w+) == min\((\d+), \1\)")
_EQUAL = re.compile(r"- The values of (\S+) = .*? and (\S+) = .*? must always be equal")
_UNBOUNDED = re.compile(r" and [^ ]+ <= IntInfinity\(\)")
_NO_FUNCTION = re.compile(r"No ONNX function found for <OpOverload\(op='(.+?)', overload='(.+?)'\)")
_NO_SYMBOLIC = re.compile(r"Exporting the operator '?(\S+?)'? to ONNX opset version")
_INDICES = re.compile(
    r"scalar types: .*Long.*but got torch\.\w*Float|tensors used as indices must be"
)
_LINE = re.compile(r'File "(.+?)", line (\d+)')
_DATA_DEPENDENT = ("GuardOnDataDependentSymNode", "DataDependentOutputException")
_LONGEST = 400
_BOILERPLATE = ("The error above occurred", "For more information", "For C++ stack", "Suggested")


def named(text: str, specs: Sequence[Spec], aliases: dict[str, str]) -> str:
    """The exporter's text with the user's symbols in place of its own names for sizes.

    Args:
        text: What the exporter said.
        specs: The inputs, whose shapes hold the user's symbols.
        aliases: Further names of the exporter's, and the symbols that they are.
    """

    def symbol(match: re.Match[str]) -> str:
        return str(specs[int(match.group(1))].shape[int(match.group(2))])

    text = _SIZE.sub(symbol, text)
    for alias, name in aliases.items():
        text = re.sub(rf"\b{alias}\b", name.replace("\\", r"\\"), text)
    return text


def wants_integers(error: BaseException, specs: Sequence[Spec]) -> str:
    """What to declare where torch got floats for indices, and an input's dtype was left out."""
    first = next((spec for spec in specs if spec.dtype == "float32"), None)
    if first is None or not _INDICES.search(str(error)):
        return ""
    return f". Ids are integers: write --input {first.name}:int64:..."


def is_violation(error: BaseException) -> bool:
    """Whether tracing found that a symbol cannot take every size."""
    text = str(error)
    return "Constraints violated" in text or "conflicts between user-specified" in text


def is_data_dependent(error: BaseException) -> bool:
    """Whether the code branches on, or takes a size from, the values of tensors."""
    text = str(error)
    return type(error).__name__ in _DATA_DEPENDENT or "data-dependent" in text


def specialized(text: str) -> dict[str, int]:
    """Symbols that the code turned into constants, with the constants."""
    found = {name: int(value) for name, value in _CONSTANT.findall(text)}
    found.update({name: int(value) for value, name in _STATIC.findall(text)})
    fixes = text.partition("Suggested fixes:")[2]
    found.update({name: int(value) for name, value in _FIXED.findall(fixes)})
    return found


def assumptions(text: str) -> list[str]:
    """Conditions on symbols under which a relaxed trace holds."""
    found = [_UNBOUNDED.sub("", guard) for guard in _GUARD.findall(text)]
    found += [f"{one} == {other}" for one, other in _EQUAL.findall(text)]
    return [_AT_MOST.sub(r"\1 <= \2", condition) for condition in found]


def must_be_fixed(text: str, symbols: dict[str, int], error: BaseException) -> WorkerError:
    """The error that lets the parent try again with fixed sizes.

    Args:
        text: What the exporter said.
        symbols: The size that each has to have.
        error: What the exporter raised; its place in the user's code is named.
    """
    listed = ", ".join(f"{name} = {value}" for name, value in symbols.items())
    details = [
        f"{name} must be fixed: the code turns it into the constant {value}; "
        f"give the input the size {value} in place of {name}, or keep it symbolic in the code"
        for name, value in symbols.items()
    ]
    details += [line.strip(" -") for line in text.splitlines() if line.startswith("  - ")]
    return WorkerError(
        "unsupported",
        f"{where(error)}the model works only for one size of {', '.join(symbols)} ({listed})",
        details,
        specialized=symbols,
    )


def depends_on_data(error: BaseException) -> str:
    """Why torch.export failed, where it is control flow that a graph cannot hold."""
    return (
        f"{where(error)}forward decides by the values of tensors, which torch.export cannot hold: "
        f"{summary(error)}"
    )


def summary(error: BaseException) -> str:
    """The first lines of an exporter's error, without its general advice."""
    lines = []
    # What follows that are the exporter's own names for values.
    for line in str(error).partition("  [Caused by")[0].splitlines():
        if line.startswith(_BOILERPLATE):
            break
        if line.strip():
            lines.append(line.strip())
    text = " ".join(lines[:3])
    # An expression over all symbolic sizes can be as long as a book.
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} [...]"
    return f"{type(error).__name__}: {shown}"


def chain(error: BaseException) -> list[BaseException]:
    """The error and its causes, outermost first."""
    found: list[BaseException] = []
    step: Any = error
    while step is not None and step not in found:
        found.append(step)
        step = step.__cause__
    return found


def operators_in(text: str) -> list[str]:
    """Names of operators that an exporter's message says it lacks."""
    names = [f"{op}.{overload}" for op, overload in _NO_FUNCTION.findall(text)]
    names += _NO_SYMBOLIC.findall(text)
    return list(dict.fromkeys(names))


def _place(node: Any) -> str:
    lines = _LINE.findall(node.meta.get("stack_trace") or "")
    return f" ({lines[-1][0]}:{lines[-1][1]})" if lines else ""


def missing_operators(program: Any, opset: int) -> list[str]:
    """Every operator of an exported program that has no translation, with file:line.

    The exporter itself stops at the first one. Relies on its internals, so it may come back
    empty-handed with another version of it.
    """
    try:
        from torch.onnx._internal.exporter import _core, _registration

        registry = _registration.ONNXRegistry.from_torchlib(opset)
        prepared = _core._prepare_exported_program_for_export(program, registry=registry)
        return list(
            dict.fromkeys(
                f"{node.target}{_place(node)}"
                for node in prepared.graph_module.graph.nodes
                if node.op == "call_function"
                and isinstance(node.target, torch._ops.OpOverload)
                and not registry.is_registered(node.target)
            )
        )
    except Exception:  # only a help for the message of an error that is being reported already
        return []
