"""Silero VAD, whose If nodes are nested three deep, through TFLite's IF and MIL's cond."""

from pathlib import Path

import numpy as np
import onnx_ir
import pytest

from converter.ir.model import Model
from tests.coreml_emitter import running as coreml
from tests.operators.cases import Array, numbers
from tests.passes.real import real_model
from tests.tflite_emitter import running as tflite

LENGTH = 288
"""Samples that both of its halves take: for 16 kHz and for 8 kHz."""


def _silero(name: str) -> Model:
    model = real_model(name)
    for value in model.graph.graph.inputs:
        if value.name == "input":
            value.shape = onnx_ir.Shape(["batch", LENGTH])
        elif value.name == "state":
            value.shape = onnx_ir.Shape([2, "batch", 128])
    return model


def _feeds(rate: int, batch: int, length: int = LENGTH) -> dict[str, Array]:
    state = numbers(2, batch, 128, seed=1)
    return {"input": numbers(batch, length) / 2, "state": state, "sr": np.asarray(rate, np.int64)}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["tflite", "coreml"])
@pytest.mark.parametrize("name", ["silero", "silero-op15"])
def test_at_both_rates(tmp_path: Path, name: str, target: str) -> None:
    """Batch stays free; the inner Ifs follow from sizes and are gone."""
    model, feeds = _silero(name), [_feeds(16000, 2), _feeds(8000, 3)]
    if target == "tflite":
        graphs = tflite.lowered(model).model.subgraphs
        assert [op.op for g in graphs for op in g.operators].count("IF") == (name == "silero")
        for fed in feeds:
            tflite.agree(model, fed, tmp_path)
    else:
        coreml.agree(model, feeds, tmp_path)
        assert coreml.kinds(tmp_path / "model.mlpackage").count("cond") == (name == "silero")


@pytest.mark.slow
def test_of_a_free_length() -> None:
    """Its LSTM only takes what a squeeze gives, so each rate has one length: others fail in the
    model itself."""
    feeds = [_feeds(16000, 2, 576), _feeds(8000, 1, 288)]
    coreml.agree(real_model("silero"), feeds)
