"""Sequences of requests whose state the server keeps: Triton's implicit state.

A model whose state became inputs and outputs gets each output back as an input in the next request
of its sequence (``implicit_state_management.md`` in its guide); clients see neither.
The rules are those of the core's ``ValidateModelConfig`` and ``GenerateInitialStateData``, and one
that is written nowhere: the core sorts the states' inputs by name, and their outputs, and takes the
first of the one for the first of the other (``SequenceStates::OutputState`` in
``sequence_state.cc``), so that pairs whose names sort otherwise would be exchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tritonclient.grpc import model_config_pb2 as schema

from converter.check.sums import Array
from converter.errors import UsageError
from converter.ir.model import Model, TensorSpec, dtype_from_name
from converter.ir.states import StatePair, states_of
from converter.samples import Sample, Samples
from emitters.serving.triton.config import ITEM_SIZES, TYPES, make_ports
from emitters.serving.triton.controls import Control, controls_of
from emitters.serving.triton.request import TritonRequest
from emitters.serving.triton.scheduling import parse
from emitters.serving.triton.warmup import encode

FOLDER = "initial_state"
"""The folder that Triton looks into; no other name will do."""

CANDIDATES = 64
"""Sequences that an instance takes at a time, where nothing else is asked for; others wait."""

IDLE = 60_000_000
"""Microseconds after which a sequence without requests is given up; Triton's own default is one
second, which a microphone's pause is longer than."""


@dataclass(frozen=True)
class State:
    """A state that the server keeps.

    Attributes:
        input, output: As the artifact has them.
        dims: Without the batch where Triton batches; -1 where a dimension is free.
        first: What a sequence starts at, in the source's type and in the shape of one request.
    """

    input: TensorSpec
    output: TensorSpec
    dims: tuple[int, ...]
    first: Array


@dataclass(frozen=True)
class Sequences:
    """What a folder has to know of its sequences.

    Attributes:
        states: In the order of their names.
        controls: Inputs that the server fills in, too.
        batching: The message ``ModelSequenceBatching``, all but its states.
        batched: Whether Triton batches.
    """

    states: tuple[State, ...]
    controls: tuple[Control, ...]
    batching: Any
    batched: bool

    @property
    def kept(self) -> set[str]:
        """Inputs and outputs that clients don't see."""
        names = {name for state in self.states for name in (state.input.name, state.output.name)}
        return names | {control.name for control in self.controls}

    def served(self, specs: Iterable[TensorSpec]) -> list[TensorSpec]:
        """Those that clients see."""
        kept = self.kept
        return [spec for spec in specs if spec.name not in kept]

    def fill(self, config: Any) -> None:
        """Has a configuration keep the states; requests are batched by its strategy alone."""
        config.sequence_batching.CopyFrom(self.batching)
        for number, state in enumerate(self.states, start=1):
            entry = config.sequence_batching.state.add()
            entry.input_name, entry.output_name = state.input.name, state.output.name
            entry.data_type = schema.DataType.Value(TYPES[state.input.dtype])
            entry.dims.extend(state.dims)
            start = entry.initial_state.add()
            start.name, start.data_type = f"{state.input.name} at the start", entry.data_type
            start.dims.extend(state.first.shape[1:] if self.batched else state.first.shape)
            if any(self._bytes(state)):
                start.data_file = f"state{number}.bin"
            else:
                start.zero_data = True

    def write(self, folder: Path) -> None:
        """Writes what states start at, where that isn't zero, under ``<folder>/initial_state``."""
        for number, state in enumerate(self.states, start=1):
            data = self._bytes(state)
            if any(data):
                (folder / FOLDER).mkdir(exist_ok=True)
                (folder / FOLDER / f"state{number}.bin").write_bytes(data)

    def notes(self) -> Iterator[str]:
        """What was decided, a line each."""
        for state in self.states:
            zero = "zeros" if not any(self._bytes(state)) else f"the values in {FOLDER}/"
            yield (
                f"the server keeps {state.input.name}: it is what {state.output.name} was in "
                f"the sequence's last request; it starts at {zero}"
            )
        strategy = self.batching.WhichOneof("strategy_choice")
        idle = self.batching.max_sequence_idle_microseconds / 1e6
        yield f"sequences: strategy {strategy}; one without requests for {idle:g} s is given up"
        yield "no warm-up by Triton: it runs such requests outside of sequences, without states"

    def _bytes(self, state: State) -> bytes:
        (port,) = make_ports([state.input], batched=self.batched)
        return encode(state.first, port, Sample("what the sequence starts at", {}))


