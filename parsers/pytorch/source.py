"""A model that torch runs, whatever it was read from: exported by the worker's exporter.

What is particular to a source format (what the worker is to load, which inputs it takes where
the user names none, what the report says of it) is the subclass's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import ModelError, ModelyardError
from converter.options.inputs import InputSpec, fixed_to_one, parse_inputs, with_batch
from converter.options.request import Request
from converter.options.resolved import keeps_layers
from converter.runtime.session import Excerpt, Part, Parts
from converter.runtime.worker import Worker, WorkerSession, tensor_specs
from converter.text.words import one_line
from parsers.pytorch.traced_there import traced_there

if TYPE_CHECKING:
    from converter.ir.model import Model, TensorSpec
    from converter.runtime.session import Arrays


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
        """Exports the model; see :class:`converter.protocols.parser.Source`.

        Raises:
            UsageError: The code, its arguments, the weights or the inputs don't fit together.
            UnsupportedError: It can't be exported; all that the exporter says of it is listed.
        """
        from converter.ir.exported import exporters_mistake
        from converter.ir.external import note_digests
        from converter.ir.model import Model
        from converter.ir.states import StatePair, recorded
        from converter.runtime.ort import RefusedModel

        self._load()
        inputs = self._input_specs()
        answer = self._export(inputs)
        model = Model.load(Path(answer["out"]))
        note_digests(model.graph, answer["sha256"])
        model.source = self._description(answer)
        if answer["exporter"] == "torchscript":
            try:
                self._hold_against(answer)
            except RefusedModel as error:
                raise exporters_mistake(model, error) from error
        if answer["kept"]:
            model.source["decided"] = answer["kept"]
        pairs = [StatePair(**item) for item in answer["states"]]
        for name in (name for pair in pairs for name in (pair.input, pair.output)):
            model.describe(name, meaning="state")
        model.source |= recorded(pairs)
        return model

    def _hold_against(self, answer: Mapping[str, Any]) -> None:
        """Compares what a trace became with the model itself, and says so loudly."""
        from parsers.pytorch.traced import require_same

        file, run = Path(answer["out"]), self.reference().run_rounded
        judged = require_same(file, answer["probes"], run)
        why, tried, kept = one_line("; ".join(answer["reasons"])), answer["probed"], answer["kept"]
        self._warnings.append(
            f"EXPORTED BY TORCHSCRIPT: {_cut(why)}. A trace keeps Python's decisions for one "
            f"example, so it was compared with the model itself: {tried}. The ONNX file was "
            f"compared on {judged} of them in ONNX Runtime"
        )
        if kept:
            self._warnings.append(
                "DECIDED BY VALUES: alike for all inputs that were tried, and the file has it so "
                f"for every input: {kept}. Give --samples that could change it"
            )

    def reference(self) -> TorchSession:
        """The module itself: in eager mode, or as its file has it."""
        self._load()
        if not self._exported:
            self._export(self._input_specs())
        inputs, outputs = (tensor_specs(self._exported[side]) for side in ("inputs", "outputs"))
        call, threads = self._worker.call, self._request.threads
        return TorchSession(call, self._workdir, inputs, outputs, self._runtime(), threads)

    def rerun(
        self, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]
    ) -> WorkerSession:
        """The module under an interface that is known; see :class:`.Rerunning`."""
        self._load()
        names = [spec.name for spec in outputs]

        def call(method: str, **params: Any) -> dict[str, Any]:
            return self._worker.call(method, **params, outputs=names)

        threads = self._request.threads
        return WorkerSession(call, self._workdir, inputs, outputs, self._runtime(), threads)

    def _runtime(self) -> dict[str, Any]:
        return {
            "name": "torch",
            "version": self._versions["torch"],
            "mode": self._loaded["mode"],
            "device": "cpu",
        }

    def dependencies(self) -> Mapping[str, Path]:
        """The user's modules that were imported, by dotted name."""
        return self._dependencies

    @property
    def warnings(self) -> Sequence[str]:
        """What the report has to say loudly."""
        return [*self._worker.warnings, *self._warnings]

    def close(self) -> None:
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
        """The inputs to export with: as the model declares them, or the user, and the batch as
        ``--batch`` has it."""
        if self._request.batch is None:
            notes = fixed_to_one(parse_inputs(self._request.inputs))
            self._warnings += [text for text in notes if text not in self._warnings]
        return with_batch(self._given_inputs(), self._request.batch)

    def _declared(self) -> list[InputSpec]:
        return [
            InputSpec(item["name"], item["dtype"], tuple(item["shape"]))
            for item in self._loaded["inputs"]
        ]

    def _given_inputs(self) -> list[InputSpec]:
        declared = self._declared()
        if not self._request.inputs:
            return declared or self._undeclared()
        return typed_as(list(parse_inputs(self._request.inputs)), declared)

    def _export(self, inputs: list[InputSpec]) -> dict[str, Any]:
        from converter.ir.model import BATCH

        example = self._example(inputs)
        try:
            answer = self._call_export(inputs, example)
        except ModelError as error:
            free = any(BATCH in spec.shape for spec in inputs)
            if self._request.batch is not None or not free:
                raise
            answer = self._call_export(with_batch(inputs, "1"), example)
            why = error.message.strip()
            self._warnings.append(f"THE BATCH IS FIXED: with a free one, {why}")
        self._exported = answer
        told = answer.get("warnings", ())  # samples run at a batch of 1: it needs no assuming
        self._warnings += [text for text in told if text != f"traced assuming {BATCH} != 1"]
        self._dependencies = {item["name"]: Path(item["path"]) for item in answer["modules"]}
        return answer

    def _call_export(self, inputs: list[InputSpec], example: str | None) -> dict[str, Any]:
        from converter.ir.model import OPSET

        export = partial(self._worker.call, "export")
        if self._worker.interpreter.translated:
            export = partial(traced_there, self._worker)
        return export(
            inputs=[
                {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}
                for spec in inputs
            ],
            sizes=self._request.dims,
            example=example,
            opset=OPSET,
            out=str(self._workdir / "exported.onnx"),
            outputs=self._request.outputs or None,
            states=self._request.state_as_inputs,
            keeps_layers=keeps_layers(self._request),
        )

    def _example(self, inputs: list[InputSpec]) -> str | None:
        """A file of what to trace on: the first sample, and what ``--fix`` says; None without both.

        Samples of another layout can't be taken; what else doesn't fit, the step that reads them
        all says.
        """
        from converter.files.arrays import save_arrays
        from converter.ir.model import TensorSpec
        from converter.options.fixed_values import fixed_values
        from converter.samples import load_samples

        request, found = self._request, {}
        specs = tuple(TensorSpec(spec.name, spec.dtype, spec.shape) for spec in inputs)
        with suppress(ModelyardError):
            found.update(fixed_values(request.fix, specs))
            own = request.samples and not request.samples.startswith("random:")
            if own and not request.layout:
                left = tuple(spec for spec in specs if spec.name not in found)
                found.update(next(iter(load_samples(request, left, request.dims))).feeds)
        if not found:
            return None
        path = self._workdir / "example.npz"
        save_arrays(path, found)
        return str(path)


