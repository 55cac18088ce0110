"""Random graphs in float16, with random nodes kept: valid, close, no Cast undone by the next."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import pytest

from bench.precision_checks import pairs
from converter.ir import Model
from converter.ort import OrtSession
from converter.passes.naming import name_nodes, name_values
from converter.quantize import half_border
from converter.quantize.half import to_half
from tests.fuzz.case import difference
from tests.fuzz.generate import generate
from tests.quantize.minmax_limits import measured_on

COARSER = 2.0**13
"""Than float32's are float16's last places."""


@pytest.mark.parametrize("io_dtype", ["float32", "float16"])
@pytest.mark.parametrize("free_casts", [False, True])
def test_random_graphs(io_dtype: str, free_casts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if free_casts:  # so that only the nodes that were asked for stay
        monkeypatch.setattr(half_border, "CAST_BYTES", 0)
        monkeypatch.setattr(half_border, "CAST_ALONE", 0)
    for seed in range(15):
        case, rng = generate(seed, transposes=0.2), np.random.default_rng(seed)
        expected, feeds = case.expected(), dict(case.feeds[0])
        model = Model(onnx_ir.from_proto(onnx.shape_inference.infer_shapes(case.proto)))
        name_nodes(model.graph)
        name_values(model.graph)
        names = [node.name or "" for node in model.nodes()]
        keep = set(rng.choice(names, size=3, replace=False))
        ranges = measured_on(model, feeds)
        made = to_half(model, ranges, keep=keep, io_dtype=io_dtype)  # type: ignore[arg-type]
        onnx.checker.check_model(made.model.to_proto(), full_check=True)
        assert set(pairs(made.model)) <= set(pairs(model)), seed
        given = {k: v.astype(io_dtype) if v.dtype == np.float32 else v for k, v in feeds.items()}
        found = OrtSession(made.model.graph, plain=True).run(given)
        for name, value in expected.items():
            if value.kind == "float32":
                assert found[name].dtype == io_dtype
                back = found[name].astype(np.float32)
                assert not difference(name, value, 0, back, COARSER), seed
