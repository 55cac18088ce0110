"""What inputs and outputs are called, and which signature is meant."""

from __future__ import annotations

import pytest

from converter.errors import UsageError
from parsers.tflite_import.names import find_entry
from parsers.tflite_import.reader import read
from tests.tflite.build import File
from tests.tflite.real import real_file


def _named(inputs: list[str], outputs: list[str]) -> tuple[list[str], list[str]]:
    file = File()
    graph = file.graph()
    ins = [graph.tensor(name, (2,)) for name in inputs]
    outs = [graph.add(ins[0], ins[-1], (2,), name) for name in outputs]
    graph.interface(ins, outs)
    entry = find_entry(read(file.content(), "f"), None, "f")
    assert entry.signature is None
    assert [*entry.inputs.values(), *entry.outputs.values()] == [*ins, *outs]
    return list(entry.inputs), list(entry.outputs)


@pytest.mark.parametrize(
    ("inputs", "outputs", "found"),
    [
        (["serving_default_x:0"], ["StatefulPartitionedCall:0"], (["x"], ["output_0"])),
        (["a", "b:0"], ["Identity_1", "Identity"], (["a", "b"], ["output_1", "output_0"])),
        (["Identity"], ["scores"], (["Identity"], ["scores"])),
        (["", ""], ["", "y"], (["input_0", "input_1"], ["output_0", "y"])),
        (["x", "x:0"], ["x", "x"], (["x", "x_2"], ["x_3", "x_4"])),
    ],
)
def test_without_a_signature(
    inputs: list[str], outputs: list[str], found: tuple[list[str], list[str]]
) -> None:
    assert _named(inputs, outputs) == found


def _with_signatures(*keys: str) -> File:
    file = File()
    for key in keys:
        graph = file.graph(key)
        x = graph.tensor("serving_default_x:0", (2,))
        y = graph.add(x, x, (2,), "StatefulPartitionedCall:0")
        graph.interface([x], [y])
        file.signature(key, graph, {"sound": x}, {"louder": y})
    return file


def test_the_default_and_the_one_that_is_asked_for() -> None:
    """A signature's names are the user's."""
    entry = find_entry(read(_with_signatures("run").content(), "f"), None, "f")
    assert (entry.subgraph, entry.signature) == (0, "run")
    assert (list(entry.inputs), list(entry.outputs)) == (["sound"], ["louder"])
    model = read(_with_signatures("encode", "serving_default", "decode").content(), "f")
    assert find_entry(model, None, "f").subgraph == 1
    assert find_entry(model, "decode", "f").subgraph == 2


def test_several_without_a_default_are_listed() -> None:
    model = read(_with_signatures("encode", "decode").content(), "f.tflite")
    with pytest.raises(UsageError, match="2 signatures, and none of them is") as caught:
        find_entry(model, None, "f.tflite")
    assert caught.value.details == ("encode: sound -> louder", "decode: sound -> louder")


@pytest.mark.parametrize("name", ["fer", "alexa"])
def test_one_that_is_not_there(name: str) -> None:
    model = read(real_file(name).read_bytes(), name)
    with pytest.raises(UsageError, match="--signature train") as caught:
        find_entry(model, "train", name)
    assert len(caught.value.details) == len(model.signatures)
