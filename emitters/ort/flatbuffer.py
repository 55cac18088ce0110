"""The flatbuffer in a ``.ort`` file: read by the classes that ONNX Runtime's tools carry.

Source of the format: ``onnxruntime/core/flatbuffers/schema/ort.fbs``, version 6.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from converter.errors import ModelError
from converter.files.reading import reading

MARK = b"ORTM"
_GRAPH = 5
"""``AttributeType.GRAPH``: the bodies of If, Loop and Scan."""


@cache
def tools() -> Any:
    """``onnxruntime.tools.ort_format_model``; its logging isn't set up, as importing it does."""
    handlers = list(logging.root.handlers)
    try:
        from onnxruntime.tools import ort_format_model
    finally:
        logging.root.handlers[:] = handlers
    return ort_format_model


@cache
def schema() -> Any:
    """The generated classes, a module each."""
    tools()  # puts them where they are imported from
    import ort_flatbuffers_py.fbs as fbs

    return fbs


def is_ort(path: Path) -> bool:
    """Whether a file is of this format, by its mark."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(8)[4:] == MARK


def session_of(path: Path) -> Any:
    """The file's root table, an ``InferenceSession``.

    Raises:
        ModelError: It isn't of this format, or holds no model.
    """
    if not is_ort(path):
        raise ModelError(
            f"{path.name} isn't an .ort file: it has no {MARK.decode()} mark", code="model-damaged"
        )
    with reading(path.name):
        root = schema().InferenceSession.InferenceSession.GetRootAs(path.read_bytes(), 0)
        if root.Model() is None or root.Model().Graph() is None:
            raise ModelError(f"{path.name} holds no graph", code="model-damaged")
    return root


def graphs(graph: Any, outer: dict[bytes, Any]) -> Iterator[tuple[Any, dict[bytes, Any]]]:
    """A graph and those in it, each with the types of all values that its nodes may name."""
    named = (graph.NodeArgs(index) for index in range(graph.NodeArgsLength()))
    types = {**outer, **{arg.Name(): arg.Type() for arg in named}}
    yield graph, types
    for node in nodes(graph):
        for index in range(node.AttributesLength()):
            attribute = node.Attributes(index)
            if attribute.Type() == _GRAPH:
                yield from graphs(attribute.G(), types)


def nodes(graph: Any) -> Iterator[Any]:
    """The nodes of one graph, in the file's order."""
    yield from (graph.Nodes(index) for index in range(graph.NodesLength()))