def is_asked(request: TritonRequest) -> bool:
    """Whether the server is to keep states."""
    return bool(request.sequence or request.states or request.sequence_batching)


def require(model: Model, request: TritonRequest) -> None:
    """Refuses what is known to be wrong before anything is converted.

    Raises:
        UsageError: No such states, or options that sequences have no place for.
    """
    if not is_asked(request):
        return
    pairs_of(model, request)
    _batching(request)
    odd = [
        (request.response_cache, "--response-cache: Triton has none for sequences"),
        (request.priority_levels, "--priority-levels: sequences have none"),
        (request.queue_policies, "--queue-policy: sequences have none"),
        (request.ragged, "--ragged: batches of sequences are as the sequence batcher makes them"),
    ]
    for given, why in odd:
        if given:
            raise UsageError(
                f"{why}; leave it out, or leave --sequence out", code="option-conflict"
            )


def pairs_of(model: Model, request: TritonRequest) -> list[StatePair]:
    """The states, as ``--state`` names them, or as the source recorded them.

    Raises:
        UsageError: There are none; they aren't inputs and outputs of the model, of one type; one is
            named twice; or Triton's core would exchange them.
    """
    recorded = states_of(model.source)
    pairs = [_named(text, model, recorded) for text in request.states] or list(recorded)
    if not pairs:
        raise UsageError(
            "--sequence: the source recorded no states",
            code="server-states",
            hint="Name each state's input and output: --state state=stateN.",
        )
    inputs, outputs = (
        {spec.name: spec for spec in specs} for specs in (model.inputs, model.outputs)
    )
    for pair in pairs:
        if pair.input not in inputs or pair.output not in outputs:
            raise UsageError(
                f"the state {pair.input} is no longer among the model's inputs and outputs",
                code="server-states",
                hint="Name the states that exist with --state.",
            )
        _require_alike(inputs[pair.input], outputs[pair.output])
    for names in ([pair.input for pair in pairs], [pair.output for pair in pairs]):
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise UsageError(f"--state: {twice[0]} is named twice", code="server-states")
    if len(pairs) == len(inputs):
        raise UsageError(
            "--state: all inputs are states, so clients have nothing to send",
            code="server-states",
        )
    if len(pairs) == len(outputs):
        raise UsageError(
            "--state: all outputs are states, so clients would get nothing",
            code="server-states",
        )
    return _in_order(pairs)


def _in_order(pairs: Sequence[StatePair]) -> list[StatePair]:
    made = sorted(pairs, key=lambda pair: pair.input)
    sorts = sorted(pair.output for pair in made)
    wrong = [pair for pair, output in zip(made, sorts, strict=True) if pair.output != output]
    if wrong:
        taken = sorts[made.index(wrong[0])]
        raise UsageError(
            f"Triton would give {wrong[0].input} the value of {taken} in place of "
            f"{wrong[0].output}, because it pairs the states' inputs and outputs in the "
            "order of their names",
            code="server-states",
            hint="Rename the outputs so that they sort like the inputs: --output.",
        )
    return made


