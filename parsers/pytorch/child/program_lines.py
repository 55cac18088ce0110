"""Of the code that an exported program was made of: the module and the line of each node."""

from __future__ import annotations

import linecache
import os
import re
from types import FrameType
from typing import Any

_LINE = re.compile(r'File "(.+?)", line (\d+)')


def origin(frame: FrameType, library: str) -> tuple[str, str, str] | None:
    """The module's path, its class and `net.py:4` of the node that generated code runs.

    `library` is the folder of what isn't the user's. None where the frame is of other code, or the
    program doesn't say.
    """
    code, graph = frame.f_code, getattr(frame.f_locals.get("self"), "graph", None)
    if graph is None or not code.co_filename.startswith("<eval_with_key>"):
        return None
    line = linecache.getline(code.co_filename, frame.f_lineno)
    name = line.partition("=")[0].partition(":")[0].strip()
    node = next((node for node in graph.nodes if node.name == name), None)
    stack = list(_meta(node).get("nn_module_stack", {}).values())
    places = _LINE.findall(str(getattr(node, "stack_trace", None) or ""))
    own = [(file, number) for file, number in places if not file.startswith(library)]
    if not stack or not own:
        return None
    path, kind = stack[-1][:2]
    file, number = own[-1]
    place = f"{os.path.basename(file)}:{number}"  # noqa: PTH119
    return str(path), str(getattr(kind, "__name__", kind)).rpartition(".")[2], place


def _meta(node: Any) -> dict[str, Any]:
    meta: dict[str, Any] = getattr(node, "meta", {})
    return meta
