"""ONNX Runtime's own basic optimizations, as a pass: exact rewrites in standard operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx_ir
import onnxruntime

from converter.passes.libraries.library import LibraryPass
from converter.passes.libraries.tools import run_tool
from converter.runtime.ort import WRONG


@dataclass(frozen=True)
class OrtBasicParameters:
    """Parameters of :class:`OrtBasic`.

    Attributes:
        without: Its rewrites that are left out.
    """

    without: tuple[str, ...] = WRONG


class OrtBasic(LibraryPass):
    """Loads the model at ``ORT_ENABLE_BASIC`` and takes the graph that ONNX Runtime then holds.

    The basic level stays within standard operators; the higher ones write ``com.microsoft``
    operators, which only ONNX Runtime knows. It runs in the simplifiers' process: some Ifs in Ifs
    make it crash.
    """

    name = "ort-basic"
    level = "ORT_ENABLE_BASIC"
    summary = "ONNX Runtime's basic level: folds constants, drops and fuses standard operators"
    parameters = OrtBasicParameters()

    def versions(self) -> Mapping[str, str]:
        return {"onnxruntime": onnxruntime.__version__}

    def simplify(self, model: onnx_ir.Model) -> onnx_ir.Model:
        """What ONNX Runtime makes of ``model``, with other names for what it added.

        ONNX Runtime 1.31 gives the same names again when it opens the file, and then fails
        ("Attempt to replace the existing tensor").
        """
        options = {"level": self.level, "without": list(self.parameters.without)}
        known = set(_names(model))
        made = run_tool("ort-basic", model, options)
        for value in _values(made):
            if not value.name or value.name in known:
                continue
            name = _PREFIX + value.name
            while name in known:
                name = _PREFIX + name
            value.name = name
        return made


_PREFIX = "basic_"


def _values(model: onnx_ir.Model) -> Iterator[onnx_ir.Value]:
    """What nodes give and initializers are, in all graphs."""
    for graph in model.graphs():
        yield from list(graph.initializers.values())
        for node in graph:
            yield from node.outputs


def _names(model: onnx_ir.Model) -> Iterator[str]:
    for graph in model.graphs():
        yield from (value.name or "" for value in graph.inputs)
    yield from (value.name or "" for value in _values(model))
