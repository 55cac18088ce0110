"""Damaged and hostile files are refused, quickly, and with nothing but a ModelError."""

import random
import time

import flatbuffers
import pytest
from ai_edge_litert import schema_py_generated as schema

from converter.errors import ModelError, UsageError
from modelyard.containers.tflite import IDENTIFIER, pack, unpack
from parsers.tflite.names import find_entry
from parsers.tflite.reader import read, structures
from parsers.tflite.variables import make_explicit
from tests.tflite.real import real_file


def _read_whole(content: bytes) -> None:
    source = unpack(content, "f")
    model = structures(source, "f")
    entry = find_entry(model, None, "f")
    made = make_explicit(source, model, entry.subgraph, [*entry.inputs, *entry.outputs])
    if not made.unsupported:
        structures(unpack(pack(source, "f"), "f"), "f")


def _damaged(content: bytes, seed: int) -> bytes:
    """Cut short, or with some of its bytes changed: anywhere, or where its tables are."""
    rng = random.Random(seed)
    if rng.random() < 0.15:
        return content[: rng.randrange(len(content))]
    low, high = rng.choice([(0, len(content)), (0, 4000), (len(content) - 30000, len(content))])
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 5, 20, 200])):
        at = rng.randrange(low, high)
        changed[at] = rng.choice([0, 255, 127, 128, changed[at] ^ (1 << rng.randrange(8))])
    return bytes(changed)


@pytest.mark.parametrize(("name", "cases"), [("alexa", 120), ("fer", 60), ("face-sparse", 40)])
def test_damaged_files(name: str, cases: int) -> None:
    content = real_file(name).read_bytes()
    _read_whole(content)
    refused = 0
    for seed in range(cases):
        try:
            _read_whole(_damaged(content, seed))
        except (ModelError, UsageError):
            refused += 1
    assert cases / 3 < refused < cases  # weights may change; tables may not


def _repeating(names: int, length: int) -> bytes:
    """A file whose tensors are one and the same table, with a long name."""
    builder = flatbuffers.Builder(1 << 20)
    text = builder.CreateString("n" * length)
    schema.TensorStart(builder)
    schema.TensorAddName(builder, text)
    tensor = schema.TensorEnd(builder)
    schema.SubGraphStartTensorsVector(builder, names)
    for _ in range(names):
        builder.PrependUOffsetTRelative(tensor)
    tensors = builder.EndVector()
    schema.SubGraphStart(builder)
    schema.SubGraphAddTensors(builder, tensors)
    graph = schema.SubGraphEnd(builder)
    schema.ModelStartSubgraphsVector(builder, 1)
    builder.PrependUOffsetTRelative(graph)
    graphs = builder.EndVector()
    schema.ModelStart(builder)
    schema.ModelAddVersion(builder, 3)
    schema.ModelAddSubgraphs(builder, graphs)
    builder.Finish(schema.ModelEnd(builder), IDENTIFIER)
    return bytes(builder.Output())


def test_a_table_that_is_listed_a_thousand_times() -> None:
    """40 kB that would become 200 MB."""
    content = _repeating(10_000, 20_000)
    assert len(content) < 100_000
    start = time.perf_counter()
    with pytest.raises(ModelError, match="its tables claim more bytes than the file has"):
        read(content, "f")
    assert time.perf_counter() - start < 2


def test_lengths_that_are_longer_than_the_file() -> None:
    content = _repeating(3, 3)
    refused, start = 0, time.perf_counter()
    for offset in range(0, len(content) - 4, 4):
        changed = bytearray(content)
        changed[offset : offset + 4] = b"\xff\xff\xff\x7f"
        try:
            read(bytes(changed), "f")
        except ModelError:
            refused += 1
    assert refused > 5
    assert time.perf_counter() - start < 2
