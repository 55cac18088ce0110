"""What TensorFlow's converter writes: imported, it computes what LiteRT computes."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from parsers.tflite.reader import read
from tests.tflite.ops import make_models
from tests.tflite.ops.compare import both, check, imported

NAMES = [f"{name}-{mode}" for name, one in make_models.CASES.items() for mode in one.modes]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all of them, by one TensorFlow process."""
    return make_models.written(tmp_path_factory.mktemp("tflite_ops"))


@pytest.mark.parametrize("name", NAMES)
def test_equals_litert(files: Path, name: str) -> None:
    content = (files / f"{name}.tflite").read_bytes()
    with np.load(files / f"{name}.npz") as feeds:
        wanted, found = both(content, dict(feeds))
    if name.endswith("-dynamic"):
        check_hybrid(wanted, found)
    else:
        check(wanted, found)


def check_hybrid(wanted: list[np.ndarray], found: list[np.ndarray]) -> None:
    """LiteRT also rounds the activations to 8 bits, at every run anew; the imported graph
    doesn't, so they agree to that rounding."""
    for one, other in zip(wanted, found, strict=True):
        assert np.abs(one - other).max() < 0.02 * np.abs(one).max()
        assert np.any(one != other), "the file isn't hybrid"


def test_weights_stay_as_they_are_stored(files: Path) -> None:
    """Neither half-precision nor 8-bit weights are blown up to float32."""
    for name, ratio in (("hybrid-fp16", 0.6), ("hybrid-dynamic", 0.4), ("hybrid-int8", 0.4)):
        content = (files / f"{name}.tflite").read_bytes()
        whole = len(imported(read((files / "hybrid-float.tflite").read_bytes(), "float")))
        assert len(imported(read(content, name))) < ratio * whole, name


def test_a_transform_of_one_axis_is_one_dft(files: Path) -> None:
    """RFFT2D of one row, and of two axes."""
    made = imported(read((files / "spectrum-float.tflite").read_bytes(), "spectrum"))
    nodes = onnx.load_model_from_string(made).graph.node
    assert Counter(node.op_type for node in nodes)["DFT"] == 5  # three of rows, one of a plane


def test_integers_that_only_move_stay_integers(files: Path) -> None:
    """There are no more steps to and from real numbers than the file has itself."""
    model = read((files / "shapes-int8.tflite").read_bytes(), "shapes")
    written = Counter(operator.name for operator in model.subgraphs[0].operators)
    nodes = onnx.load_model_from_string(imported(model)).graph.node
    found = Counter(node.op_type for node in nodes)
    assert found["QuantizeLinear"] == written["QUANTIZE"]
    assert found["DequantizeLinear"] == written["DEQUANTIZE"]
    assert found["Reshape"] >= 3
