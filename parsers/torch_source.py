"""A model that torch runs, whatever it was read from: exported by the worker's exporter.

What is particular to a source format (what the worker is to load, which inputs it takes where
the user names none, what the report says of it) is the subclass's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import ModelError
from converter.inputs import InputSpec, parse_input
from converter.request import Request
from converter.worker import Worker, WorkerSession, tensor_specs

if TYPE_CHECKING:
    from converter.ir import Model


class TorchSource(ABC):
    """A torch model alive in its child process.

    Args:
        request: What was asked for.
        workdir: Where the exported file and the arrays go.
        worker: The child.
        versions: The packages that read it.
    """

    def __init__(
        self, request: Request, workdir: Path, worker: Worker, versions: Mapping[str, str]
    ) -> None:
        self._request = request
        self._workdir = workdir
        self._worker = worker
        self._versions = versions
        self._warnings: list[str] = []
        self._dependencies: dict[str, Path] = {}
        self._loaded: dict[str, Any] = {}
        self._exported: dict[str, Any] = {}

    # -- Source --------------------------------------------------------------------

    def parse(self) -> Model:
        """Exports the model; see :class:`converter.plugins.Source`.

        Raises:
            UsageError: The code, its arguments, the weights or the inputs don't fit together.
            UnsupportedError: It can't be exported; all that the exporter says of it is listed.
        """
        from converter.ir import Model

        self._load()
        inputs = self._input_specs()
        answer = self._export(inputs)
        model = Model.load(Path(answer["out"]))
        model.source = self._description(answer)
        return model

    def reference(self) -> WorkerSession:
        """The module itself: in eager mode, or as its file has it."""
        self._load()
        if not self._exported:
            self._export(self._input_specs())
        runtime = {
            "name": "torch",
            "version": self._versions["torch"],
            "mode": self._loaded["mode"],
            "device": "cpu",
        }
        inputs, outputs = (tensor_specs(self._exported[side]) for side in ("inputs", "outputs"))
        threads = self._request.threads
        return WorkerSession(self._worker.call, self._workdir, inputs, outputs, runtime, threads)

    def dependencies(self) -> Mapping[str, Path]:
        """The user's modules that were imported, by dotted name."""
        return self._dependencies

    @property
    def warnings(self) -> Sequence[str]:
        """What the report has to say loudly."""
        return [*self._worker.warnings, *self._warnings]

    def close(self) -> None:
        """Ends the child."""
        self._worker.close()

    # -- what a format has of its own ------------------------------------------------

    @abstractmethod
    def _load_params(self) -> dict[str, Any]:
        """What the worker's ``load`` is called with."""

    @abstractmethod
    def _undeclared(self) -> list[InputSpec]:
        """The inputs where neither the user nor the model says them; or it raises."""

    @abstractmethod
    def _description(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """``Model.source``; ``answer`` is the worker's to ``export``."""

    def _after_load(self) -> None:  # noqa: B027 - most have nothing to warn of
        """Warns of what was loaded."""

    # -- the child -----------------------------------------------------------------

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = self._worker.call("load", **self._load_params())
        self._warnings += self._loaded.get("warnings", ())
        self._after_load()

    def _input_specs(self) -> list[InputSpec]:
        """The inputs to export with, and their batch as it was asked for.

        What the model itself declares is kept, unless the user says otherwise.
        """
        batch = self._request.batch
        if self._loaded["inputs"] and batch is None:
            batch = "keep"
        return _with_batch(self._given_inputs(), batch)

    def _declared(self) -> list[InputSpec]:
        return [
            InputSpec(item["name"], item["dtype"], tuple(item["shape"]))
            for item in self._loaded["inputs"]
        ]

    def _given_inputs(self) -> list[InputSpec]:
        declared = self._declared()
        if not self._request.inputs:
            return declared or self._undeclared()
        return typed_as([parse_input(text) for text in self._request.inputs], declared)

    def _export(self, inputs: list[InputSpec]) -> dict[str, Any]:
        from converter.ir import BATCH

        try:
            answer = self._call_export(inputs)
        except ModelError as error:
            free = any(BATCH in spec.shape for spec in inputs)
            if self._request.batch is not None or not free:
                raise
            answer = self._call_export([_fixed(spec, 1) for spec in self._given_inputs()])
            why = error.message.strip()
            self._warnings.append(f"THE BATCH IS FIXED: with a free one, {why}")
        self._exported = answer
        self._warnings += answer.get("warnings", ())
        self._dependencies = {item["name"]: Path(item["path"]) for item in answer["modules"]}
        return answer

    def _call_export(self, inputs: list[InputSpec]) -> dict[str, Any]:
        from converter.ir import OPSET

        return self._worker.call(
            "export",
            inputs=[
                {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}
                for spec in inputs
            ],
            sizes=self._request.dims,
            opset=OPSET,
            out=str(self._workdir / "exported.onnx"),
            outputs=self._request.outputs or None,
        )


def typed_as(specs: list[InputSpec], declared: list[InputSpec]) -> list[InputSpec]:
    """The inputs, with the declared type, by position, for each that was given none."""
    if len(specs) != len(declared):
        return specs
    return [
        spec if spec.typed else InputSpec(spec.name, own.dtype, spec.shape)
        for spec, own in zip(specs, declared, strict=True)
    ]


def _with_batch(specs: list[InputSpec], batch: str | None) -> list[InputSpec]:
    """The inputs with the batch that was asked for: symbolic unless it is to be kept or fixed."""
    from converter.ir import BATCH

    if batch == "keep":
        return specs
    if batch not in (None, "dynamic"):
        return [_fixed(spec, int(batch)) for spec in specs]
    firsts = {spec.shape[0] for spec in specs if spec.shape}
    if BATCH in firsts or len(firsts) != 1 or not isinstance(next(iter(firsts)), int):
        return specs
    return [
        InputSpec(spec.name, spec.dtype, (BATCH, *spec.shape[1:])) if spec.shape else spec
        for spec in specs
    ]


def _fixed(spec: InputSpec, size: int) -> InputSpec:
    from converter.ir import BATCH

    shape = tuple(size if dim == BATCH else dim for dim in spec.shape)
    return InputSpec(spec.name, spec.dtype, shape)
