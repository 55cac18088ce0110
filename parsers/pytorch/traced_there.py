"""A torch model that the user's Python traces and ours translates to ONNX.

What exports can't go along into another version of Python. There torch.export traces the model, and
its program comes over as a .pt2 file; a worker of ours reads it and writes the ONNX file. Reading
such a file can run what its maker put there: it was made a moment ago, in our own folder, by code
that the user has us run anyway, and it is read in a process of its own, never in this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from converter.errors import DependencyError
from converter.runtime.interpreter import interpreter
from converter.runtime.worker import Worker
from parsers.pytorch.spec import PYTORCH


def traced_there(worker: Worker, out: str, opset: int, **params: Any) -> dict[str, Any]:
    """The answer to ``export``, by two workers.

    Args:
        worker: The one in the user's Python, with the model loaded.
        out: Where the ONNX file goes.
        opset: Its version.
        params: What else ``export`` takes.

    Raises:
        DependencyError: Our torch can't read what theirs wrote, or torch.export can't trace the
            model; with onnxscript over there neither would matter.
        UnsupportedError: It can't be exported.
    """
    program = Path(out).with_suffix(".pt2")
    own = Worker(
        PYTORCH,
        what="the process that translates",
        source=program.name,
        interpreter=interpreter(None),
        progress=worker.progress,
        exporter="torch.onnx",
    )
    try:  # ours imports its torch while theirs traces
        traced = worker.call("export", out=str(program), **params)
        answer = _translate(
            own, worker, traced, program, inputs=traced["inputs"], out=out, opset=opset,
            keeps_layers=params.get("keeps_layers", False),
        )  # fmt: skip
    finally:
        own.close()
        program.unlink(missing_ok=True)
    return {**traced, **answer, "warnings": [*traced["warnings"], *answer["warnings"]]}


def _translate(
    own: Worker, theirs: Worker, traced: Mapping[str, Any], program: Path, **params: Any
) -> dict[str, Any]:
    asked = {name: traced[name] for name in ("names", "prefix", "recurrent", "torch")}
    try:
        return own.call("translate", file=str(program), **asked, **params)
    except DependencyError as error:
        line = theirs.interpreter.install_line(["onnxscript"])
        raise DependencyError(
            error.message, code="package-missing", details=error.details, hint=line
        ) from error
