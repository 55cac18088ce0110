"""Random graphs in float16, with random nodes kept: valid, close, no Cast undone by the next."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bench.precision_checks import pairs
from converter.ort import OrtSession
from converter.passes.naming import name_nodes, name_values
from converter.quantize import half_border
from converter.quantize.half import to_half
from tests.passes.random_graphs import RandomGraph
from tests.quantize.measured import measured_on


@pytest.mark.parametrize("io_dtype", ["float32", "float16"])
@pytest.mark.parametrize("free_casts", [False, True])
def test_random_graphs(io_dtype: str, free_casts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if free_casts:  # so that only the nodes that were asked for stay
        monkeypatch.setattr(half_border, "CAST_BYTES", 0)
        monkeypatch.setattr(half_border, "CAST_ALONE", 0)
    for seed in range(15):
        graph, rng = RandomGraph(seed), np.random.default_rng(seed)
        model = graph.model()
        name_nodes(model.graph)
        name_values(model.graph)
        every = {k: rng.standard_normal(v).astype(np.float32) for k, v in graph.inputs.items()}
        feeds = {spec.name: every[spec.name] for spec in model.inputs}
        names = [node.name or "" for node in model.nodes()]
        keep = set(rng.choice(names, size=3, replace=False))
        ranges = measured_on(model, feeds)
        made = to_half(model, ranges, keep=keep, io_dtype=io_dtype)  # type: ignore[arg-type]
        onnx.checker.check_model(made.model.to_proto(), full_check=True)
        assert not pairs(made.model), seed
        given = {name: array.astype(io_dtype) for name, array in feeds.items()}
        found = OrtSession(made.model.graph, plain=True).run(given)
        for name, expected in OrtSession(model.graph, plain=True).run(feeds).items():
            assert found[name].dtype == io_dtype
            limit = 0.02 * max(float(abs(expected).max(initial=0)), 1e-3)
            np.testing.assert_allclose(found[name], expected, rtol=0.02, atol=limit)
