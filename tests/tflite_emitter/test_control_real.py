"""Silero VAD, whose If nodes are nested three deep, through TFLite's IF."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir
import pytest

from tests.passes.real import real_model
from tests.tflite_emitter.running import agree, kinds, lowered, numbers

LENGTH = 288
"""Samples that both of its halves take: for 16 kHz and for 8 kHz."""


@pytest.mark.parametrize("name", ["silero", "silero-op15"])
def test_silero_at_both_rates(tmp_path: Path, name: str) -> None:
    """Batch stays free; the inner Ifs follow from sizes and are gone."""
    model = real_model(name)
    for value in model.graph.graph.inputs:
        if value.name == "input":
            value.shape = onnx_ir.Shape(["batch", LENGTH])
        elif value.name == "state":
            value.shape = onnx_ir.Shape([2, "batch", 128])
    made = lowered(model)
    assert sum(operator.op == "IF" for g in made.model.subgraphs for operator in g.operators) <= 1
    assert kinds(model).count("IF") == (name == "silero")
    for rate in (16000, 8000):
        feeds = {
            "input": numbers(2, LENGTH) / 2,
            "state": numbers(2, 2, 128, seed=1),
            "sr": np.asarray(rate, np.int64),
        }
        agree(model, feeds, tmp_path)
