"""A model of MindSpore Lite made of ONNX by its own converter."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import onnx_ir

from converter.errors import MachineError, ModelError, Unsupported, UnsupportedError
from converter.ir.edit import all_nodes
from converter.ir.model import Model
from emitters.lowering.operators import refused_nodes
from emitters.mindspore.python import CONVERT, Lite
from emitters.mindspore.rules import REMEDY, Legalize, as_before, why

LIMIT = 2**31 - 2**20
"""Bytes of weights that one ONNX file has room for: the converter is given one."""


_NAMED = re.compile(r"OP TYPE: (\w+)|parse node (\w+) failed")
"""What the converter says of operators that it doesn't take."""


def write(model: Model, path: Path, python: str) -> None:
    """Writes ``path``.

    Args:
        model: Its sizes are fixed.
        path: The file, whose name ends as the converter's do.
        python: The interpreter that has mindspore-lite.

    Raises:
        UnsupportedError: The converter's reader hasn't an operator; all of them are listed.
        ModelError: The converter refuses the model, or it is too large.
        MachineError: The converter's process died.
        OSError: The folder can't be written.
    """
    if model.weight_bytes() > LIMIT:
        raise ModelError(
            f"mindspore takes at most {LIMIT:,} bytes of weights", code="model-too-large"
        )
    graph = Legalize().apply(model).graph
    if items := list(refused_nodes(graph, why, REMEDY)):
        raise UnsupportedError(f"mindspore can't take {len(items)} nodes of this model", items)
    as_before(graph)
    with tempfile.TemporaryDirectory(prefix="modelyard-") as aside:
        plain = Path(aside) / "model.onnx"
        plain.write_bytes(Model.wrap(graph).to_proto().SerializeToString())
        _convert(plain, path, python, graph)
    path.chmod(0o644)  # it writes files that only their owner reads


def _convert(plain: Path, path: Path, python: str, graph: onnx_ir.Model) -> None:
    """Has the converter write ``path``; raises as :func:`write`."""
    lite = Lite(python, CONVERT, "MindSpore Lite's converter")
    try:
        lite.call("convert", source=str(plain), path=str(path.with_suffix("").absolute()))
    except MachineError as error:
        why = "MindSpore Lite's converter ended, without a word, at this model"
        raise ModelError(why, code="runtime-failed", details=error.details, hint=REMEDY) from error
    except ModelError as error:
        named = {a or b for a, b in _NAMED.findall("\n".join(lite.said()))}
        found = [node for node in all_nodes(graph) if node.op_type in named]
        if not found:
            raise
        why = "MindSpore Lite's converter refuses it"
        items = [Unsupported(node.name or "", node.op_type, why, REMEDY) for node in found]
        raise UnsupportedError("mindspore can't take this model", items) from error
    finally:
        lite.close()
