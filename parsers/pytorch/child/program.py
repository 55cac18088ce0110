"""A program that torch.export traces in one Python, and another's worker translates to ONNX.

For a Python that has torch, and can't have what exports: only compiled modules of its own version
load there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ...worker.errors import WorkerError
from . import export as torch_export
from .tensors import read_specs


def save(request: torch_export.Request) -> dict[str, Any]:
    """Trace the model and write the program to `request.out`.

    Returns what `translate` takes (names, prefix, recurrent, torch) and warnings. Raises what
    torch_export.trace does, and dependency where torch.export can't trace it.
    """
    torch_export.require_count(request)
    program, reasons = torch_export.trace(request)
    if program is None:
        raise WorkerError(
            "dependency",
            f"torch.export can't trace the model: {reasons[0]}. TorchScript's export to ONNX "
            "needs onnxscript in the same Python",
            reasons,
            package="onnxscript",
        )
    names = request.names()
    request.progress("writing the traced program")
    torch.export.save(program, request.out)
    return {
        "names": names,
        "prefix": torch_export.inner_name(request),
        "recurrent": torch_export.is_recurrent(request.flat),
        "torch": torch.__version__,
        "inputs": [spec._asdict() for spec in request.specs],
        "warnings": list(dict.fromkeys(request.warnings)),
    }


def translate(params: Mapping[str, Any]) -> dict[str, Any]:
    """The program in `file`, as `save` wrote it, as an ONNX file; see torch_export.export.

    Raises dependency where this torch can't read it, unsupported where an operator has no
    translation.
    """
    file, opset = params["file"], int(params["opset"])
    try:
        program = torch.export.load(file)
    except Exception as error:  # a later format, operators that aren't here: whatever it raises
        text = str(error).strip().partition("\n")[0]
        raise WorkerError(
            "dependency",
            f"torch {torch.__version__} here can't read the program that torch "
            f"{params['torch']} traced: {type(error).__name__}: {text}",
        ) from error
    specs, names = read_specs(params["inputs"]), list(params["names"])
    options: dict[str, Any] = {"opset_version": opset, "optimize": True}
    if params.get("keeps_layers"):
        from . import layers

        layers.mark(program)
        options["keeps_layers"] = True
    try:
        model = torch_export.translate(program, specs, names, bool(params["recurrent"]), **options)
    except Exception as error:
        reasons = torch_export.why_untranslated(program, opset, error)
        text = f"the model cannot be exported: {reasons[0]}"
        raise WorkerError("unsupported", text, reasons) from error
    written = torch_export.write(model, specs, params["prefix"], params["out"])
    return {**written, "exporter": "dynamo", "reasons": [], "probes": [], "probed": "", "kept": ""}
