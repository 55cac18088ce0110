"""Makes a TFLite model's state explicit: what it keeps between runs becomes inputs and outputs.

State is kept in two ways.

1. Resource variables: VAR_HANDLE names one, READ_VARIABLE and ASSIGN_VARIABLE copy it out and
   in, and CALL_ONCE runs, before the first run, a subgraph that assigns the initial values.
   Operators run in order, so a read gives what was assigned last before it, and the value at
   the start of the run where nothing was. Given that, all four go away: the first read's
   tensor becomes the input ``NAME``, what was assigned last the output ``NAME_out``.
2. Variable tensors (``is_variable``), which operators like SVDF and
   UNIDIRECTIONAL_SEQUENCE_LSTM change in place. Such a tensor becomes an input and an output
   as it is: its value before the run, and after it.

The result is a TFLite model of its own: LiteRT runs it as the reference, and the same model is
imported, so that both take states like any other input.

Where states are held instead (``--no-state``), each run starts with the initial values: what reads
a resource variable first gets a constant. Variable tensors can't be: operators need to change them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from converter.errors import Unsupported
from parsers.tflite.checks import called
from parsers.tflite.model import Array, Operator, Subgraph, Tensor, TfliteModel
from parsers.tflite.variable_access import (
    NOTHING,
    Initial,
    Key,
    alike,
    assigned,
    initial_values,
    initializers,
    key_of,
    only_assigns,
    read_elsewhere,
    same_scale,
    zeros,
)

_VARIABLE_OPS = {"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"}
STATEFUL = {*_VARIABLE_OPS, "CALL_ONCE"}
"""The operators by which state is kept in resource variables."""


@dataclass(frozen=True)
class State:
    """One variable that has become explicit.

    Attributes:
        name: The input's name; the output's has ``_out`` behind it.
        input: Its tensor before the run; None where the run doesn't look at it.
        output: Its tensor after the run; None where the run leaves it as it is.
        initial: Its value before the first run, as stored; None where that isn't a constant.
    """

    name: str
    input: int | None
    output: int | None
    initial: Array | None


@dataclass
class Explicit:
    """What became of a subgraph's state.

    Attributes:
        states: In the order of their names.
        held: Those that are constants instead, with ``input`` alone.
        changed: Whether the model is another than before.
        unsupported: What could not be made explicit.
    """

    states: list[State] = field(default_factory=list)
    held: list[State] = field(default_factory=list)
    changed: bool = False
    unsupported: list[Unsupported] = field(default_factory=list)

    @property
    def inputs(self) -> dict[str, int]:
        """The tensors of the states that runs start from, by name."""
        return {s.name: s.input for s in self.states if s.input is not None}

    @property
    def outputs(self) -> dict[str, int]:
        """The tensors of the states that runs leave behind, by name."""
        return {f"{s.name}_out": s.output for s in self.states if s.output is not None}


def make_explicit(
    source: Any, model: TfliteModel, subgraph: int, taken: Iterable[str], *, hold: bool = False
) -> Explicit:
    """Changes ``source`` in place so that ``subgraph`` keeps no state of its own.

    Args:
        source: The ``schema.ModelT``; left half changed where something is unsupported.
        model: The same as structures, before the change.
        subgraph: The entry's number.
        taken: Names that inputs and outputs have already.
        hold: Whether each run starts with the initial values, and states are neither.
    """
    made = Explicit(unsupported=list(_inner_state(model, subgraph)))
    rewriting = _Rewriting(source, model, subgraph, hold)
    found = [*rewriting.resources(), *rewriting.variable_tensors()]
    made.unsupported += rewriting.unsupported
    if not made.unsupported:
        made.states, made.held = list(_named(found, taken)), rewriting.held
        made.changed = bool(found) or rewriting.changed
        _list_in_interface(source, subgraph, made)
    return made


def _inner_state(model: TfliteModel, subgraph: int) -> Iterator[Unsupported]:
    """State inside branches and loops, which run any number of times."""
    waiting, seen = [subgraph], {subgraph}
    while waiting:
        graph = model.subgraphs[waiting.pop()]
        for operator in graph.operators:
            if operator.name == "CALL_ONCE":
                continue
            for callee in set(called(operator)) - seen:
                seen.add(callee)
                waiting.append(callee)
                yield from _state_of(model.subgraphs[callee], operator)


def _state_of(graph: Subgraph, caller: Operator) -> Iterator[Unsupported]:
    remedy = "Convert the original with the state outside of branches and loops."
    for operator in graph.operators:
        if operator.name in STATEFUL:
            reason = f"subgraph {graph.index} ({graph.name}) of a {caller.name} keeps state"
            yield Unsupported(str(operator.index), operator.name, reason, remedy)
    for tensor in graph.tensors:
        if tensor.is_variable:
            reason = f"subgraph {graph.index} ({graph.name}) of a {caller.name} keeps state"
            yield Unsupported(tensor.name, "variable tensor", reason, remedy)


class _Rewriting:
    """One subgraph whose resource variables go away.

    Attributes:
        changed: Whether operators went away.
        held: Variables that became constants, though the file changes them.
        unsupported: What stands in the way.
    """

    def __init__(self, source: Any, model: TfliteModel, subgraph: int, hold: bool) -> None:
        self._hold = hold
        self.changed = False
        self.held: list[State] = []
        self.unsupported: list[Unsupported] = []
        self._model = model
        self._graph = model.subgraphs[subgraph]
        self._target = source.subgraphs[subgraph]
        self._source = source
        self._keys: dict[int, Key] = {}  # by the handle's tensor
        self._first: dict[Key, int] = {}  # the tensor of the value before the run
        self._current: dict[Key, int] = {}  # and of the value now
        self._instead: dict[int, int] = {}  # tensors that others stand for

    def resources(self) -> list[State]:
        """Takes the variable operators out; gives what they kept, named as the file does."""
        entries = initializers(self._model)
        initial = initial_values(self._model, self._source, entries)
        changing = assigned(self._model, entries)
        kept = []
        for operator, raw in zip(self._graph.operators, self._target.operators, strict=True):
            if not self._take_out(operator, initial, changing):
                raw.inputs = self._mapped(operator.inputs)
                kept.append(raw)
        self.changed = len(kept) < len(self._target.operators)
        self._target.operators = kept
        self._target.outputs = self._mapped(self._graph.outputs)
        names = dict.fromkeys(self._keys.values())
        return [state for key in names if (state := self._state(key, initial)) is not None]

    def variable_tensors(self) -> list[State]:
        """The tensors that operators change in place."""
        used = {index for operator in self._graph.operators for index in operator.inputs}
        found = [item for item in self._graph.tensors if item.is_variable and item.index in used]
        if self._hold:
            why = "operators change it in place, so it can't stay as it is stored"
            self.unsupported += [
                Unsupported(item.name, "variable tensor", why, "leave --no-state out")
                for item in found
            ]
        return [State(item.name, item.index, item.index, zeros(item)) for item in found]

    def _mapped(self, numbers: Iterable[int]) -> Array:
        return np.array([self._instead.get(number, number) for number in numbers], np.int32)

    def _take_out(
        self, operator: Operator, initial: Mapping[Key, Initial], changing: set[Key]
    ) -> bool:
        """Whether the operator is one of the variables', and so goes away."""
        if operator.name == "CALL_ONCE":
            return all(only_assigns(self._model.subgraphs[i]) for i in called(operator))
        if operator.name == "VAR_HANDLE":
            if operator.outputs:
                self._keys[operator.outputs[0]] = key_of(operator)
            return True
        if operator.name not in _VARIABLE_OPS:
            self._refuse_handles(operator)
            return False
        key = self._keys.get(operator.inputs[0]) if operator.inputs else None
        if key is None:
            self._refuse(operator, "its variable is not one that this graph names")
        elif operator.name == "READ_VARIABLE":
            self._read(operator, key, initial.get(key, NOTHING), key not in changing)
        else:
            self._assign(operator, key)
        return True

    def _read(self, operator: Operator, key: Key, initial: Initial, fixed: bool) -> None:
        if not operator.outputs or operator.outputs[0] < 0:
            return self._refuse(operator, "it has no output")
        index = operator.outputs[0]
        if key in self._current:
            self._replace(operator, index, self._current[key])
        elif not (fixed or self._hold):
            self._first[key] = self._current[key] = index
        elif initial.buffer is None:
            self._refuse(operator, "nothing in the file gives it a value")
        else:
            self._target.tensors[index].buffer = initial.buffer
            if not fixed and key[1] not in (state.name for state in self.held):
                self.held.append(State(key[1], index, None, initial.value))
        return None

    def _assign(self, operator: Operator, key: Key) -> None:
        if len(operator.inputs) != 2 or operator.inputs[1] < 0:
            return self._refuse(operator, "it has no value to store")
        index = self._instead.get(operator.inputs[1], operator.inputs[1])
        if key in self._first and not alike(self._tensor(index), self._tensor(self._first[key])):
            return self._refuse(operator, "the stored value has another shape or type than before")
        self._current[key] = index
        return None

    def _replace(self, operator: Operator, index: int, by: int) -> None:
        """Has what was read be what was assigned: the same bytes, so the same scale too."""
        old, new = self._tensor(index), self._tensor(by)
        if alike(old, new) and same_scale(old, new):
            self._instead[index] = by
        else:
            self._refuse(
                operator, "it reads a value that was stored with another shape, type or scale"
            )

    def _tensor(self, index: int) -> Tensor:
        return self._graph.tensors[index]

    def _refuse_handles(self, operator: Operator) -> None:
        if any(index in self._keys for index in operator.inputs):
            self._refuse(operator, "it takes a variable itself, not its value")

    def _refuse(self, operator: Operator, reason: str) -> None:
        item = Unsupported(
            str(operator.index), operator.name, f"its state can't be an input: {reason}"
        )
        self.unsupported.append(item)

    def _state(self, key: Key, initial: Mapping[Key, Initial]) -> State | None:
        first, last = self._first.get(key), self._current.get(key)
        read = first is not None or key in read_elsewhere(self._model, self._graph.index)
        if last is None or not read or self._hold:
            return None  # it never leaves the run
        after = None if last == first else last
        return State(key[1] or "state", first, after, initial.get(key, NOTHING).value)


