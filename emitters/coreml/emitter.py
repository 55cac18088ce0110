"""The Core ML target: an ML Program as an ``.mlpackage``, read back and run to check it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter import plugins
from converter.analysis.products import products
from converter.errors import Unsupported, UnsupportedError, from_os_error
from converter.ir.contents import Contents
from converter.ir.model import Model
from converter.options.request import Request
from converter.options.shape_ranges import sizes_seen
from converter.protocols.emitter import Artifact, Emitter
from converter.runtime.session import Session
from emitters.coreml.images import require_inputs
from emitters.coreml.lowering import Legalize, Lowered, lower, unsupported_operators
from emitters.coreml.metadata import describe
from emitters.coreml.options import Options, require_since, require_units, target_of
from emitters.coreml.package import write
from emitters.coreml.request import package
from emitters.coreml.scheme import COREML
from emitters.coreml.session import open_package, read_back
from emitters.coreml.sizes import Range, coreml_shape
from emitters.coreml.spec import SPECS
from emitters.coreml.swift import snippet
from modelyard.containers.coreml import coremltools, is_package

if TYPE_CHECKING:
    from converter.check.shipping import Shipped
    from converter.samples import Samples

FILE_NAME = "model.mlpackage"
SWIFT = "usage.swift"


class CoremlEmitter(Emitter, spec=SPECS["coreml"]):
    """Writes ``model.mlpackage``, and ``usage.swift`` beside it."""

    name = "coreml"
    packs = True
    scheme = COREML
    texts = False
    lowers = True

    def ready(self) -> None:
        """Imports coremltools."""
        coremltools()

    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """Every input, output and node that can't be lowered, and why.

        Before simplifying, what depends on shapes isn't known yet: then only operators that have
        no lowering at all are listed.

        Raises:
            UsageError: What is asked for isn't there in Core ML, or not in the target, or doesn't
                fit the model.
            DependencyError: coremltools isn't there.
        """
        for precision in request.precision:
            self.require_precision(precision, request)
        require_units(request)
        coremltools()
        if not simplified:
            require_inputs(request, model.inputs)
            return unsupported_operators(model.graph)
        return _lowered(model, Options.of(request, model), request).refusals

    def require_precision(self, precision: str, request: Request) -> None:
        """Refuses what Core ML, or the target, doesn't have; raises UsageError."""
        super().require_precision(precision, request)
        require_since(precision, request)

    def has_grouped_tables(self, request: Request) -> bool:
        """From iOS 18 on."""
        return target_of(request) >= 18

    def observe(self, samples: Samples, model: Model) -> Mapping[str, Range] | None:
        """How large free dimensions are in the samples, where there are any."""
        if not model.symbols:
            return None
        shapes = [{name: array.shape for name, array in item.feeds.items()} for item in samples]
        return sizes_seen(shapes, model.inputs)

    def legalizing(self, model: Model, request: Request, seen: Any = None) -> Legalize:
        """Brings a model to what Core ML has."""
        options = Options.of(request, model, seen)
        return Legalize(options.target, options.fixed, request.dims)

    def emit(
        self, model: Model, folder: Path, precision: str, request: Request, seen: Any = None
    ) -> Artifact:
        """Writes ``<folder>/model.mlpackage``.

        Returns:
            An artifact whose ``path`` is the package's folder, and whose details are ``bytes``,
            ``coreml_target`` and ``compute_units``.

        Raises:
            UsageError: The folder can't be written, or an option doesn't fit the model.
            UnsupportedError: A node can't be lowered.
            MachineError: The disk is full.
        """
        options = Options.of(request, model, seen)
        lowered = _lowered(model, options, request)
        if lowered.refusals:
            raise UnsupportedError(
                f"coreml can't take {len(lowered.refusals)} things of this model", lowered.refusals
            )
        path = folder / FILE_NAME
        about = partial(describe, lowered=lowered, model=model, request=request, options=options)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            inputs = _input_types(lowered, options)
            write(lowered, path, options.target, inputs, about, _classifier(lowered, options))
            text = snippet(request.name or str(model.source.get("class") or ""), lowered, options)
            (folder / SWIFT).write_text(text, encoding="utf-8")
        except OSError as error:
            raise from_os_error(error, f"writing {FILE_NAME}") from error
        files = sorted(file for file in path.rglob("*") if file.is_file())
        details = {
            "bytes": sum(file.stat().st_size for file in files),
            "coreml_target": package(request).coreml_target,
            "compute_units": options.units,
            "decisions": _decisions(lowered, options),
            "assumes": lowered.settled,
        }
        return Artifact(self.name, precision, path, [*files, folder / SWIFT], details)

    def contents(self, artifact: Artifact, request: Request, sizes: Mapping[str, int]) -> Contents:
        """What the package's program computes in, and what its constants take, as the parser of the
        format reads them."""
        path = artifact.path
        stored = plugins.load("parsers", "coreml").stored_bytes(path)
        return Contents(path.name, products(read_back(path), sizes), stored)

    def sniff(self, path: Path) -> bool:
        """Whether it is a package, by its manifest."""
        return is_package(path)

    def pack(
        self, artifact: Artifact, model: Model, shipped: Shipped, request: Request
    ) -> Sequence[str]:
        """Writes samples, what the source gave for them, ``selftest.py`` and a README around it.

        Raises:
            OSError: The folder can't be written.
        """
        from emitters.coreml.packing import pack

        return pack(artifact, model, shipped, request)

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The package, opened from disk: in Core ML on a Mac, else read back.

        Raises:
            ModelError: It can't be read.
        """
        return open_package(artifact.path, request, frugal=frugal)


def _lowered(model: Model, options: Options, request: Request) -> Lowered:
    lowered = lower(
        model,
        options.target,
        fixed=options.fixed,
        images=options.images,
        scores=options.classifier[0] if options.classifier else None,
        sizes=request.dims,
    )
    if lowered.settled:  # at 1 the source has another number of axes
        options.sizes.above_one(request.dims)
    return lowered


def _input_types(lowered: Lowered, options: Options) -> list[Any]:
    """coremltools' types of the inputs."""
    import numpy as np

    library = coremltools()
    made = []
    for port in lowered.inputs:
        shape = coreml_shape(port, options.sizes)
        if port.image is None:
            kind = np.dtype(port.dtype).type
            made.append(library.TensorType(name=port.name, shape=shape, dtype=kind))
        else:
            color = getattr(library.colorlayout, port.image.color)
            made.append(library.ImageType(name=port.name, shape=shape, color_layout=color))
    return made


def _classifier(lowered: Lowered, options: Options) -> Any:
    if options.classifier is None or lowered.classifier is None:
        return None
    return coremltools().ClassifierConfig(
        list(options.classifier[1]), lowered.classifier[0], lowered.scores
    )


def _decisions(lowered: Lowered, options: Options) -> list[str]:
    told = [said for port in (*lowered.inputs, *lowered.outputs) if (said := port.told())]
    for port in lowered.inputs:
        told += [said] if (said := options.sizes.told(port)) else []
    told += [f"{dim} is fixed to {size}" for dim, size in options.fixed.items()]
    told += lowered.taken
    if lowered.classifier and options.classifier:
        label, scores = lowered.classifier
        count = len(options.classifier[1])
        told.append(f"{label} and {scores} give {options.classifier[0]} by {count} class names")
    return told