def _named(text: str, model: Model, recorded: Iterable[StatePair]) -> StatePair:
    """``IN=OUT``, where either may hold a "=" of its own."""
    outputs = {spec.name for spec in model.outputs}
    for spec in model.inputs:
        if text.startswith(f"{spec.name}=") and text[len(spec.name) + 1 :] in outputs:
            name, after = spec.name, text[len(spec.name) + 1 :]
            known = [pair for pair in recorded if (pair.input, pair.output) == (name, after)]
            if known and known[0].initial is not None:
                return known[0]
            return StatePair(name, after, 0)
    raise UsageError(
        f"--state {text!r}: the form is INPUT=OUTPUT, with names of the model",
        code="server-states",
        hint=f"Inputs: {', '.join(spec.name for spec in model.inputs)}. "
        f"Outputs: {', '.join(sorted(outputs))}.",
    )


def _require_alike(before: TensorSpec, after: TensorSpec) -> None:
    """Refuses a pair of which an output can't be the next request's input."""
    where = f"the state {before.name}={after.name}: "
    if before.dtype != after.dtype:
        raise UsageError(
            f"{where}the input is {before.dtype}, the output {after.dtype}", code="server-states"
        )
    if TYPES.get(before.dtype) not in ITEM_SIZES:
        raise UsageError(f"{where}Triton keeps no state of {before.dtype}", code="server-states")
    one, other = before.shape, after.shape
    if one is None or other is None or len(one) != len(other):
        raise UsageError(
            f"{where}the input is {before.describe()}, the output {after.describe()}",
            code="server-states",
        )
    fixed = [pair for pair in zip(one, other, strict=True) if all(isinstance(d, int) for d in pair)]
    if any(a != b for a, b in fixed):
        raise UsageError(
            f"{where}the input is {before.describe()}, the output {after.describe()}",
            code="server-states",
        )


def _batching(request: TritonRequest) -> Any:
    """The message that ``--sequence-batching`` says, with what it leaves out.

    Raises:
        UsageError: It is no such message, or says what other options do.
    """
    text = request.sequence_batching or ""
    batching = parse("--sequence-batching", text, schema.ModelSequenceBatching())
    if batching.state:
        raise UsageError(
            "--sequence-batching: name states with --state",
            code="server-states",
            hint="--state IN=OUT",
        )
    if not batching.WhichOneof("strategy_choice"):
        batching.oldest.max_candidate_sequences = CANDIDATES
        batching.oldest.max_queue_delay_microseconds = request.queue_delay
    batching.max_sequence_idle_microseconds = batching.max_sequence_idle_microseconds or IDLE
    if not 0 <= batching.direct.minimum_slot_utilization <= 1:
        raise UsageError(
            "--sequence-batching: minimum_slot_utilization has to be between 0 and 1",
            code="server-states",
        )
    return batching


def sequences_of(
    model: Model,
    ports: tuple[Sequence[TensorSpec], Sequence[TensorSpec]],
    samples: Samples,
    request: TritonRequest,
    max_batch: int,
) -> Sequences | None:
    """What was asked for, held against the artifact; None where nothing was.

    Args:
        model: Its source recorded the states.
        ports: The artifact's inputs and outputs.
        samples: The first one has the sizes of free dimensions.
        request: What was asked for.
        max_batch: The largest batch; 0 where Triton doesn't batch.

    Raises:
        UsageError: The states aren't such that the server could keep them.
    """
    if not is_asked(request):
        return None
    inputs, outputs = ({spec.name: spec for spec in specs} for specs in ports)
    batching, batched = _batching(request), max_batch > 0
    largest = max(batching.oldest.preferred_batch_size, default=0)
    if largest > max_batch:
        raise UsageError(
            f"--sequence-batching: the preferred batch {largest} is above the largest batch, "
            f"{max_batch}",
            code="server-states",
        )
    sample = next(iter(samples), None)
    states = []
    for pair in pairs_of(model, request):
        before, after = inputs[pair.input], outputs[pair.output]
        _require_alike(before, after)
        source = next(spec for spec in model.inputs if spec.name == pair.input)
        first = _first(pair, source, sample.feeds if sample else {})
        states.append(State(before, after, _dims(before, batched), first))
    controls = controls_of(batching, inputs, {state.input.name for state in states}, batched)
    return Sequences(tuple(states), controls, batching, batched)


