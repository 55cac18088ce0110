"""The ONNX target: the Model as a file, run by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.analysis.products import products, stored_bytes
from converter.errors import ModelError, Unsupported, from_os_error
from converter.files.digest import file_digest
from converter.files.filetypes import onnx_outline
from converter.ir.contents import Contents
from converter.ir.edit import is_constant, weights_first
from converter.ir.model import Model
from converter.options.request import Request
from converter.precision.int8.scheme import ONNXRUNTIME_CPU, Scheme
from converter.preparation.declared import IN_GRAPH
from converter.protocols.emitter import Artifact, Emitter
from converter.runtime.session import Session
from emitters.onnx.kernels import FasterKernels, faster
from emitters.onnx.pads import keep_pads
from emitters.onnx.products import ends, keep_products
from emitters.onnx.request import FILE, OnnxRequest, assumed, scheme_of
from emitters.onnx.spec import SPECS
from emitters.onnx.tied import keep_tied

if TYPE_CHECKING:
    from converter.runtime.alone import Alone
    from converter.runtime.ort_optimizers import Failing

FILE_NAME = "model.onnx"

_ENDS = (
    "ONNX Runtime ends its process (SIGSEGV, microsoft/onnxruntime#28392) where it loads this file "
    "on an x86 CPU with default options: give InferenceSession "
    'disabled_optimizers=["NchwcTransformer"], as the check did; GPUs are not concerned'
)

MAPPED_ABOVE = 256 << 20
"""Bytes from which a frugal session leaves weights where they are."""


class OnnxEmitter(Emitter, spec=SPECS["onnx"]):
    """Writes ``model.onnx``, with its weights in a file beside it where asked for or needed."""

    name = "onnx"
    scheme = ONNXRUNTIME_CPU
    resizes = True

    def int8(self, request: Request) -> Scheme:
        return scheme_of(request)

    def decodes(self, request: Request) -> bool:
        """Whether onnxruntime-extensions decodes; raises DependencyError where it isn't there."""
        if not request.of(OnnxRequest).ort_extensions:
            return False
        from converter.runtime.ort_extensions import require_extensions

        require_extensions()
        return True

    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """Every node whose operator ONNX Runtime doesn't know and the model doesn't define.

        Raises:
            DependencyError: A provider that the request names isn't there or doesn't start.
        """
        from converter.runtime.ort import require_providers

        require_providers(request.providers)
        known = _operators()
        own = {(key[0], key[1]) for key in model.graph.functions}
        found = []
        for node in model.nodes():
            domain = _plain(node.domain)
            if (domain, node.op_type) in known or (node.domain, node.op_type) in own:
                continue
            op = f"{domain}::{node.op_type}" if domain else node.op_type
            found.append(Unsupported(node.name or "", op, *_why(domain)))
        return found

    def legalizing(self, model: Model, request: Request, seen: Any = None) -> FasterKernels | None:
        """Writes operators that are slow in ONNX Runtime as others, where it runs on CPUs."""
        return faster(model, request, FasterKernels())

    def emit(
        self, model: Model, folder: Path, precision: str, request: Request, seen: Any = None
    ) -> Artifact:
        """Writes ``<folder>/model.onnx``.

        Returns:
            An artifact whose ``path`` is the ``.onnx`` file under ``folder``, and whose details
            are ``bytes`` (of all files), ``sha256`` (of the ``.onnx`` file, and of the weights'
            file where there is one), ``opset``, ``ir_version`` and ``nodes``; ``without``, the
            optimizations of ONNX Runtime's that fail on it.

        Raises:
            ModelError: Optimizations fail, and none of them can be left out by its name.
            UsageError: The folder can't be written.
            MachineError: The disk is full.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise from_os_error(error, f"making the folder for {FILE_NAME}") from error
        from converter.runtime.ort import failing_on, holds_halves

        if model.legalized is not None:
            model = replace(model, graph=model.legalized.graph)
        safe = _weights_first(keep_tied(keep_products(keep_pads(model))))
        files = safe.save(folder / FILE_NAME, external=request.external_data or None)
        crashes = holds_halves(safe.graph) and ends(files[0], mapped=_is_large(files))
        decoded = model.source.get(IN_GRAPH, {}).get("decoded", ())
        if decoded:
            from emitters.onnx.decoding import decoding

            safe = decoding(safe)
            files = safe.save(folder / FILE_NAME, external=request.external_data or None)
        details = {
            "bytes": sum(file.stat().st_size for file in files),
            "sha256": {file.name: file_digest(file) for file in files},
            "opset": model.opset,
            "ir_version": model.graph.ir_version,
            "nodes": model.node_count(),
        }
        assumes = assumed(safe)
        if decoded:
            from emitters.onnx.decoding import assumed_of

            assumes += assumed_of(model)
            details["takes"] = [vars(spec) for spec in safe.inputs]
            details["gives"] = [vars(spec) for spec in safe.outputs]
        if assumes:
            details["assumes"] = assumes
        if crashes:
            details["without"] = ["NchwcTransformer"]
            details["decisions"] = [_ENDS]
        if _looked_up(model) > MAPPED_ABOVE:
            details["looks_up"] = True
        if model.source.get("fails") and (found := failing_on(files[0], stock=True)):
            details["without"] = _without(found)
            details["decisions"] = [f"{found} fails on this file: {found.remedy}, as the check did"]
        return Artifact(self.name, precision, files[0], files, details)

    def sniff(self, path: Path) -> bool:
        """Whether it is an ONNX file, by its contents."""
        return path.is_file() and onnx_outline(path).is_onnx

    def contents(self, artifact: Artifact, request: Request, sizes: Mapping[str, int]) -> Contents:
        """What the file's nodes compute in, Q and DQ as ONNX Runtime takes them."""
        model = Model.written(artifact.path)
        counted = products(model, sizes, whole=True)
        return Contents(artifact.path.name, counted, stored_bytes(model))

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The file in ONNX Runtime, on the providers and threads that the request names; one that
        takes pictures' files as one that takes pixels.

        With ``frugal``, the weights of a large model stay mapped, aren't packed anew, and those
        that are looked up in tables are so in each run.

        Raises:
            ModelError: ONNX Runtime refuses the file.
            DependencyError: A provider isn't there or didn't start, or what decodes files.
        """
        session = self._opened(artifact, request, frugal=frugal)
        if not any((spec.meaning or "").startswith(FILE) for spec in session.inputs):
            return session
        from emitters.onnx.decoding import FromFiles

        return FromFiles(session)

    def load(self, artifact: Artifact, request: Request) -> Session:
        """The file as it is."""
        return self._opened(artifact, request, frugal=False)

    def _opened(self, artifact: Artifact, request: Request, *, frugal: bool) -> Session:
        from converter.runtime.ort import FOLDING, OrtSession, RefusedModel, failing_on

        looks_up = artifact.details.get("looks_up", False)
        frugal = frugal and (looks_up or _is_large(artifact.files))
        without = [
            *artifact.details.get("without", ()),
            *([FOLDING] if frugal and looks_up else []),
        ]
        try:
            return OrtSession(
                artifact.path,
                providers=request.providers,
                threads=request.threads,
                prepack=not frugal,
                mapped=frugal and len(artifact.files) == 1,
                stock=True,
                without=without,
            )
        except RefusedModel as error:
            if (found := failing_on(artifact.path, stock=True)) is None:
                raise
            told = f"{found} fails on {artifact.path.name}: {error.message}"
            raise ModelError(
                told, code="runtime-failed", hint=f"It runs with {found.remedy}."
            ) from error

    def alone(self, artifact: Artifact, request: Request) -> Alone | str:
        """The file in ONNX Runtime, on the CPU alone."""
        from converter.runtime.alone import in_onnxruntime

        if artifact.details.get("takes"):
            return "it needs onnxruntime-extensions, which a process of its own here doesn't load"
        without = artifact.details.get("without", ())
        return in_onnxruntime(artifact.path, request.providers, request.threads, without)


def _is_large(files: Sequence[Path]) -> bool:
    return sum(file.stat().st_size for file in files) > MAPPED_ABOVE


def _weights_first(model: Model) -> Model:
    """Itself where its nodes are in that order already, else a copy."""
    order = weights_first(model.graph.graph)
    if order == list(model.graph.graph):
        return model
    made = model.copy()
    graph = made.graph.graph
    for node in weights_first(graph):
        graph.remove(node)
        graph.append(node)
    return made


def _looked_up(model: Model) -> int:
    """Bytes of the weights that a model looks up in tables (palettized ones), in float32."""
    tables = (
        n for n in model.nodes() if n.op_type == "GatherElements" and is_constant(n.inputs[0])
    )
    shapes = (node.outputs[0].shape for node in tables)
    return sum(4 * prod(shape.numpy()) for shape in shapes if shape and shape.is_static())


def _without(found: Failing) -> list[str]:
    if not found.name:
        raise ModelError(
            f"{found} fails on the written file, and can't be switched off by its name",
            code="runtime-failed",
            hint=f"It runs with {found.remedy}. Let Modelyard simplify the model (without "
            "--no-simplify), which may remove the cause.",
        )
    return [found.name]


def _plain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _why(domain: str) -> tuple[str, str]:
    if domain in ("", "ai.onnx.ml", "com.microsoft"):
        return "ONNX Runtime has no such operator", "check the operator's name and opset"
    return (
        f"the domain {domain!r} isn't part of ONNX, and the model doesn't define the operator",
        "export it as a model-local function, or replace it with standard operators",
    )


@cache
def _operators() -> frozenset[tuple[str, str]]:
    """Domain and name of every operator that ONNX Runtime has a schema for."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return frozenset((_plain(item.domain), item.name) for item in state.get_all_operator_schema())
