"""Outputs that are text, of a model for a target whose files hold none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from converter.ir.dependence import taken
from converter.ir.model import Model, TensorSpec

_CLASSES = ("classlabels_strings", "values_strings", "cats_strings")
"""Attributes of ai.onnx.ml's operators that hold the texts that they give."""


def texts_to_leave(outputs: Sequence[TensorSpec]) -> list[str]:
    """The outputs that are text, where others remain."""
    found = [spec.name for spec in outputs if spec.dtype == "string"]
    return found if len(found) < len(outputs) else []


def without_texts(model: Model, who: str) -> tuple[Model, dict[str, str]]:
    """The model without outputs that are text, where others remain, and what to say of each.

    Names of classes that such an output is made of become the labels of the output that has a value
    for each, where nothing is known of it yet.

    Args:
        model: Not changed.
        who: What holds no text.
    """
    names = texts_to_leave(model.outputs)
    if not names:
        return model, {}
    made = model.copy()
    outputs = made.graph.graph.outputs
    classes = {value.name or "": _classes(value) for value in outputs if value.name in names}
    outputs[:] = [value for value in outputs if value.name not in names]
    RemoveUnusedNodesPass()(made.graph)
    return made, {name: _told(made, name, classes[name], who) for name in names}


def _told(made: Model, name: str, classes: Sequence[str], who: str) -> str:
    left = f"the output {name} is left out: it is text, which {who} can't hold"
    labelled = next((spec for spec in made.outputs if spec.labels), None)
    if labelled is None and classes:
        floats = (spec for spec in made.outputs if spec.is_float and spec.shape)
        labelled = next((s for s in floats if s.shape and s.shape[-1] == len(classes)), None)
        if labelled is not None:
            made.describe(labelled.name, meaning="scores", labels=list(classes))
    if labelled is None:
        return f"{left}; which texts it gives isn't known: --label-names takes the classes' names"
    return f"{left}; the names of the classes go along as the labels of {labelled.name}"


def _classes(output: onnx_ir.Value) -> list[str]:
    """The texts that an output is made of, where one node holds them."""
    found = [texts for node in _behind(output) if (texts := _held(node))]
    return found[0] if len(found) == 1 else []


def _held(node: onnx_ir.Node) -> list[str]:
    known = (node.attributes.get(name) for name in _CLASSES)
    return next((list(item.as_strings()) for item in known if item is not None), [])


def _behind(output: onnx_ir.Value) -> Iterator[onnx_ir.Node]:
    """The nodes that an output is computed by."""
    waiting, seen = [output], set[onnx_ir.Node]()
    while waiting:
        node = waiting.pop().producer()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += taken(node)
            yield node