class TorchSession(WorkerSession):
    """The module; it says what is in it."""

    def parts(self, feeds: Arrays, inside: str = "") -> Parts:
        """See :class:`converter.runtime.session.Locating`."""
        from converter.files.arrays import load_arrays

        out = self._workdir / "parts.npz"
        answer = self._call("parts", feeds=self._write(feeds), out=str(out), inside=inside)
        arrays = load_arrays(out)
        out.unlink()
        ran = tuple(
            Part(item["name"], item["kind"], item["place"], tuple(item["inputs"]),
                 tuple(item["outputs"]), item["call"])
            for item in answer["parts"]
        )  # fmt: skip
        shapes = answer["shapes"].items()
        return Parts(ran, {key: Excerpt(tuple(shape), arrays[key]) for key, shape in shapes})


def _cut(text: str, longest: int = 240) -> str:
    return text if len(text) <= longest else f"{text[:longest]}..."


def typed_as(specs: list[InputSpec], declared: list[InputSpec]) -> list[InputSpec]:
    """The inputs, with the declared type, by position, for each that was given none."""
    if len(specs) != len(declared):
        return specs
    return [
        spec if spec.typed else InputSpec(spec.name, own.dtype, spec.shape)
        for spec, own in zip(specs, declared, strict=True)
    ]
