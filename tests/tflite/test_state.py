"""State becomes inputs and outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from converter.tflite_file import pack, unpack
from parsers.tflite_import.names import find_entry
from parsers.tflite_import.reader import structures
from parsers.tflite_import.variables import Explicit, State, make_explicit
from tests.tflite.build import File, Graph, counter
from tests.tflite.litert import Stepped
from tests.tflite.real import real_file

Array = np.ndarray[Any, Any]

FRAMES = 20


def _explicit(content: bytes, signature: str | None = None) -> tuple[Explicit, bytes]:
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
    made, rewritten = _explicit(content)
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


def test_a_variable() -> None:
    file, graph = counter((5.0, 7.0))
    (state,) = _steps_alike(file.content(), _numbers((1, 2)), [int(graph.raw.outputs[0])])
    assert state.name == "running_total"
    assert state.initial is not None and state.initial.tolist() == [[5.0, 7.0]]


@pytest.mark.parametrize("name", ["alexa", "okay-nabu"])
def test_a_real_streaming_model_in_integers(name: str) -> None:
    content = real_file(name).read_bytes()
    graph = structures(unpack(content, name), name).subgraphs[0]
    last = next(op for op in graph.operators if op.name == "FULLY_CONNECTED").outputs[0]
    stored = [op.inputs[1] for op in graph.operators if op.name == "ASSIGN_VARIABLE"]
    rng = np.random.default_rng(0)
    shape = graph.tensors[graph.inputs[0]].shape
    frames = [rng.integers(-128, 128, shape).astype(np.int8) for _ in range(FRAMES)]
    fed = [{graph.inputs[0]: frame} for frame in frames]
    states = _steps_alike(content, fed, [last, graph.outputs[0], *stored])
    assert len(states) == len(stored)
    assert all(s.initial is not None and (s.initial == -128).all() for s in states)
    assert [s.name for s in states] == sorted(
        (s.name for s in states), key=lambda text: int("".join(filter(str.isdigit, text)))
    )


def test_a_read_after_an_assignment_gives_what_was_assigned() -> None:
    file, graph = counter()
    handle = next(
        int(op.outputs[0]) for op in graph.raw.operators if len(op.outputs) and not len(op.inputs)
    )
    again = graph.read(handle, (1, 2), "again")
    y = int(graph.raw.outputs[0])
    z = graph.add(again, y, (1, 2), "z")
    graph.assign(handle, z)
    later = graph.read(handle, (1, 2), "later")
    graph.interface([0], [y, z, later])
    made, rewritten = _explicit(file.content())
    (state,) = made.states
    assert state.output == z
    after = structures(unpack(rewritten, "f"), "f").subgraphs[0]
    assert after.outputs == (y, z, z, z)
    _steps_alike(file.content(), _numbers((1, 2)), [z, y])


def test_a_variable_that_runs_never_change_is_a_constant() -> None:
    file = File()
    main, init = file.graph(), file.graph("init")
    main.op("CALL_ONCE", [], [], initSubgraphIndex=1)
    x = main.tensor("x", (1, 2))
    y = main.add(main.read(main.variable("weight"), (1, 2)), x, (1, 2), "y")
    main.interface([x], [y])
    init.assign(init.variable("weight"), init.tensor("w", (1, 2), data=np.ones(2, np.float32)))
    made, rewritten = _explicit(file.content())
    assert made.changed and not made.states and not made.unsupported
    explicit, original = Stepped(rewritten), Stepped(file.content())
    for session in (explicit, original):
        session.run({x: np.array([[3.0, 4.0]], np.float32)})
        assert session.get(y).tolist() == [[4.0, 5.0]]


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
    stored, _ = _explicit(file.content(), "store")
    assert (stored.inputs, list(stored.outputs)) == ({}, ["memory_out"])
    recalled, rewritten = _explicit(file.content(), "recall")
    assert (list(recalled.inputs), recalled.outputs) == (["memory"], {})
    signature = structures(unpack(rewritten, "f"), "f").signatures[1]
    assert list(signature.inputs) == ["a", "memory"]


def test_a_tensor_that_an_operator_changes_in_place() -> None:
    """SVDF: its last inputs in time, along its rank-1 filters, are a variable tensor."""
    rng = np.random.default_rng(1)
    units, rank, memory, size = 3, 2, 5, 4
    file = File()
    graph = file.graph()
    x = graph.tensor("x", (1, size))
    features = rng.standard_normal((units * rank, size)).astype(np.float32)
    times = rng.standard_normal((units * rank, memory)).astype(np.float32)
    state = graph.tensor("svdf/activation_state", (1, units * rank * memory), variable=True)
    inputs = [x, graph.constant(features), graph.constant(times), -1, state]
    y = graph.tensor("y", (1, units))
    graph.op("SVDF", inputs, [y], rank=rank, fusedActivationFunction=0)
    graph.interface([x], [y])
    (made,) = _steps_alike(file.content(), _numbers((1, size)), [y, state])
    assert (made.name, made.input, made.output) == ("svdf_activation_state", state, state)


# -- what can't be made explicit ---------------------------------------------------------


def _reasons(file: File) -> list[str]:
    made, _ = _explicit(file.content())
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


def _refused(kind: str, graph: Graph) -> None:
    """What is wrong with a variable."""
    if kind == "it changes its shape":
        handle = graph.variable("other")
        graph.read(handle, (1, 2), "before")
        graph.assign(handle, graph.tensor("wide", (1, 9), data=np.zeros(9, np.float32)))
    elif kind == "nothing ever gives it a value":
        graph.read(graph.variable("other"), (1, 2))
    elif kind == "it goes into an operator itself":
        handle = graph.variable("other")
        graph.op("ADD", [handle, handle], [graph.tensor("made", (1, 2))])
    else:
        handle = graph.tensor("h", (), "RESOURCE")
        graph.raw.inputs = np.array([*graph.raw.inputs, handle], np.int32)
        graph.read(handle, (1, 2))


@pytest.mark.parametrize(
    ("kind", "op", "reason"),
    [
        ("it changes its shape", "ASSIGN_VARIABLE", "another shape or type than before"),
        ("nothing ever gives it a value", "READ_VARIABLE", "nothing in the file gives it a value"),
        ("it goes into an operator itself", "ADD", "takes a variable itself"),
        ("it comes in from outside", "READ_VARIABLE", "not one that this graph names"),
    ],
)
def test_what_cannot_be_fed_is_named(kind: str, op: str, reason: str) -> None:
    file, graph = counter()
    _refused(kind, graph)
    (found,) = _reasons(file)
    assert found.startswith(f"{op} (") and reason in found
