"""Files of arrays, which the target writes: read and run in a process of their own.

numpy stands for a framework here, which runs in the Python that ``--python`` names.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from converter.files.signatures import Marks
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.parser import Identity
from converter.runtime.frameworks import Framework
from converter.runtime.interpreter import interpreter
from converter.runtime.session import Progress
from converter.runtime.worker import Worker, WorkerSession
from modelyard_toy.child import layers
from parsers.file_source import FileSource
from parsers.onnx.interface import Interface
from parsers.whole_file import model_name, refuse_class_options

NUMPY = Framework(
    title="Toy arrays",
    backend=f"{Path(__file__).parent / 'child' / 'backend.py'}:NpzBackend",
    extra="",
    needs=("numpy", "onnx"),
    own=(),
)


class NpzParser:
    name = "toy-npz"
    extra = NUMPY.extra
    framework = NUMPY
    marks = Marks(archives=((r"^weights0\.npy$", "a model of toy layers (.npz)"),))

    def sniff(self, source: str) -> bool:
        """Whether it is a file of layers, by what is in it."""
        with suppress(OSError):
            return layers.is_stored(Path(source))
        return False

    def identify(self, request: Request) -> Identity:
        """The file, and versions of what reads it, wherever that is."""
        path = Path(request.source)
        refuse_class_options(request, path.name)
        versions = interpreter(request.python).require(
            NUMPY.needs, "reading toy layers", self.extra
        )
        return Identity(model_name(path.stem), self.name, {path.name: path}, versions)

    def open(self, request: Request, workdir: Path, progress: Progress) -> NpzSource:
        """Starts the child."""
        return NpzSource(Path(request.source), request, workdir, progress)


class NpzSource(FileSource):
    """A file of arrays; the model lives in the child."""

    def __init__(self, path: Path, request: Request, workdir: Path, progress: Progress) -> None:
        super().__init__(path, request, progress)
        self._workdir = workdir
        self._worker = Worker(
            NUMPY,
            what="the toy process",
            source=path.name,
            interpreter=interpreter(request.python),
            progress=progress,
        )

    def parse(self) -> Model:
        """What the child exports."""
        self._worker.call("load", file=str(self.path.absolute()))
        out = self._workdir / "exported.onnx"
        self._worker.call("export", out=str(out))
        model = Model.load(out)
        runtime = {"name": "toy arrays", "device": "cpu"}
        call, threads = self._worker.call, self._request.threads
        self._session = WorkerSession(
            call, self._workdir, model.inputs, model.outputs, runtime, threads
        )
        self._interface = Interface.apply(model, self._wishes())
        model.source = {"format": "toy-npz"}
        return model

    @property
    def warnings(self) -> list[str]:
        return self._worker.warnings

    def close(self) -> None:
        self._worker.close()
