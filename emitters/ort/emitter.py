"""The ORT target: ONNX Runtime's own format, optimized ahead, with what a minimal build needs."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import ModelError, Unsupported, from_os_error
from converter.files.digest import file_digest
from converter.ir.contents import Contents
from converter.ir.model import Model
from converter.options.request import Request
from converter.precision.int8.scheme import ONNXRUNTIME_CPU, Scheme
from converter.protocols.emitter import Artifact, Emitter
from converter.runtime.session import Session
from emitters.onnx.kernels import FasterKernels, OrtKernels, faster
from emitters.onnx.request import assumed, scheme_of
from emitters.ort.request import ort
from emitters.ort.spec import SPECS

if TYPE_CHECKING:
    from converter.check.shipping import Shipped
    from converter.runtime.alone import Alone

FILE_NAME = "model.ort"
CONFIG = "required_operators.config"

LIMIT = 2**31 - 2**20
"""Bytes of weights that a flatbuffer has room for."""

_HALVES = (
    "weights are stored in float16 and computed with in float32: the casts that ONNX Runtime's "
    "kernels for CPUs need are in the file, and run each time"
)


class OrtEmitter(Emitter, spec=SPECS["ort"]):
    """Writes ``model.ort``, and ``required_operators.config`` beside it."""

    name = "ort"
    scheme = ONNXRUNTIME_CPU
    resizes = True
    tells = True
    packs = True

    def int8(self, request: Request) -> Scheme:
        return scheme_of(request)

    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """Every node whose operator ONNX Runtime doesn't know and the model doesn't define.

        Raises:
            UsageError: A precision that this target hasn't was asked for.
        """
        from emitters.ort.writing import operators

        for precision in request.precision:
            self.require_precision(precision, request)
        known = operators()
        own = {(key[0], key[1]) for key in model.graph.functions}
        return [
            Unsupported(
                node.name or "",
                f"{node.domain}::{node.op_type}" if node.domain else node.op_type,
                "ONNX Runtime has no such operator",
                "replace it with standard operators",
            )
            for node in model.nodes()
            if (node.domain, node.op_type) not in known and (node.domain, node.op_type) not in own
        ]

    def legalizing(self, model: Model, request: Request, seen: Any = None) -> FasterKernels | None:
        """Writes operators that are slow in ONNX Runtime as others."""
        return faster(model, request, OrtKernels())

    def emit(
        self, model: Model, folder: Path, precision: str, request: Request, seen: Any = None
    ) -> Artifact:
        """Writes ``<folder>/model.ort`` and ``<folder>/required_operators.config``.

        Returns:
            An artifact whose details are ``bytes``, ``sha256`` and ``operators``.

        Raises:
            UsageError: The folder can't be written.
            ModelError: ONNX Runtime can't write the model in this format, or it is too large.
            MachineError: The disk is full.
        """
        from emitters.ort.flatbuffer import graphs, session_of
        from emitters.ort.required import required_operators
        from emitters.ort.writing import write

        if model.weight_bytes() > LIMIT:
            raise ModelError(
                f"writing {FILE_NAME}: its weights have {model.weight_bytes():,} bytes; the "
                f"limit is {LIMIT:,}",
                code="model-too-large",
                hint="Convert to onnx, which can keep its weights in another file.",
            )
        if model.legalized is not None:
            model = replace(model, graph=model.legalized.graph)
        path, config = folder / FILE_NAME, folder / CONFIG
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="modelyard-") as aside:
                plain = Path(aside) / "model.onnx"
                model.save(plain)
                write(plain, path, ort(request).ort_optimization)
            config.write_text(required_operators(path), encoding="utf-8")
        except OSError as error:
            raise from_os_error(error, f"writing {FILE_NAME}") from error
        files = [path, config]
        details: dict[str, Any] = {
            "bytes": path.stat().st_size,
            "sha256": {file.name: file_digest(file) for file in files},
            "operators": sum(
                graph.NodesLength() for graph, _ in graphs(session_of(path).Model().Graph(), {})
            ),
            "decisions": [_HALVES] if precision.startswith("fp16") else [],
            "assumes": assumed(model),
        }
        return Artifact(self.name, precision, path, files, details)

    def pack(
        self, artifact: Artifact, model: Model, shipped: Shipped, request: Request
    ) -> Sequence[str]:
        """Writes samples, what the source gave for them, ``selftest.py`` and a README around it.

        Raises:
            OSError: The folder can't be written.
        """
        from emitters.ort.packing import pack

        return pack(artifact, model, shipped, request)

    def sniff(self, path: Path) -> bool:
        """Whether it is a file in this format, by its mark."""
        from emitters.ort.flatbuffer import is_ort

        return is_ort(path)

    def tell(self, path: Path) -> Mapping[str, Any]:
        """What is in a file.

        Raises:
            ModelError: It is damaged.
        """
        from emitters.ort.contents import told

        return told(path)

    def contents(self, artifact: Artifact, request: Request, sizes: Mapping[str, int]) -> Contents:
        """What the flatbuffer's operators compute in, and what its weights are stored in."""
        from emitters.ort.contents import contents_of

        return contents_of(artifact.path, sizes)

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The file in ONNX Runtime on the CPU, as it is: nothing more is optimized.

        Raises:
            ModelError: ONNX Runtime refuses the file.
        """
        from converter.runtime.ort import OrtSession

        return OrtSession(artifact.path, threads=request.threads, prepack=not frugal, stock=True)

    def alone(self, artifact: Artifact, request: Request) -> Alone | str:
        """The file in ONNX Runtime, on the CPU."""
        from converter.runtime.alone import in_onnxruntime

        return in_onnxruntime(artifact.path, ("cpu",), request.threads)
