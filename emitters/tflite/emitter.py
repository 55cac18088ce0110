"""The TFLite target: a LiteRT file written straight from the IR, run by LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import InternalError, Unsupported, from_os_error
from converter.files.digest import file_digest
from converter.ir.contents import Contents
from converter.ir.model import Model, dtype_from_name
from converter.options.request import Request
from converter.options.resolved import io_dtype_of
from converter.options.shape_ranges import sizes_seen
from converter.protocols.emitter import Artifact, Emitter
from converter.runtime.session import Session
from emitters.tflite import usage_kotlin, usage_python
from emitters.tflite.borders import make_integer
from emitters.tflite.contents import contents_of
from emitters.tflite.delegates import told
from emitters.tflite.graph import TfliteModel
from emitters.tflite.lowering import Legalize, lower, unsupported_operators
from emitters.tflite.metadata import describe
from emitters.tflite.packing import pack
from emitters.tflite.postponed import sizes_to_store
from emitters.tflite.scheme import TFLITE
from emitters.tflite.session import open_file
from emitters.tflite.spec import SPECS
from modelyard.containers.tflite import IDENTIFIER

if TYPE_CHECKING:
    from converter.check.shipping import Shipped
    from converter.runtime.alone import Alone
    from converter.samples import Samples

FILE_NAME = "model.tflite"


class TfliteEmitter(Emitter, spec=SPECS["tflite"]):
    """Writes ``model.tflite``, with code that runs it."""

    name = "tflite"
    scheme = TFLITE
    integer_io = True
    texts = False
    lowers = True
    packs = True

    def observe(self, samples: Samples, model: Model) -> dict[str, int]:
        """How large free dimensions are in the first sample."""
        first = {name: array.shape for name, array in next(iter(samples)).feeds.items()}
        return {dim: seen[0] for dim, seen in sizes_seen([first], model.inputs).items()}

    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """Every node that can't be lowered, and why.

        Before simplifying, what depends on shapes isn't known yet: then only operators that have
        no lowering at all are listed.

        Raises:
            UsageError: bf16 was asked for, or weights in another form than int8-dynamic's.
        """
        for precision in request.precision:
            self.require_precision(precision, request)
        if not simplified:
            return unsupported_operators(model.graph)
        return lower(model, sizes=request.dims).refusals

    def legalizing(self, model: Model, request: Request, seen: Any = None) -> Legalize:
        """Brings a model to what LiteRT has."""
        return Legalize(request.dims)

    def emit(
        self, model: Model, folder: Path, precision: str, request: Request, seen: Any = None
    ) -> Artifact:
        """Writes ``<folder>/model.tflite``, and ``usage.py`` and ``usage.kt`` beside it.

        Returns:
            An artifact whose details are ``bytes``, ``sha256``, ``operators``, ``transposes``.

        Raises:
            UsageError: The folder can't be written.
            UnsupportedError: A node can't be lowered.
            MachineError: The disk is full.
        """
        from converter.errors import UnsupportedError
        from emitters.tflite.writer import write

        lowered = lower(
            model,
            hybrid=precision in ("int8", "int16x8", "int8-dynamic"),
            sizes=request.dims,
        )
        dtype = io_dtype_of(request, precision)
        if not lowered.refusals and dtype in ("int8", "uint8"):
            lowered.refusals += make_integer(lowered.model, dtype_from_name(dtype))
        if lowered.refusals:
            raise UnsupportedError(
                f"tflite can't take {len(lowered.refusals)} nodes of this model", lowered.refusals
            )
        lowered.model.sizes = sizes_to_store(lowered.model.subgraphs[0], seen or {})
        path = folder / FILE_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise from_os_error(error, f"making the folder for {FILE_NAME}") from error
        describe(lowered.model, model, request)
        write(lowered.model, path)
        _write_usage(lowered.model, model, request, folder)
        details = {
            "bytes": path.stat().st_size,
            "sha256": {path.name: file_digest(path)},
            "operators": sum(len(graph.operators) for graph in lowered.model.subgraphs),
            "transposes": lowered.transposes,
            "decisions": [*told(lowered.model), *_stored(lowered.model)],
            "assumes": lowered.settled,
        }
        return Artifact(self.name, precision, path, [path], details)

    def sniff(self, path: Path) -> bool:
        """Whether it is a TFLite file, by its mark."""
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(8)[4:] == IDENTIFIER

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The file in LiteRT, in a process of its own.

        With ``frugal``, XNNPACK's copies of a large file's weights lie in a file.

        Raises:
            ModelError: LiteRT refuses the file.
            DependencyError: LiteRT isn't installed.
        """
        if artifact.path.suffix == "":
            raise InternalError(f"{artifact.path.name} isn't a file")
        return open_file(artifact.path, request, frugal=frugal)

    def load(self, artifact: Artifact, request: Request) -> Session:
        """The file in LiteRT, in this process; where that isn't installed here, as :meth:`open`."""
        from emitters.tflite.in_process import InProcessSession

        try:
            return InProcessSession(artifact.path, request)
        except ImportError:
            return self.open(artifact, request)

    def alone(self, artifact: Artifact, request: Request) -> Alone | str:
        """The file in LiteRT, in a process of its own."""
        from emitters.tflite.alone import alone

        return alone(artifact.path, request)

    def contents(self, artifact: Artifact, request: Request, sizes: Mapping[str, int]) -> Contents:
        """What the flatbuffer's operators compute in, and what its buffers take."""
        return contents_of(artifact.path, request, sizes)

    def pack(
        self, artifact: Artifact, model: Model, shipped: Shipped, request: Request
    ) -> Sequence[str]:
        """Writes samples, what the source gave for them, ``selftest.py`` and a README around it.

        Raises:
            OSError: The folder can't be written.
        """
        return pack(artifact, model, shipped, request)

    def others(self, artifact: Artifact, request: Request) -> Mapping[str, Callable[[], Session]]:
        """The file on LiteRT's own kernels: some devices have no XNNPACK, and it leaves operators
        to them."""
        return {"without XNNPACK": partial(open_file, artifact.path, request, xnnpack=False)}


def _stored(made: TfliteModel) -> list[str]:
    """What sizes the file stores for free dimensions, where that isn't 1."""
    listed = ", ".join(f"{dim} = {size}" for dim, size in made.sizes.items() if size != 1)
    why = "stored sizes of free dimensions, since LiteRT can't prepare the file at 1"
    return [f"{why}: {listed} (the first sample's)"] if listed else []


def _write_usage(made: TfliteModel, model: Model, request: Request, folder: Path) -> None:
    """Writes how the file is used; raises UsageError, MachineError."""
    texts = {
        "usage.py": usage_python.snippet(made, model, request),
        "usage.kt": usage_kotlin.snippet(made, model, request),
    }
    for name, text in texts.items():
        if text is not None:
            try:
                (folder / name).write_text(text, encoding="utf-8")
            except OSError as error:
                raise from_os_error(error, f"writing {name}") from error
