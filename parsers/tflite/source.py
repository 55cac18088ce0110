"""A TFLite file that is open: its Model, and LiteRT that runs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import ModelError, Unsupported, UnsupportedError, from_os_error
from converter.ir.model import Model
from converter.ir.states import StatePair, recorded
from converter.options.request import Request
from converter.runtime.interpreter import interpreter
from converter.runtime.session import Progress
from converter.runtime.worker import Worker, WorkerSession
from modelyard.containers.tflite import pack, unpack
from parsers.file_source import FileSource
from parsers.onnx.interface import Interface
from parsers.tflite import importer
from parsers.tflite.arithmetic import FLOAT, HYBRID, INTEGER, arithmetic
from parsers.tflite.metadata import Metadata, metadata_of, suggested
from parsers.tflite.model import Tensor, TfliteModel
from parsers.tflite.names import Entry, find_entry
from parsers.tflite.reader import structures
from parsers.tflite.spec import LITERT
from parsers.tflite.variables import STATEFUL, State, make_explicit

_CHANNELS = (1, 3, 4)
_SMALLEST_IMAGE = 8
_LISTED_VALUES = 4096
"""Elements of a state's initial value up to which the source's description holds it."""


@dataclass(frozen=True)
class _Opened:
    """A file that was read.

    Attributes:
        model: Its structures, with the state explicit.
        entry: What is converted, states among its inputs and outputs.
        states: What was made explicit.
        held: What was made constant instead.
        file: What LiteRT runs: the file itself, or one written with the state explicit.
        told: What its metadata says.
    """

    model: TfliteModel
    entry: Entry
    states: list[State]
    held: list[State]
    file: Path
    told: Metadata

    def tensors(self, names: Mapping[str, int]) -> dict[str, Tensor]:
        """The entry's inputs or outputs by name."""
        graph = self.model.subgraphs[self.entry.subgraph]
        return {name: graph.tensors[index] for name, index in names.items()}


class TfliteSource(FileSource):
    """A TFLite file as a source.

    Args:
        path: The file.
        request: Its ``signature``, ``inputs``, ``outputs`` and ``batch`` shape the interface.
        workdir: Where files for the child go.
        progress: Told what is being done.
    """

    def __init__(self, path: Path, request: Request, workdir: Path, progress: Progress) -> None:
        super().__init__(path, request, progress)
        self._workdir = workdir
        self._said: list[str] = []
        python = interpreter(request.python)
        self._version = python.version("ai-edge-litert") or ""
        self._worker = Worker(
            LITERT,
            what="the LiteRT process",
            source=request.source,
            interpreter=python,
            progress=progress,
        )

    # -- Source --------------------------------------------------------------------

    def parse(self) -> Model:
        """The file's model, with the names, the interface and the state as inputs and outputs.

        Raises:
            UsageError: The signature, ``--input``, ``--output`` or ``--batch`` don't fit the file.
            ModelError: It can't be read, or LiteRT can't load it.
            UnsupportedError: It holds what can't be converted; all of it.
        """
        self._progress(f"reading {self.path.name}")
        opened = self._open()
        self._progress("lowering its operators to ONNX")
        entry = opened.entry
        graph = importer.import_model(opened.model, entry.subgraph, entry.inputs, entry.outputs)
        model = Model.wrap(graph)
        self._session = self._start(opened, model)
        self._interface = Interface.apply(model, self._wishes())
        _describe(model, self._interface, opened)
        model.source = {**self._facts(opened), **self._suggested(opened, model)}
        self._said = [*self._interface.notes, *_warnings(opened)]
        return model

    @property
    def warnings(self) -> Sequence[str]:
        """What the report has to say loudly."""
        return [*self._worker.warnings, *self._said]

    def close(self) -> None:
        self._worker.close()

    # -- reading -------------------------------------------------------------------

    def _open(self) -> _Opened:
        """Reads the file and makes its state explicit."""
        name = self.path.name
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise from_os_error(error, f"reading {name}") from error
        source = unpack(content, name)
        model = structures(source, name)
        entry = find_entry(model, self._request.signature, name)
        told = metadata_of(source, content, entry.subgraph)
        if not entry.outputs:
            raise ModelError(
                f"{name}: subgraph {entry.subgraph} has no outputs", code="model-invalid"
            )
        taken, hold = [*entry.inputs, *entry.outputs], not self._request.state_as_inputs
        explicit = make_explicit(source, model, entry.subgraph, taken, hold=hold)
        if explicit.unsupported:
            raise _unsupported(name, model, entry.subgraph, explicit.unsupported)
        if not explicit.states and not explicit.changed:
            return _Opened(model, entry, [], [], self.path, told)
        entry.inputs |= explicit.inputs
        entry.outputs |= explicit.outputs
        file = self._workdir / "explicit-state.tflite"
        try:
            file.write_bytes(pack(source, name))
        except OSError as error:
            raise from_os_error(error, f"writing {name} with its state explicit") from error
        read = structures(source, name)
        return _Opened(read, entry, explicit.states, explicit.held, file, told)

    def _start(self, opened: _Opened, model: Model) -> WorkerSession:
        """Has the child load what it is to run."""
        entry = opened.entry
        self._progress("loading it in LiteRT")
        self._worker.call(
            "load",
            file=str(opened.file.absolute()),
            subgraph=entry.subgraph,
            signature=entry.signature,
            inputs=[{"name": name, "index": index} for name, index in entry.inputs.items()],
            outputs=[
                {"name": name, "index": index, "key": entry.renamed.get(name)}
                for name, index in entry.outputs.items()
            ],
        )
        runtime = {
            "name": "litert",
            "version": self._version,
            "mode": "XNNPACK",
            "device": "cpu",
            "arithmetic": _numbers(opened),
        }
        threads = self._request.threads
        call, inputs, outputs = self._worker.call, model.inputs, model.outputs
        return WorkerSession(call, self._workdir, inputs, outputs, runtime, threads)

    def _suggested(self, opened: _Opened, model: Model) -> Mapping[str, Any]:
        """What the file's metadata says, whose order is the subgraph's."""
        assert self._interface is not None
        graph, entry = opened.model.subgraphs[opened.entry.subgraph], opened.entry
        old = {name: new for new, name in self._interface.input_names.items()}
        inputs = {index: old.get(name, "") for name, index in entry.inputs.items()}
        named = self._interface.output_names
        outputs = {index: named.get(name, "") for name, index in entry.outputs.items()}
        return suggested(
            model,
            opened.told,
            [inputs.get(index, "") for index in graph.inputs],
            [outputs.get(index, "") for index in graph.outputs],
        )

    def _facts(self, opened: _Opened) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "format": "tflite",
            "framework": f"ai-edge-litert {self._version}",
            "arithmetic": _numbers(opened),
        }
        if opened.entry.signature is not None:
            facts["signature"] = opened.entry.signature
        description = opened.model.description
        if description and "/" not in description and "\\" not in description:
            facts["description"] = description
        if opened.states:
            facts["states"] = {state.name: _initial(state) for state in opened.states}
        assert self._interface is not None
        return facts | recorded(_pairs(opened.states, self._interface))


