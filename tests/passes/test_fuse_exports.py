"""The fusing passes on what PyTorch exports, each result verified."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from converter import plugins
from converter.ir.model import Model
from converter.passes.order import IMPORT_PASSES, SIMPLIFY_PASSES
from converter.verify import Verifier, build_probes
from tests.passes.models import ListedSamples, noise, ops, run
from tests.passes.test_clamp_masks import survives

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


FUSING = tuple(name for name in SIMPLIFY_PASSES if name.startswith("fuse-"))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports")
    script = Path(__file__).with_name("exports.py")
    subprocess.run([sys.executable, "-W", "ignore", script, folder], check=True, timeout=300)
    return folder


def imported(path: Path) -> Model:
    """The model as the fusing passes get it."""
    model = Model.load(path)
    for name in (*IMPORT_PASSES, *BEFORE):
        plugins.load("passes", name)(model.graph)
    return model


def verified(model: Model, *passes: str) -> Model:
    """The model after the passes, held against the one before as the pipeline does it."""
    samples = ListedSamples([noise(model, seed=seed, batch=1) for seed in range(2)])
    after = model.copy()
    for name in passes:
        plugins.load("passes", name)(after.graph)
    verdict = Verifier(model, build_probes(model, samples, {})).compare(after)
    assert verdict.ok, verdict.reason
    return after


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_layers(exported: Path, name: str) -> None:
    counts = ops(verified(imported(exported / f"{name}.onnx"), *FUSING))
    counts.subtract({"Tanh": 1, "Sub": 1})  # what stands before each layer
    assert {op: count for op, count in counts.items() if count} == LAYERS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "attention-dynamo", "attention-1e9"])
def test_attention(exported: Path, name: str) -> None:
    """The scale is in the weights, nothing is computed of shapes, the mask fits into float16."""
    model = imported(exported / f"{name}.onnx")
    after = verified(model, *FUSING)
    counts = ops(after)
    assert (counts["MatMul"], counts["Transpose"], counts["Softmax"]) == (5, 4, 1)
    assert not counts.keys() & {"Div", "Shape", "Concat"} and counts["Mul"] == 1
    clamped = verified(after, "clamp-masks")
    assert ops(clamped)["Where"] == 1 and survives(clamped)
    feeds = {"x": np.full((1, 6, 16), -1.0, np.float32)}  # every place is hidden
    np.testing.assert_allclose(run(clamped, feeds)["y"], run(model, feeds)["y"], atol=1e-5)


@pytest.mark.slow
def test_attention_that_masks_nothing(exported: Path) -> None:
    """No mask, no guard against NaN, and the keys keep their heads apart."""
    counts = ops(verified(imported(exported / "unmasked-dynamo.onnx"), *FUSING))
    assert not counts.keys() & {"IsNaN", "Where", "Expand", "Shape", "Concat"}
    assert (counts["MatMul"], counts["Softmax"], counts["Transpose"]) == (5, 1, 5)


@pytest.mark.slow
def test_causal_attention(exported: Path) -> None:
    """The mask stays, and no guard against NaN: each place sees itself."""
    model = imported(exported / "causal-dynamo.onnx")
    assert ops(model)["IsNaN"] == ops(model)["Where"] == 1
    counts = ops(verified(model, *FUSING))
    assert not counts.keys() & {"IsNaN", "Where"}
    assert (counts["MatMul"], counts["Softmax"], counts["Transpose"]) == (5, 1, 5)


@pytest.mark.slow
def test_places_that_are_written_over(exported: Path) -> None:
    """PyTorch's rows, which it computes, in Transposes."""
    model = Model.load(exported / "written-dynamo.onnx")
    for name in IMPORT_PASSES:
        plugins.load("passes", name)(model.graph)
    assert ops(model)["ScatterND"] > 2
    counts = ops(verified(model, "cleanup"))
    assert (counts["Concat"], counts["Slice"], counts["Add"]) == (2, 4, 1)
    assert not counts.keys() & {"ScatterND", "Transpose", "Range", "Shape"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["encoder", "encoder-dynamo"])
def test_an_encoder_layer(exported: Path, name: str) -> None:
    counts = ops(verified(imported(exported / f"{name}.onnx"), *FUSING))
    assert (counts["LayerNormalization"], counts["Gelu"], counts["Softmax"]) == (2, 1, 1)
    assert not counts.keys() & {"Erf", "ReduceMean", "Pow"}
