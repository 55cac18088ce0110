"""SavedModels of other sources: asked in TensorFlow by the source's names, and served."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from converter.errors import ModelError
from emitters.as_is.contents import contents_of
from tests.acceptance.cli import command
from tests.pytorch_emitter.models import model

NET = """net (float[batch,3,8,8] picture, int64[batch] second) =>
    (float[batch,4] y, int64[batch] z) {
  a = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(picture, w0)
  b = Relu(a)
  c = GlobalAveragePool(b)
  d = Flatten(c)
  y = Gemm<transB=1>(d, w1, w2)
  z = Add(second, second)
}"""

ASK = """
import runpy, sys, numpy as np, tensorflow as tf
loaded = tf.saved_model.load(sys.argv[1])
feeds = np.load(sys.argv[2])
ask = loaded.signatures["serving_default"]
found = ask(**{name: tf.constant(feeds[name]) for name in feeds})
np.savez(sys.argv[3], **{name: item.numpy() for name, item in found.items()})
print(sorted(loaded.signatures))
test = sys.argv[4]
sys.argv = [test]
runpy.run_path(test, run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.smoke
def test_a_model_of_another_source_is_served(tmp_path: Path) -> None:
    """The batch is free, and names are the source's."""
    if find_spec("tensorflow") is None:
        pytest.skip("tensorflow isn't installed")
    proto = model(NET, {"w0": (5, 3, 3, 3), "w1": (4, 5), "w2": (4,)})
    proto.graph.input[0].name = proto.graph.node[0].input[0] = "in.1"
    onnx.save(proto, tmp_path / "net.onnx")
    rng = np.random.default_rng(0)
    feeds = {
        "in.1": rng.random((5, 3, 8, 8), dtype=np.float32),
        "second": rng.integers(-(2**40), 2**40, 5),
    }
    np.savez(tmp_path / "feeds.npz", **feeds)
    out = tmp_path / "out"
    command(
        "convert", tmp_path / "net.onnx", "--to", "savedmodel", "--serve", "tfserving",
        "--no-bench", "--samples", tmp_path / "feeds.npz", "--out", out, code=0,
    )  # fmt: skip
    package = out / "serving" / "tfserving" / "net"
    assert (package / "1" / "assets.extra" / "tf_serving_warmup_requests").stat().st_size
    written = out / "savedmodel" / "fp32" / "model.savedmodel"
    files = (package / "1", tmp_path / "feeds.npz", tmp_path / "y.npz")
    asked = [sys.executable, "-c", ASK, *files, written.with_name("selftest.py")]
    said = subprocess.run(list(map(str, asked)), capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    lines = said.stdout.splitlines()
    assert lines[0] == "['serving_default']" and lines[-1] == "ok"
    wanted = ReferenceEvaluator(proto).run(None, feeds)
    with np.load(tmp_path / "y.npz") as found:
        np.testing.assert_allclose(found["y"], wanted[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found["z"], wanted[1])
    found = contents_of(written)
    weights = (5 * 27 + 20 + 4) * 4
    assert weights <= found.stored["float32"] < weights + 64
    assert [item.op for item in found.products] == ["Conv2D", "MatMul"]
    assert {item.computes for item in found.products} == {"float32"}
    facts = json.loads((written.parent / "modelyard.json").read_text())
    assert facts["artifact"] == "model.savedmodel" and facts["requires"][0] == "tensorflow"


def test_what_it_can_not_take_is_told_with_why(tmp_path: Path) -> None:
    text = """net (float[n] x, bool t) => (float[n] y) {
      y = If(t)<then_branch = a () => (float[n] p) { p = Neg(x) },
                else_branch = b () => (float[n] q) { q = Abs(x) }>
    }"""
    onnx.save(model(text, {}), tmp_path / "net.onnx")
    line = ("convert", tmp_path / "net.onnx", "--to", "savedmodel", "--out", tmp_path / "out")
    said = command(*line, code=3).err
    assert "savedmodel can't take" in said and "there is no code for If" in said
    said = command(*line, "--precision", "int8", code=2).err
    assert "the layers that it is traced from compute in floats" in said


def test_a_damaged_file_is_no_bug(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"\x12\xff\x01abc")
    assert contents_of(tmp_path).stored == {}
    (tmp_path / "saved_model.pb").write_bytes(b"\x0b\x00")
    with pytest.raises(ModelError, match="damaged"):
        contents_of(tmp_path)
