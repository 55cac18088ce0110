"""Asks the parser, before anything takes long, what it can't take of a model."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from converter import plugins
from converter.errors import ModelyardError, Unsupported
from converter.ir.model import Model
from converter.options.request import Request
from emitters.tensorrt.build import call, reasons_in
from emitters.tensorrt.libraries import Library
from emitters.tensorrt.refusals import refused, typed_refusals
from emitters.tensorrt.request import engine


def unsupported_nodes(
    model: Model, request: Request, library: Library, *, simplified: bool
) -> Sequence[Unsupported]:
    """Every node that the library's ONNX parser refuses.

    What goes when constants are folded isn't held against a model that wasn't simplified yet:
    where something is refused, it is asked about once more as it is then.

    Args:
        model: What is asked about.
        request: Its ``plugins``.
        library: TensorRT or TensorRT-RTX.
        simplified: Whether the model is simplified already.

    Raises:
        DependencyError: The library can't be loaded.
        MachineError: Its process died.
    """
    found = _ask(model, request, library)
    if simplified or not found:
        return found
    folded = _folded(model)
    return found if folded is None else _ask(folded, request, library)


def _folded(model: Model) -> Model | None:
    copy = model.copy()
    try:
        copy.graph = plugins.load("passes", "ort-basic")(copy.graph).model
    except ModelyardError:
        return None
    except Exception:  # the pass wraps ONNX Runtime, which raises classes without a shared base
        return None
    return copy


def _ask(model: Model, request: Request, library: Library) -> list[Unsupported]:
    with tempfile.TemporaryDirectory(prefix="modelyard-") as name:
        folder = Path(name)
        model.copy().save(folder / "model.onnx")
        asked = {
            "task": "support",
            "onnx": "model.onnx",
            "plugins": [str(Path(path).absolute()) for path in engine(request).plugins],
        }
        answer = call(asked, folder, library)
    if answer["supported"]:
        return []
    items = refused(answer["errors"])
    if items:
        return typed_refusals(model, items)
    return [
        Unsupported(node.name or "", node.op_type, "the parser refuses it without a reason")
        for index, node in enumerate(model.graph.graph)
        if index not in answer["taken"]
    ] or [Unsupported("", "the model", "; ".join(reasons_in(answer["log"])))]
