"""A target that does everything wrong that a target can, by the operator it meets."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import Unsupported
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from converter.runtime.ort import OrtSession
from converter.runtime.session import Session
from emitters.onnx.emitter import OnnxEmitter

Array = np.ndarray[Any, Any]


class FaultyEmitter(OnnxEmitter):
    """Abs dies, Neg never ends, Sqrt raises, Exp writes half a file, Relu's result is off;
    Reshape is refused while its shape isn't constant."""

    name = "faulty"

    def unsupported(self, model: Model, request: Request, *,
                    simplified: bool = True) -> Sequence[Unsupported]:  # fmt: skip
        """A Reshape whose shape is fed."""
        found = [n for n in model.nodes() if n.op_type == "Reshape" and n.inputs[1] is not None]
        fed = [n for n in found if n.inputs[1].const_value is None]  # type: ignore[union-attr]
        return [Unsupported(n.name or "", n.op_type, "its shape isn't constant") for n in fed]

    def emit(self, model: Model, folder: Path, precision: str, request: Request) -> Artifact:
        """As the ONNX target, but for the faults."""
        ops = {node.op_type for node in model.nodes()}
        if "Abs" in ops:
            os.write(2, b"about to die\n")
            os.abort()
        if "Neg" in ops:
            time.sleep(600)
        if "Sqrt" in ops:
            raise ValueError("not an error of ours")
        artifact = super().emit(model, folder, precision, request)
        if "Exp" in ops:
            artifact.path.write_bytes(artifact.path.read_bytes()[:30])
        return artifact

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """As the ONNX target, but for the faults."""
        off = b"Relu" in artifact.path.read_bytes()
        return _Off(artifact.path) if off else super().open(artifact, request)


class _Off(OrtSession):
    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        return {name: array + np.float32(0.5) for name, array in super().run(feeds).items()}
