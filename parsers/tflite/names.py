"""What the inputs and outputs of a TFLite model are called.

A signature's names are the user's. Without one there are tensor names, which TensorFlow's
converters made from graph nodes:

    1. What TensorFlow generated becomes what the user saw (:mod:`parsers.generated_names`):
       ``serving_default_x:0`` is ``x``, ``StatefulPartitionedCall:2`` is ``output_2``.
    2. The converter ends a frozen function with ``Identity``, ``Identity_1``... one for each
       result, by number: ``output_0``, ``output_1``, as TensorFlow calls results without names.
    3. A name that is missing is ``input_0``, ``output_0``... by position, and one that is there
       twice gets a number. An output that is called like an input gets ``_out``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from converter.errors import UsageError
from parsers.generated_names import readable
from parsers.tflite.model import Signature, Subgraph, TfliteModel

DEFAULT = "serving_default"
"""The signature that is taken where several are there."""

_RESULT = re.compile(r"Identity(?:_(\d+))?(?::0)?")


@dataclass
class Entry:
    """What is converted of a file.

    Attributes:
        subgraph: Its number.
        signature: Its key; None where the file has no signatures.
        inputs, outputs: Tensor numbers by name, in the signature's or the graph's order.
        renamed: The signature's names of outputs that are called otherwise here.
    """

    subgraph: int
    signature: str | None
    inputs: dict[str, int]
    outputs: dict[str, int]
    renamed: dict[str, str] = field(default_factory=dict)


def find_entry(model: TfliteModel, wanted: str | None, name: str) -> Entry:
    """The signature that was asked for, or the default.

    Args:
        model: The file.
        wanted: ``--signature``.
        name: The file's name, for messages.

    Raises:
        UsageError: There is no such signature, or several and no default among them.
    """
    signature = _signature(model.signatures, wanted, name)
    if signature is None:
        return _unnamed(model.subgraphs[0])
    graph = model.subgraphs[signature.subgraph]
    inputs = signature.inputs | _rest(graph, graph.inputs, signature.inputs, "input")
    names = _apart(signature.outputs, inputs)
    outputs = {new: signature.outputs[old] for old, new in names.items()}
    renamed = {new: old for old, new in names.items() if new != old}
    return Entry(signature.subgraph, signature.key, inputs, outputs, renamed)


def _apart(outputs: Iterable[str], inputs: Iterable[str]) -> dict[str, str]:
    """Names for outputs that no input has: a signature may call both ``x``, ONNX may not."""
    taken = {*outputs, *inputs}
    names = {}
    for name in outputs:
        new, count = name, 1
        while new in inputs or (new != name and new in taken):
            new = f"{name}_out" if count == 1 else f"{name}_out{count}"
            count += 1
        taken.add(new)
        names[name] = new
    return names


def _signature(signatures: list[Signature], wanted: str | None, name: str) -> Signature | None:
    listed = [_described(item) for item in signatures]
    if wanted is not None:
        for item in signatures:
            if item.key == wanted:
                return item
        raise UsageError(
            f"--signature {wanted}: {name} has no such signature",
            code="unknown-name",
            details=listed,
            hint="It has the ones listed." if listed else "It has none: leave --signature out.",
        )
    if len(signatures) < 2:
        return signatures[0] if signatures else None
    for item in signatures:
        if item.key == DEFAULT:
            return item
    raise UsageError(
        f"{name} has {len(signatures)} signatures, and none of them is {DEFAULT}",
        code="choose-one",
        details=listed,
        hint="Choose one: --signature NAME.",
    )


def _described(signature: Signature) -> str:
    return f"{signature.key}: {', '.join(signature.inputs)} -> {', '.join(signature.outputs)}"


def _unnamed(graph: Subgraph) -> Entry:
    """The first graph of a file without signatures."""
    inputs = _rest(graph, graph.inputs, {}, "input")
    outputs = _rest(graph, graph.outputs, inputs, "output")
    return Entry(graph.index, None, inputs, outputs)


def _rest(
    graph: Subgraph, numbers: Iterable[int], named: dict[str, int], kind: str
) -> dict[str, int]:
    """Names, unlike those in ``named``, for the tensors that have none there yet."""
    made: dict[str, int] = {}
    known = set(named.values()) if kind == "input" else set()
    for position, number in enumerate(numbers):
        if number in known:
            continue
        plain = plain_name(graph.tensors[number].name, kind) or f"{kind}_{position}"
        name, count = plain, 1
        while name in made or name in named:
            count += 1
            name = f"{plain}_{count}"
        made[name] = number
    return made


def plain_name(name: str, kind: str) -> str:
    """A tensor's name without what TensorFlow put around it; ``kind`` is input or output."""
    result = _RESULT.fullmatch(name) if kind == "output" else None
    return f"output_{result[1] or 0}" if result else readable(name)
