"""The target: layers as arrays in an .npz, which numpy runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from converter.errors import Unsupported, from_os_error
from converter.files.digest import file_digest
from converter.ir.contents import Contents, Product
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact, Emitter
from modelyard_toy.child import layers
from modelyard_toy.gemm import layers_of
from modelyard_toy.request import HEADING, ToyRequest
from modelyard_toy.session import LayersSession


class ToyEmitter(Emitter):
    """Writes ``model.npz``."""

    name = "toy"
    precisions = ("fp32",)
    options = (HEADING,)

    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """Every node that is neither a layer nor a Relu behind one."""
        why = "a toy file holds linear layers, one behind the other", "take it out of the model"
        found = layers_of(model)[1] if simplified else []
        return [Unsupported(node.name or "", node.op_type, *why) for node in found]

    def emit(
        self, model: Model, folder: Path, precision: str, request: Request, seen: Any = None
    ) -> Artifact:
        path = folder / "model.npz"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            layers.store(path, layers_of(model)[0], request.of(ToyRequest).toy_compressed)
        except OSError as error:
            raise from_os_error(error, "writing model.npz") from error
        details = {"bytes": path.stat().st_size, "sha256": {path.name: file_digest(path)}}
        return Artifact(self.name, precision, path, [path], details)

    def sniff(self, path: Path) -> bool:
        return layers.is_stored(path)

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> LayersSession:
        return LayersSession(layers.stored(artifact.path))

    def contents(self, artifact: Artifact, request: Request, sizes: Mapping[str, int]) -> Contents:
        """What is multiplied, read back from the file."""
        held = layers.stored(artifact.path)
        made = [
            Product(f"layer{n}", "Gemm", "float32", sizes.get("batch", 1) * matrix.size)
            for n, (matrix, _, _) in enumerate(held)
        ]
        stored = sum(matrix.nbytes + bias.nbytes for matrix, bias, _ in held)
        return Contents(artifact.path.name, made, {"float32": stored})
