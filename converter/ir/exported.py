"""Tells an exporter's mistake as the exporter's: a graph whose types or ranks are wrong.

The model that was read runs in its own framework, and nothing has changed the graph yet: what ONNX
Runtime refuses of it is neither the user's nor a pass's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir

from converter.errors import ModelError, Unsupported, UnsupportedError
from converter.ir.edit import all_nodes
from converter.ir.model import Model

_LACKS = "Could not find an implementation"
"""What ONNX Runtime says where it has no kernel for what is right."""

_AFTER_NODE = re.compile(r"""[Nn]ode(?: with name|s?:| name:)?\s*[('"]*([\w./:$-]*\w)""")
_WORD = re.compile(r"[\w./:$-]*\w")

_REMEDY = (
    "write that part of the model with other operators, cut the model before it (--output), or try "
    "another version of the exporter"
)


def exporters_mistake(model: Model, error: ModelError) -> ModelError:
    """The error of a graph that an exporter wrote and ONNX Runtime refuses; ``error`` itself where
    there was no exporter, or ONNX Runtime only lacks a kernel.

    Args:
        model: As it was exported.
        error: What ONNX Runtime says of it: where it loads it, or runs a sample that the model
            itself takes.
    """
    if not model.source.get("exporter") or _LACKS in error.message:
        return error
    node = _named(model, error.message)
    name, op = (node.name or "", node.op_type) if node is not None else ("", "a node")
    return _mistake(model, [Unsupported(name, op, error.message, _REMEDY)])


def require_types(model: Model, outputs: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Refuses a graph whose outputs are of other types than what the model itself gave.

    Args:
        model: As it was exported.
        outputs: The model's own, for a sample.

    Raises:
        UnsupportedError: It has an exporter, and such outputs; all of them.
    """
    wrong = [
        Unsupported(
            spec.name,
            _maker(model, spec.name),
            f"the output is {spec.dtype}, and the model itself gives {given}",
            f"cast it in the model to {given}, or to what you want it to be",
        )
        for spec in model.outputs
        if spec.name in outputs
        and (given := outputs[spec.name].dtype.name) in _PLAIN
        and spec.dtype in _PLAIN
        and spec.dtype != given
    ]
    if wrong and model.source.get("exporter"):
        raise _mistake(model, wrong)


_PLAIN = frozenset(
    f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)
) | {"bool"}


def _mistake(model: Model, items: Sequence[Unsupported]) -> UnsupportedError:
    framework = model.source.get("framework")
    who = f"the exporter {model.source['exporter']}" + f" ({framework})" * bool(framework)
    return UnsupportedError(
        f"{who} wrote a wrong graph",
        items,
        hint="The exporter made the mistake: the original model runs, and Modelyard hasn't "
        "changed the graph.",
    )


def _maker(model: Model, output: str) -> str:
    made = (value.producer() for value in model.graph.graph.outputs if value.name == output)
    return next((node.op_type for node in made if node is not None), "output")


def _named(model: Model, text: str) -> onnx_ir.Node | None:
    """The node that a message names, by its name or that of what it gives."""
    nodes = list(all_nodes(model.graph))
    names = {node.name: node for node in nodes if node.name}
    given = {value.name: node for node in nodes for value in node.outputs if value.name}
    words = [*_AFTER_NODE.findall(text), *_WORD.findall(text)]
    return next((known[word] for known in (names, given) for word in words if word in known), None)
