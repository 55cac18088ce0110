"""The fusing passes on what PyTorch exports, each result verified."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from converter import plugins
from converter.ir import Model
from converter.passes.base import ModelPass
from converter.passes.clamp_masks import ClampMasks
from converter.passes.fuse_activation import FuseActivation
from converter.passes.fuse_convolution import FuseConvolution
from converter.passes.fuse_normalization import FuseNormalization
from converter.passes.fuse_padding import FusePadding
from converter.passes.fuse_shapes import FuseShapes
from converter.plan import IMPORT_PASSES
from converter.verify import Verifier, build_probes
from tests.passes.models import ListedSamples, noise, ops, run

LAYERS = {
    "layer-norm": {"LayerNormalization": 1},
    "layer-norm-plain": {"LayerNormalization": 1},
    "rms-norm": {"Mul": 2, "ReduceMean": 1, "Add": 1, "Sqrt": 1, "Div": 1},
    "gelu": {"Gelu": 1},
    "gelu-tanh": {"Gelu": 1},
    "hardswish": {"HardSwish": 1},
    "hardsigmoid": {"HardSigmoid": 1},
    "mish": {"Mish": 1},
    "silu": {"Sigmoid": 1, "Mul": 1},
    "conv": {"Conv": 1, "HardSwish": 1, "ConvTranspose": 1},
    "conv-dynamo": {"Conv": 1, "HardSwish": 1, "ConvTranspose": 1},
    "conv-mish": {"Conv": 1, "Mish": 1, "ConvTranspose": 1},
}


BEFORE = ("cleanup", "transposes", "ort-basic", "onnxscript")
"""What computes constants ahead, before anything is fused."""


def fusing() -> list[ModelPass]:
    """The passes in the order in which they are meant to run."""
    return [FuseShapes(), FusePadding(), FuseActivation(), FuseNormalization(), FuseConvolution()]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports")
    script = Path(__file__).with_name("exports.py")
    subprocess.run([sys.executable, "-W", "ignore", script, folder], check=True, timeout=300)
    return folder


def imported(model: Model) -> Model:
    """The model as the fusing passes get it."""
    model = model.copy()
    for name in (*IMPORT_PASSES, *BEFORE):
        plugins.load("passes", name)(model.graph)
    return model


def verified(model: Model, passes: list[ModelPass]) -> Model:
    """The model after the passes, held against the one before as the pipeline does it."""
    samples = ListedSamples([noise(model, seed=seed, batch=1) for seed in range(2)])
    after = model.copy()
    for step in passes:
        step(after.graph)
    verdict = Verifier(model, build_probes(model, samples, {})).compare(after)
    assert verdict.ok, verdict.reason
    return after


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_layers(exported: Path, name: str) -> None:
    model = imported(Model.load(exported / f"{name}.onnx"))
    after = verified(model, fusing())
    counts = Counter(ops(after))
    counts.subtract({"Tanh": 1, "Sub": 1})  # what stands before each layer
    assert {op: count for op, count in counts.items() if count} == LAYERS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "attention-dynamo", "attention-1e9"])
def test_attention(exported: Path, name: str) -> None:
    """The scale is in the weights, nothing is computed of shapes, the mask fits into float16."""
    model = imported(Model.load(exported / f"{name}.onnx"))
    after = verified(model, fusing())
    counts = ops(after)
    assert (counts["MatMul"], counts["Transpose"], counts["Softmax"]) == (5, 4, 1)
    assert not counts.keys() & {"Div", "Shape", "Concat"} and counts["Mul"] == 1
    clamped = verified(after, [ClampMasks()])
    large = [
        value.name
        for value in clamped.graph.graph.initializers.values()
        if value.const_value is not None and value.dtype is not None
        if value.dtype.is_floating_point() and np.abs(value.const_value.numpy()).max() > 65504
    ]
    assert ops(clamped)["Where"] == 1 and not large
    feeds = {"x": np.full((1, 6, 16), -1.0, np.float32)}  # every place is hidden
    np.testing.assert_allclose(run(clamped, feeds)["y"], run(model, feeds)["y"], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["encoder", "encoder-dynamo"])
def test_an_encoder_layer(exported: Path, name: str) -> None:
    model = imported(Model.load(exported / f"{name}.onnx"))
    after = verified(model, fusing())
    counts = ops(after)
    assert (counts["LayerNormalization"], counts["Gelu"], counts["Softmax"]) == (2, 1, 1)
    assert not counts.keys() & {"Erf", "ReduceMean", "Pow"}
