"""A Core ML file that is open: its Model, and what stands for Core ML as the reference."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from converter.errors import ModelError, UsageError
from converter.ir.model import Model
from converter.ir.states import StatePair, recorded
from converter.options.request import Request
from converter.protocols.wrapped import WrappedSession
from converter.runtime.ort import OrtSession
from converter.runtime.session import Progress
from parsers.coreml.description import describe, facts, suggested, warnings
from parsers.coreml.importer import import_opened
from parsers.coreml.opened import PROGRAM, open_file
from parsers.file_source import FileSource
from parsers.onnx.interface import Interface

NOT_RUN = (
    "Core ML only runs on Apple's systems, so the reference is ONNX Runtime on the graph "
    "that was read from the file. The reading itself isn't checked, and neither are Apple's "
    "compiler and the Neural Engine"
)


class CoremlSource(FileSource):
    """A Core ML file as a source; its reference is Core ML on a Mac, elsewhere ONNX Runtime on what
    was read, and the runtime says so.

    Args:
        path: The package, or ``.mlmodel``.
        request: Its ``signature`` (a function of a program), ``inputs``, ``outputs`` and
            ``batch`` shape the interface.
        progress: Told what is being done.

    Attributes:
        warnings: What the report has to say loudly.
    """

    def __init__(self, path: Path, request: Request, progress: Progress) -> None:
        super().__init__(path, request, progress)
        self.warnings: list[str] = []

    def parse(self) -> Model:
        """The file's model, with the names and the interface that were asked for.

        Raises:
            UsageError: The function, ``--input``, ``--output`` or ``--batch`` don't fit the file.
            ModelError: It is damaged, or ONNX Runtime can't load what was read.
            UnsupportedError: It is of a kind that isn't read, or holds what can't be expressed in
                ONNX; all of it.
        """
        self._progress(f"reading {self.path.name}")
        opened = open_file(self.path)
        function = opened.function(self._request.signature) if opened.kind == PROGRAM else None
        self._progress("expressing its operations in ONNX")
        imported = import_opened(opened, function)
        model = Model.wrap(imported.graph)
        told = opened.description(function)
        if told.state and not self._request.state_as_inputs:
            kept = ", ".join(state.name for state in told.state)
            raise UsageError(
                f"--no-state: {self.path.name} keeps state ({kept}), and the state of a Core "
                "ML file can only become inputs and outputs",
                code="option-not-applicable",
                hint="Leave --no-state out, and send zeros in each call.",
            )
        chosen = function if len(opened.functions) > 1 else None
        self._open_session(model, chosen, imported.classes)
        interface = Interface.apply(model, self._wishes())
        self._interface = interface
        names = {old: new for new, old in interface.input_names.items()} | interface.output_names
        describe(model, told, names, imported.classes)
        model.source = facts(opened, function) | recorded(_states(told, interface))
        model.source |= suggested(model, told, imported.answer)
        self.warnings = [*self._unchecked(), *interface.notes, *imported.notes, *warnings(told)]
        return model

    def _open_session(
        self, model: Model, function: str | None, classes: Mapping[str, Sequence[str]]
    ) -> None:
        """Opens the reference on the graph as it was read, before its interface changes."""
        if self._session is not None:
            return
        self._progress("loading it")
        if platform.system() == "Darwin":
            from parsers.coreml.predict import PredictSession

            self._session = PredictSession(self.path, model, function, classes)
            return
        try:
            session = OrtSession(model.graph, threads=self._request.threads, exact=True)
        except ModelError as error:
            raise ModelError(
                f"{self.path.name}: {error.message}",
                code="model-invalid",
                hint="Modelyard read it as a graph that isn't valid; please report this.",
            ) from error
        self._session = ReadSession(self.path.name, session)

    def _unchecked(self) -> list[str]:
        if not isinstance(self._session, ReadSession):
            return []
        return [f"THE REFERENCE ISN'T CORE ML: {NOT_RUN}."]


def _states(told: Any, interface: Interface) -> Iterator[StatePair]:
    """The file's states by the model's names; Core ML makes them as zeros."""
    inputs = {old: new for new, old in interface.input_names.items()}
    for name in (state.name for state in told.state):
        before, after = inputs.get(name), interface.output_names.get(f"{name}_out")
        if before and after:
            yield StatePair(before, after, 0)


class ReadSession(WrappedSession):
    """The graph that was read, in ONNX Runtime, where Core ML itself can't run."""

    def __init__(self, name: str, session: OrtSession) -> None:
        super().__init__(session)
        self._name = name

    @property
    def runtime(self) -> dict[str, Any]:
        """ONNX Runtime, and that it stands for Core ML."""
        return {
            **super().runtime,
            "stands_for": self._name,
            "runs": f"the graph that was read from {self._name}",
            "not_run": NOT_RUN,
        }
