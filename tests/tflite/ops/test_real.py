"""Whole files out of published packages: imported, they compute what LiteRT computes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from converter.tflite_file import pack
from parsers.tflite_import.importer import import_model
from parsers.tflite_import.reader import read
from parsers.tflite_import.variables import make_explicit
from tests.tflite.hybrid import hybrid_operators, make_float
from tests.tflite.ops.compare import Array, both, check
from tests.tflite.real import real_file


def _feeds(content: bytes) -> dict[str, Array]:
    """Noise for each input, one of a batch; integers over their whole range."""
    rng = np.random.default_rng(0)
    main = read(content, "real.tflite").subgraphs[0]
    feeds = {}
    for tensor in (main.tensors[index] for index in main.inputs):
        shape = [max(size, 1) for size in tensor.shape]
        if tensor.dtype == "float32":
            value = (rng.standard_normal(shape) / 2).astype(np.float32)
        else:
            limits = np.iinfo(tensor.dtype)
            value = rng.integers(limits.min, limits.max + 1, shape).astype(tensor.dtype)
        feeds[tensor.name.removeprefix("serving_default_").removesuffix(":0")] = value
    return feeds


@pytest.mark.slow
@pytest.mark.parametrize("name", ["face-short", "face-full", "face-sparse"])
def test_half_precision_and_sparse_weights(name: str) -> None:
    content = real_file(name).read_bytes()
    check(*both(content, _feeds(content)))


@pytest.mark.slow
def test_sound() -> None:
    """basic-pitch. It takes logarithms of a spectrum, where rounding grows: LiteRT's two sets of
    kernels are 1e-3 apart on a pure tone, so it is held against the one that users get."""
    content = real_file("basic-pitch").read_bytes()
    check(*both(content, _feeds(content), delegates=True))


@pytest.mark.slow
def test_hybrid_with_float_kernels() -> None:
    """fer's file, after LiteRT was given its weights as the numbers that they stand for."""
    content = real_file("fer").read_bytes()
    model = read(content, "fer")
    source = schema.ModelT.InitFromPackedBuf(content, 0)
    assert hybrid_operators(model) == 9
    make_float(source, model)
    rewritten = pack(source, "fer")
    feeds = _feeds(content)
    (wanted,), _ = both(rewritten, feeds)
    _, (found,) = both(content, feeds)
    check([wanted], [found])
    assert hybrid_operators(read(rewritten, "fer")) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["alexa", "okay-nabu"])
def test_integers_with_state(name: str) -> None:
    """Wake words: full-integer, with the state of their variables made explicit."""
    content = real_file(name).read_bytes()
    source = schema.ModelT.InitFromPackedBuf(content, 0)
    made = make_explicit(source, read(content, name), 0, [])
    assert not made.unsupported
    explicit = pack(source, name)
    check(*both(explicit, _feeds(explicit)))
    model = read(explicit, name)
    main = model.subgraphs[0]
    inputs = {f"in{k}": index for k, index in enumerate(main.inputs)}
    graph = import_model(model, 0, inputs, {"score": main.outputs[0]}).graph
    counts = Counter(node.op_type for node in graph)
    assert counts["QuantizeLinear"] and counts["DequantizeLinear"]
    assert {value.dtype.name for value in graph.inputs} == {"INT8"}
