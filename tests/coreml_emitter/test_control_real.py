"""Silero VAD, whose If nodes are nested three deep, through MIL's cond."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir
import pytest

from tests.coreml_emitter.running import agree, kinds, numbers
from tests.passes.real import real_model

LENGTH = 288
"""Samples that both of its halves take: for 16 kHz and for 8 kHz."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["silero", "silero-op15"])
def test_silero_at_both_rates(name: str, tmp_path: Path) -> None:
    """Batch stays free; the inner Ifs follow from sizes and are gone."""
    model = real_model(name)
    for value in model.graph.graph.inputs:
        if value.name == "input":
            value.shape = onnx_ir.Shape(["batch", LENGTH])
        elif value.name == "state":
            value.shape = onnx_ir.Shape([2, "batch", 128])
    feeds = [
        {
            "input": numbers(batch, LENGTH) / 2,
            "state": numbers(2, batch, 128, seed=1),
            "sr": np.asarray(rate, np.int64),
        }
        for rate, batch in ((16000, 2), (8000, 3))
    ]
    agree(model, feeds, tmp_path)
    assert kinds(tmp_path / "model.mlpackage").count("cond") == (name == "silero")


@pytest.mark.slow
def test_silero_of_a_free_length(tmp_path: Path) -> None:
    """Its LSTM only takes what a squeeze gives, so each rate has one length: others fail in the
    model itself."""
    feeds = [
        {
            "input": numbers(batch, length) / 2,
            "state": numbers(2, batch, 128, seed=1),
            "sr": np.asarray(rate, np.int64),
        }
        for rate, length, batch in ((16000, 576, 2), (8000, 288, 1))
    ]
    agree(real_model("silero"), feeds, tmp_path)
