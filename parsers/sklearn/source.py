"""A scikit-learn model alive in its child process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_ir.passes.common import RemoveUnusedNodesPass

from converter.ir.model import OPSET, Model
from converter.options.request import Request
from converter.preparation.suggested import Suggested
from converter.runtime.interpreter import interpreter
from converter.runtime.session import Progress
from converter.runtime.worker import Worker, WorkerSession
from parsers.file_source import FileSource
from parsers.onnx.interface import Interface
from parsers.sklearn.files import kind_of
from parsers.sklearn.spec import SKLEARN


class SklearnSource(FileSource):
    """A model as a source.

    Args:
        path: The file.
        request: Its ``inputs``, ``outputs`` and ``batch`` shape the interface.
        workdir: Where the exported file and arrays go.
        progress: Told what is being done.
    """

    def __init__(self, path: Path, request: Request, workdir: Path, progress: Progress) -> None:
        super().__init__(path, request, progress)
        self._workdir = workdir
        self._notes: list[str] = []
        self._versions = SKLEARN.present(interpreter(request.python))
        self._worker = Worker(
            SKLEARN,
            what="the scikit-learn process",
            source=request.source,
            interpreter=interpreter(request.python),
            progress=progress,
            exporter="skl2onnx",
        )

    def parse(self) -> Model:
        """The model as skl2onnx and onnxmltools translate it.

        Raises:
            UsageError: ``--input``, ``--output`` or ``--batch`` don't fit it. ``--output`` may
                also name some of the outputs: the others are left out.
            ModelError: It can't be read, or holds types that nobody vouches for.
            UnsupportedError: It has a part that isn't translated.
        """
        request = self._request
        loaded = self._worker.call(
            "load",
            file=str(self.path.absolute()),
            kind=kind_of(self.path),
            trust=request.trust_source,
            search_paths=[str(Path(path).absolute()) for path in request.search_paths],
        )
        out = self._workdir / "exported.onnx"
        exported = self._worker.call("export", out=str(out), opset=OPSET)
        model = Model.load(out)
        kept = _keep_outputs(model, request.outputs)
        self._session = self._start(model, loaded)
        wishes = self._wishes()
        self._interface = Interface.apply(model, replace(wishes, outputs=()) if kept else wishes)
        self._notes = list(self._interface.notes)
        _describe_inputs(model, self._interface.input_names, exported)
        name = self._interface.output_names.get("probabilities")
        if loaded["labels"] and name is not None:
            model.describe(name, meaning="scores", labels=loaded["labels"])
        said = Suggested(origins={"prepare (row)": "the columns that it was trained on",
                                  "answer (classes)": "its classes"})  # fmt: skip
        model.source = {
            "format": "sklearn",
            "framework": f"scikit-learn {self._versions['scikit-learn']}",
            "class": loaded["class"],
            "steps": loaded["steps"],
            "exporter": f"skl2onnx {self._versions.get('skl2onnx', '')}".strip(),
            **said.told(),
        }
        return model

    def _start(self, model: Model, loaded: dict[str, Any]) -> WorkerSession:
        runtime = {
            "name": loaded["library"],
            "version": loaded["version"],
            "mode": loaded["class"],
            "device": "cpu",
        }
        call, threads = self._worker.call, self._request.threads
        return WorkerSession(call, self._workdir, model.inputs, model.outputs, runtime, threads)

    @property
    def warnings(self) -> Sequence[str]:
        """What the report has to say loudly."""
        return [*self._worker.warnings, *self._notes]

    def close(self) -> None:
        self._worker.close()


def _keep_outputs(model: Model, names: Sequence[str]) -> bool:
    """Leave a model those of its outputs that are named, where some are and not all."""
    outputs = model.graph.graph.outputs
    own = {value.name: value for value in outputs}
    if not names or len(names) >= len(outputs) or not set(names) <= set(own):
        return False
    outputs[:] = [value for value in outputs if value.name in names]
    RemoveUnusedNodesPass()(model.graph)
    return True


def _describe_inputs(model: Model, names: Mapping[str, str], exported: Mapping[str, Any]) -> None:
    """Say what the columns are called, and in which NaN is a value.

    Args:
        model: Whose inputs they are.
        names: The exported file's name of each.
        exported: What the child said.
    """
    for name, of_file in names.items():
        columns = [of_file] if exported["apart"] else exported["columns"]
        known = {"missing": exported["missing"].get(of_file), "columns": columns}
        model.describe(name, **{key: value for key, value in known.items() if value})