# -- names and the interface -------------------------------------------------------------


def _named(states: Iterable[State], taken: Iterable[str]) -> Iterator[State]:
    names = set(taken)
    for state in sorted(states, key=lambda item: _natural(item.name)):
        plain = re.sub(r"\W+", "_", state.name).strip("_") or "state"
        name, number = plain, 1
        while name in names or f"{name}_out" in names:
            number += 1
            name = f"{plain}_{number}"
        names |= {name, f"{name}_out"}
        yield State(name, state.input, state.output, state.initial)


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts ``state_9`` before ``state_10``."""
    parts: list[str] = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _list_in_interface(source: Any, subgraph: int, made: Explicit) -> None:
    """Adds the states to the graph's inputs and outputs, and to its signatures'."""
    graph = source.subgraphs[subgraph]
    graph.inputs = _extended(graph.inputs, made.inputs.values())
    graph.outputs = _extended(graph.outputs, made.outputs.values())
    for signature in source.signatureDefs or ():
        if signature.subgraphIndex == subgraph:
            signature.inputs = [*(signature.inputs or ()), *_maps(made.inputs)]
            signature.outputs = [*(signature.outputs or ()), *_maps(made.outputs)]


def _extended(numbers: Any, more: Iterable[int]) -> Array:
    old = [] if numbers is None else [int(number) for number in numbers]
    return np.array([*old, *more], np.int32)


def _maps(items: dict[str, int]) -> list[Any]:
    made = []
    for name, index in items.items():
        entry = schema.TensorMapT()
        entry.name, entry.tensorIndex = name, index
        made.append(entry)
    return made
