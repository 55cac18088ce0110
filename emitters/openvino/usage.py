"""``usage.py``: the few lines that run the IR, with this model's names and types."""

from __future__ import annotations

from converter.ir.model import Model, TensorSpec

_CODE = '''"""Runs model.xml in OpenVINO: pip install openvino numpy."""

import sys
from pathlib import Path

import numpy as np

sys.modules.setdefault("openvino_telemetry", None)  # it tells OpenVINO's maker of each import
import openvino  # noqa: E402


class Model:
    """Loads the files once; each call is one run. One object is for one thread at a time."""

    def __init__(self, path="{file}", device="CPU"):
        # Without the hint, OpenVINO computes in bfloat16 on CPUs that have products of it.
        settings = {{"INFERENCE_PRECISION_HINT": "f32"}}
        file = Path(__file__).parent / path
        self._compiled = openvino.Core().compile_model(file, device, settings)

    def __call__(self, **inputs):
        """Outputs by name, as numpy arrays.

        Inputs:
{inputs}

        Outputs:
{outputs}
        """
        found = self._compiled({{name: np.asarray(value) for name, value in inputs.items()}})
        return dict(zip({names!r}, map(np.array, found.values()), strict=True))
'''


def snippet(model: Model, file: str) -> str:
    """The code."""
    return _CODE.format(
        file=file,
        inputs=_listed(model.inputs),
        outputs=_listed(model.outputs),
        names=[spec.name for spec in model.outputs],
    )


def _listed(specs: tuple[TensorSpec, ...]) -> str:
    shapes = [", ".join(map(str, spec.shape)) if spec.shape is not None else "?" for spec in specs]
    lines = [f"{s.name}: {s.dtype} [{dims}]" for s, dims in zip(specs, shapes, strict=True)]
    return "\n".join(f"            {line}" for line in lines)
