"""State becomes inputs and outputs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from modelyard.containers.tflite import pack, unpack
from parsers.tflite.names import find_entry
from parsers.tflite.reader import structures
from parsers.tflite.variables import Explicit, State, make_explicit
from tests.tflite.build import File, Graph, counter
from tests.tflite.litert import Stepped

Array = np.ndarray[Any, Any]

FRAMES = 20


def made_explicit(content: bytes, signature: str | None = None) -> tuple[Explicit, bytes]:
    source = unpack(content, "f")
    model = structures(source, "f")
    entry = find_entry(model, signature, "f")
    made = make_explicit(source, model, entry.subgraph, [*entry.inputs, *entry.outputs])
    if made.unsupported:
        return made, b""
    rewritten = pack(source, "f")
    structures(unpack(rewritten, "f"), "f")  # it is a valid model
    return made, rewritten


def _steps_alike(content: bytes, inputs: list[dict[int, Array]], watched: list[int]) -> list[State]:
    """Steps the original with its state inside, and the rewritten one with its state outside."""
    made, rewritten = made_explicit(content)
    assert made.states and not made.unsupported
    original, explicit = Stepped(content), Stepped(rewritten)
    kept = [(s, s.input) for s in made.states if s.input is not None]
    states = {index: state.initial for state, index in kept if state.initial is not None}
    seen = []
    for feeds in inputs:
        original.run(feeds)
        explicit.run(feeds | states)
        for index in watched:
            assert np.array_equal(original.get(index), explicit.get(index))
        seen.append(explicit.get(watched[0]))
        outputs = {index: s.output if s.output is not None else index for s, index in kept}
        states = {index: explicit.get(output) for index, output in outputs.items()}
    assert len({value.tobytes() for value in seen}) > FRAMES // 2  # it did depend on the input
    return made.states


def _numbers(shape: tuple[int, ...], index: int = 0) -> list[dict[int, Array]]:
    rng = np.random.default_rng(0)
    return [{index: rng.standard_normal(shape).astype(np.float32)} for _ in range(FRAMES)]


def test_a_read_after_an_assignment_gives_what_was_assigned() -> None:
    file, graph = counter()
    handle = next(
        int(op.outputs[0]) for op in graph.raw.operators if len(op.outputs) and not len(op.inputs)
    )
    again = graph.read(handle, (1, 2), "again")
    y = int(graph.raw.outputs[0])
    z = graph.add(again, y, (1, 2), "z")
    graph.assign(handle, z)
    graph.interface([0], [y, z, graph.read(handle, (1, 2), "later")])
    made, rewritten = made_explicit(file.content())
    (state,) = made.states
    assert state.output == z
    assert structures(unpack(rewritten, "f"), "f").subgraphs[0].outputs == (y, z, z, z)
    _steps_alike(file.content(), _numbers((1, 2)), [z, y])


def test_a_variable_that_runs_never_change_is_a_constant() -> None:
    file = File()
    main, init = file.graph(), file.graph("init")
    main.op("CALL_ONCE", [], [], initSubgraphIndex=1)
    x = main.tensor("x", (1, 2))
    y = main.add(main.read(main.variable("weight"), (1, 2)), x, (1, 2), "y")
    main.interface([x], [y])
    init.assign(init.variable("weight"), init.tensor("w", (1, 2), data=np.ones(2, np.float32)))
    made, rewritten = made_explicit(file.content())
    assert made.changed and not made.states and not made.unsupported
    explicit, original = Stepped(rewritten), Stepped(file.content())
    for session in (explicit, original):
        session.run({x: np.array([[3.0, 4.0]], np.float32)})
        assert session.get(y).tolist() == [[4.0, 5.0]]


def test_a_state_that_is_held_starts_anew_in_each_run() -> None:
    file, graph = counter()
    source = unpack(file.content(), "f")
    model = structures(source, "f")
    made = make_explicit(source, model, 0, [], hold=True)
    assert not made.states and [state.name for state in made.held] == ["running/total"]
    held, kept = Stepped(pack(source, "f")), Stepped(file.content())
    y = int(graph.raw.outputs[0])
    for feeds in _numbers((1, 2)):
        first = Stepped(file.content())
        for session in (held, kept, first):
            session.run(feeds)
        assert np.array_equal(held.get(y), first.get(y))
    assert not np.array_equal(held.get(y), kept.get(y))


def test_what_one_signature_stores_another_reads() -> None:
    """Neither is stateful alone: one only has the output, the other only the input."""
    file = File()
    store, recall, init = file.graph("store"), file.graph("recall"), file.graph("init")
    for graph in (store, recall):
        graph.op("CALL_ONCE", [], [], initSubgraphIndex=init.index)
    init.assign(init.variable("memory"), init.tensor("w", (1, 2), data=np.zeros(2, np.float32)))
    x = store.tensor("x", (1, 2))
    y = store.add(x, x, (1, 2), "y")
    store.assign(store.variable("memory"), y)
    store.interface([x], [y])
    a = recall.tensor("a", (1, 2))
    b = recall.add(a, recall.read(recall.variable("memory"), (1, 2)), (1, 2), "b")
    recall.interface([a], [b])
    file.signature("store", store, {"x": x}, {"y": y})
    file.signature("recall", recall, {"a": a}, {"b": b})
    stored, _ = made_explicit(file.content(), "store")
    assert (stored.inputs, list(stored.outputs)) == ({}, ["memory_out"])
    recalled, rewritten = made_explicit(file.content(), "recall")
    assert (list(recalled.inputs), recalled.outputs) == (["memory"], {})
    assert list(structures(unpack(rewritten, "f"), "f").signatures[1].inputs) == ["a", "memory"]


def test_states_are_named_apart_from_what_has_their_names() -> None:
    file = File()
    main, init = file.graph(), file.graph("init")
    main.op("CALL_ONCE", [], [], initSubgraphIndex=1)
    init.assign(init.variable("memory"), init.tensor("w", (1, 2), data=np.zeros(2, np.float32)))
    x = main.tensor("x", (1, 2))
    y = main.add(main.read(main.variable("memory"), (1, 2)), x, (1, 2), "y")
    main.assign(main.variable("memory"), y)
    main.interface([x], [y])
    file.signature("main", main, {"x": x}, {"memory_out": y})
    (state,) = made_explicit(file.content(), "main")[0].states
    assert state.name == "memory_2"


def _reasons(file: File) -> list[str]:
    made, _ = made_explicit(file.content())
    return [str(item) for item in made.unsupported]


def test_state_in_a_loop_is_refused() -> None:
    file, main = counter()
    body, condition = file.graph("body"), file.graph("condition")
    value = body.tensor("v", (1, 2))
    body.assign(body.variable("running/total"), value)
    body.interface([value], [value])
    tested = condition.tensor("v", (1, 2))
    condition.interface([tested], [tested])
    loop = {"bodySubgraphIndex": body.index, "condSubgraphIndex": condition.index}
    main.op("WHILE", [int(main.raw.outputs[0])], [main.tensor("looped", (1, 2))], **loop)
    found = _reasons(file)
    assert [item.split(" ")[0] for item in found] == ["VAR_HANDLE", "ASSIGN_VARIABLE"]
    assert all("(body) of a WHILE keeps state" in item for item in found)


def _reshaped(graph: Graph) -> None:
    handle = graph.variable("other")
    graph.read(handle, (1, 2), "before")
    graph.assign(handle, graph.tensor("wide", (1, 9), data=np.zeros(9, np.float32)))


def _never_set(graph: Graph) -> None:
    graph.read(graph.variable("other"), (1, 2))


def _taken(graph: Graph) -> None:
    graph.op("ADD", [graph.variable("other")] * 2, [graph.tensor("made", (1, 2))])


def _from_outside(graph: Graph) -> None:
    handle = graph.tensor("h", (), "RESOURCE")
    graph.raw.inputs = np.array([*graph.raw.inputs, handle], np.int32)
    graph.read(handle, (1, 2))


@pytest.mark.parametrize(("spoil", "op", "reason"), [
    (_reshaped, "ASSIGN_VARIABLE", "another shape or type than before"),
    (_never_set, "READ_VARIABLE", "nothing in the file gives it a value"),
    (_taken, "ADD", "takes a variable itself"),
    (_from_outside, "READ_VARIABLE", "not one that this graph names"),
])  # fmt: skip
def test_what_cannot_be_fed_is_named(spoil: Callable[[Graph], None], op: str, reason: str) -> None:
    file, graph = counter()
    spoil(graph)
    (found,) = _reasons(file)
    assert found.startswith(f"{op} (") and reason in found