def _pairs(states: Iterable[State], interface: Interface) -> Iterator[StatePair]:
    """The states that runs both start from and leave behind, by the model's names."""
    inputs = {old: new for new, old in interface.input_names.items()}
    for state in states:
        name, after = inputs.get(state.name), interface.output_names.get(f"{state.name}_out")
        if state.input is not None and state.output is not None and name and after:
            yield StatePair(name, after, _initial(state))


def _numbers(opened: _Opened) -> str:
    """What the file computes in: float32 or int8, whether all of it or on the fly."""
    kind = arithmetic(opened.model, opened.entry.subgraph)
    return FLOAT if kind == FLOAT else INTEGER


def _unsupported(
    name: str, model: TfliteModel, subgraph: int, state: list[Unsupported]
) -> UnsupportedError:
    """The error that lists what is wrong with the state, and every operator that is too."""
    others = [item for item in importer.unsupported(model, subgraph) if item.op not in STATEFUL]
    return UnsupportedError(f"{name} holds parts that can't be converted", [*state, *others])


def _describe(model: Model, interface: Interface, opened: _Opened) -> None:
    """Keeps what the file says of inputs and outputs, by the names that they now have."""
    states = {name for state in opened.states for name in (state.name, f"{state.name}_out")}
    inputs = opened.tensors(opened.entry.inputs)
    outputs = opened.tensors(opened.entry.outputs)
    for name, old in interface.input_names.items():
        if old not in states and _is_image(inputs[old]):
            model.describe(name, layout="NHWC")
        _describe_tensor(model, name, inputs[old], old in states)
    for old, name in interface.output_names.items():
        if old not in states and _is_image(outputs[old]):
            model.describe(name, layout="NHWC")
        _describe_tensor(model, name, outputs[old], old in states)


def _describe_tensor(model: Model, name: str, tensor: Tensor, is_state: bool) -> None:
    if is_state:
        model.describe(name, meaning="state")
    how = tensor.quantization
    if how is not None and how.axis is None:
        model.describe(name, scale=float(how.scale[0]), zero_point=int(how.zero_point[0]))


def _is_image(tensor: Tensor) -> bool:
    if len(tensor.shape) != 4 or tensor.shape[3] not in _CHANNELS:
        return False
    return all(size == -1 or size >= _SMALLEST_IMAGE for size in tensor.shape[1:3])


def _initial(state: State) -> Any:
    """What a state starts at, as stored: one number, or all of them; None where unknown."""
    if state.initial is None or state.initial.size == 0:
        return None
    first = state.initial.flat[0]
    if np.all(state.initial == first):
        return first.item()
    return state.initial.tolist() if state.initial.size <= _LISTED_VALUES else None


# -- what the report has to say ----------------------------------------------------------


def _warnings(opened: _Opened) -> list[str]:
    said = [_state_warning(opened.states)] if opened.states else []
    if opened.held:
        said.append(
            "STATE IS HELD: the file keeps state between runs. With --no-state, each run of "
            "the converted model starts with the stored state, and forgets its changes. The "
            f"file was compared in the same way: {_listed(opened.held)}."
        )
    if arithmetic(opened.model, opened.entry.subgraph) == HYBRID:
        said.append(
            "HYBRID QUANTIZATION: the file keeps integer weights, and LiteRT rounds activations "
            "to 8 bits on the fly. The converted model computes in float32 with the same "
            "weights, so it differs from LiteRT by that rounding."
        )
    return said


def _state_warning(states: list[State]) -> str:
    return (
        "STATE IS EXPLICIT: the file keeps state between runs; in the converted model each "
        "NAME is an input, and NAME_out the output to feed as NAME in the next run: "
        f"{_listed(states)}."
    )


def _listed(states: Iterable[State]) -> str:
    return ", ".join(f"{state.name} (starts at {_start_text(state)})" for state in states)


def _start_text(state: State) -> str:
    if state.input is None:
        return "nothing: it is only written"
    if state.initial is None or state.initial.size == 0:
        return "what the file computes for it"
    value = _initial(state)
    return str(value) if np.isscalar(value) else "the values in the manifest"