def _dims(before: TensorSpec, batched: bool) -> tuple[int, ...]:
    """The input's: an output's sizes may be known to nobody, and have to fit the input anyway."""
    shape = (before.shape or ())[int(batched) :]
    dims = tuple(dim if isinstance(dim, int) else -1 for dim in shape)
    if not dims:
        raise UsageError(
            f"the state {before.name} has no dimensions, which Triton doesn't allow",
            code="server-states",
            hint="Give it a dimension of 1.",
        )
    return dims


def _first(pair: StatePair, spec: TensorSpec, feeds: Mapping[str, Array]) -> Array:
    """What a sequence starts at; free dimensions are as large as in the first sample, or 1."""
    shape = spec.shape or ()
    sizes = feeds[spec.name].shape if spec.name in feeds else (1,) * len(shape)
    whole = [dim if isinstance(dim, int) else size for dim, size in zip(shape, sizes, strict=True)]
    if 0 in whole:
        raise UsageError(
            f"the state {spec.name} starts without elements ({whole}), which Triton doesn't allow",
            code="server-states",
        )
    if pair.initial is None:
        raise UsageError(
            f"the state {spec.name}: its first value isn't known",
            code="server-states",
            hint=f"--state {pair.input}={pair.output} starts it at zeros. Only the model's "
            "authors know whether that is right.",
        )
    values: Array = np.asarray(pair.initial, dtype_from_name(spec.dtype).numpy())
    try:
        return np.broadcast_to(values, whole)
    except ValueError as error:
        raise UsageError(
            f"the state {spec.name} starts with values of shape {list(values.shape)}, but "
            f"its shape is {whole}",
            code="server-states",
        ) from error


def kept_names(config: Any) -> set[str]:
    """Inputs and outputs of the model that a configuration keeps from clients."""
    batching = config.sequence_batching
    names = {name for state in batching.state for name in (state.input_name, state.output_name)}
    names |= {name for entry in config.batch_input for name in entry.target_name}
    return names | {entry.name for entry in batching.control_input}


def state_problems(
    config: Any, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> Iterator[str]:
    """Where a configuration's states aren't the model's, a line each.

    Args:
        config: The ``ModelConfig``.
        inputs: The model's.
        outputs: The model's.
    """
    batch = [-1] * (config.max_batch_size > 0)
    for state in config.sequence_batching.state:
        for name, specs in ((state.input_name, inputs), (state.output_name, outputs)):
            spec = next((spec for spec in specs if spec.name == name), None)
            if spec is None or TYPES.get(spec.dtype) != schema.DataType.Name(state.data_type):
                yield f"state {name}: the model has {spec.describe() if spec else 'none'}"
                continue
            shape = [dim if isinstance(dim, int) else -1 for dim in spec.shape or ()]
            dims = [*batch, *state.dims]
            if len(dims) != len(shape) or any(
                dim != size and -1 not in (dim, size) for dim, size in zip(dims, shape, strict=True)
            ):
                yield f"state {name}: dims {dims} with the batch, and the model has {shape}"


def state_files(path: Path, config: Any) -> Iterator[str]:
    """What is wrong with the files that states start at, a line each."""
    for entry in config.sequence_batching.state:
        for start in entry.initial_state:
            kind = schema.DataType.Name(start.data_type)
            wanted = int(np.prod(start.dims, dtype=np.int64)) * ITEM_SIZES[kind]
            file = path / FOLDER / start.data_file
            if not start.data_file:
                continue
            if not file.is_file() or file.stat().st_size != wanted:
                yield f"{FOLDER}/{start.data_file} isn't a file of {wanted} bytes"
