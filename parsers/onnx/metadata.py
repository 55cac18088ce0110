"""What exporters write beside a graph, in the file's metadata, of pictures and of answers.

RapidOCR's recognizers have their alphabet as ``character``, a letter a line; CTC's blank comes
before it and a space behind (``CTCLabelDecode``). Ultralytics' models have ``names``, a Python
table, and ``task``: a detector's pictures are letterboxed in grey 114, its boxes are middles and
sizes in the model's picture, before suppression (``ultralytics.utils.ops.non_max_suppression``).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from converter.ir.model import Model, TensorSpec
from converter.preparation.suggested import Suggested

_LONGEST = 1 << 20
"""Letters of an entry that is read."""


def suggested(model: Model, metadata: Mapping[str, str]) -> Suggested:
    """What the metadata of a file says.

    Args:
        model: With the interface that was asked for; labels are described in it.
        metadata: The file's.
    """
    if len(model.inputs) != 1 or any(len(text) > _LONGEST for text in metadata.values()):
        return Suggested()
    if "character" in metadata:
        return _spelled(model.outputs, metadata["character"])
    names = _names(metadata.get("names", ""))
    if not names or "stride" not in metadata:
        return Suggested()
    origin = "the file's metadata: names"
    first = model.outputs[0]
    if metadata.get("task") == "classify" and (first.shape or (0,))[-1] == len(names):
        model.describe(first.name, meaning="scores", labels=names)
        return Suggested(origins={"answer (classes)": origin})
    return _detector(model, names, metadata.get("task", ""), origin)


def _spelled(outputs: Sequence[TensorSpec], said: str) -> Suggested:
    letters = ["", *said.splitlines(), " "]
    output = outputs[0]
    if len(outputs) != 1 or (output.shape or (0,))[-1] != len(letters):
        return Suggested(notes=[f"the file's metadata: character has {len(letters)} letters, and "
                                f"the output {output.describe()}"])  # fmt: skip
    answer = {"kind": "text", "output": output.name, "letters": letters}
    return Suggested(answer=[answer], origins={"answer (text)": "the file's metadata: character"})


def _names(text: str) -> list[str]:
    """The classes' names, in order; empty where it is no such table."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    if isinstance(found, list):
        return list(map(str, found))
    if not isinstance(found, dict) or {*found} != {*range(len(found))}:
        return []
    return [str(found[index]) for index in range(len(found))]


def _detector(model: Model, names: list[str], task: str, origin: str) -> Suggested:
    output, spec = model.outputs[0], model.inputs[0]
    shape, count = output.shape or (), len(names)
    transposed = task == "detect" and len(shape) == 3 and shape[1] == 4 + count
    older = not task and len(shape) == 3 and shape[2] == 5 + count
    if not transposed and not older:
        return Suggested(notes=[(f"the file's metadata doesn't say how {task or 'its task'} is "
            f"read from {output.describe()}")])  # fmt: skip
    boxes: dict[str, Any] = {
        "kind": "boxes", "output": output.name, "transposed": transposed, "objectness": older,
        "format": "cxcywh", "labels": names, "threshold": 0.25, "iou": 0.7,
    }  # fmt: skip
    channels, height, width = [*(spec.shape or ()), 0, 0, 0, 0][1:4]
    if channels != 3 or not isinstance(height, int) or not isinstance(width, int):
        return Suggested(answer=[boxes], origins={"answer (boxes)": origin})
    picture = {
        "kind": "picture", "input": spec.name, "layout": "CHW", "color": "rgb", "fill": 114,
        "height": height, "width": width, "scale": 1 / 255, "mean": 0, "std": 1,
    }  # fmt: skip
    origins = {"answer (boxes)": origin, "prepare (picture)": "what wrote the file's metadata"}
    return Suggested([picture], [boxes], origins)
