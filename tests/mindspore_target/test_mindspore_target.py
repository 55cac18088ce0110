"""The MindSpore target, by the converter and the runtime of mindspore-lite 2.0.0, and its packages
on MindSpore Serving 2.0.2: each in an environment of Python 3.7, made once."""

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from converter.errors import UnsupportedError
from converter.ir.model import Model
from converter.options.recipe import make_request
from emitters.mindspore.emitter import MindsporeEmitter
from tests.acceptance.cli import command, small_cnn, tree, written
from tests.foreign.environments import NoSuchPython, bare, provide
from tests.passes.models import run, text_model

pytestmark = pytest.mark.slow

FREE = """g (float[batch,3,12,10] image) => (float[batch,3] scores) <int64[2] shape = {-1, 3}> {
    h = Relu(image) means = GlobalAveragePool(h) s = Reshape(means, shape) scores = Softmax(s) }"""


@functools.cache
def _python(environment: str) -> Path:
    """The Python of an environment of Python 3.7, which no longer comes with CI's machines."""
    try:
        return provide(environment, "3.7")
    except NoSuchPython as error:
        pytest.skip(str(error))


def lite() -> Path:
    """The Python that has mindspore-lite."""
    return _python("mindspore")


def _ran(*line: str | Path, code: int = 0) -> str:
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.smoke
def test_packed_and_the_same_twice(tmp_path: Path) -> None:
    line: list[str | Path] = ["convert", small_cnn(tmp_path / "cnn.onnx"), "--to", "mindspore"]
    line += ["--mindspore-python", lite(), "--precision", "fp32,fp16", "--no-cache"]
    command(*line, "--batch", "2", "--bench-seconds", "0.1", "--out", tmp_path / "one", code=0)
    command(*line, "--batch", "2", "--no-bench", "--out", tmp_path / "two", code=0)
    text = (tmp_path / "one" / "report.json").read_text()
    assert "its sizes are fixed" in text and "no release" in text
    report = json.loads(text)
    full, half = report["artifacts"]
    assert full["runtime"]["name"] == "mindspore-lite" and full["runtime"]["version"] == "2.0.0"
    assert full["computes"] == {"float32": 1.0} and half["stored_share"] == 1.0
    for precision in ("fp32", "fp16"):
        package = tmp_path / "one" / "mindspore" / precision
        assert tree(package) == tree(tmp_path / "two" / "mindspore" / precision)
        said = _ran(sys.executable, package / "selftest.py", "--python", lite())
        assert said.rstrip().endswith("ok")
        assert all(str(tmp_path).encode() not in data for data in tree(package).values())
        assert json.loads(_ran(lite(), package / "usage.py")) == [
            ["image", "float32", [2, 3, 16, 16]]
        ]
    expected = next((package / "expected").iterdir())
    np.save(expected, -np.load(expected))
    _ran(sys.executable, package / "selftest.py", "--python", lite(), code=1)
    model = tmp_path / "two" / "mindspore" / "fp32" / "model.mindir"
    line = ["check", model, "--against", tmp_path / "cnn.onnx", "--batch", "2"]
    command(*line, "--mindspore-python", lite().parents[1], code=0)


def test_what_is_refused_and_how(tmp_path: Path) -> None:
    path = small_cnn(tmp_path / "cnn.onnx")
    line: list[str | Path] = ["convert", path, "--to", "mindspore", "--out", tmp_path / "out"]
    said = command(*line, "--mindspore-python", lite(), code=3)
    assert "its size batch is free" in said.err and "--batch 1" in said.err
    said = command(*line, "--batch", "1", code=5)
    assert "pip install mindspore-lite==2.0.0" in said.err
    nothing = bare(tmp_path / "bare", "3.12")
    said = command(*line, "--batch", "1", "--mindspore-python", nothing, code=5)
    assert "No module named 'mindspore_lite'" in said.err
    said = command(*line, "--precision", "int8", "--mindspore-python", lite(), code=2)
    assert "its own quantization" in said.err
    assert not (tmp_path / "out").exists()


# -- what the reader of ONNX has otherwise ----------------------------------------------------

REQUEST = make_request({"source": "m.onnx", "to": ["mindspore"]})
BLOCK = """m (int64[1,6] ids, float[1,1,1,6] mask) => (float[1,6,16] y)
    <int64[4] s = {1,6,2,8}, int64[3] t = {1,6,16}, float c = {0.353}> {
    e = Gather(w, ids) q0 = MatMul(e, wq) k0 = MatMul(e, wk) v0 = MatMul(e, wv)
    q1 = Reshape(q0, s) k1 = Reshape(k0, s) v1 = Reshape(v0, s)
    q = Transpose<perm = [0, 2, 1, 3]>(q1) k = Transpose<perm = [0, 2, 3, 1]>(k1)
    v = Transpose<perm = [0, 2, 1, 3]>(v1) a = MatMul(q, k) b = Mul(a, c) d = Add(b, mask)
    p = Softmax<axis = -1>(d) o = MatMul(p, v) o1 = Transpose<perm = [0, 2, 1, 3]>(o)
    o2 = Reshape(o1, t) r = Add(o2, e) n = LayerNormalization(r, g, h) y = Gelu(n) }"""
FEEDS = np.random.default_rng(0).standard_normal((1, 2, 4, 6)).astype(np.float32)


@pytest.mark.parametrize("body", [
    "<int64[2] a = {2, 3}> { y = ReduceMean(x, a) }",
    "<int64[1] a = {3}> { n = Abs(x) m = Neg(n) y = ReduceMax(m, a) }",
    "{ y = Elu<alpha = 0.5>(x) }",
    "{ y = HardSigmoid<alpha = 0.3>(x) }",
    "<float low = {-0.5}> { y = Clip(x, low) }",
    "<int64[2] s = {1, 5}> { a, b = Split<axis = 3>(x, s) c = Exp(a) y = Concat<axis = 3>(b, c) }",
    "{ y = Gelu(x) }",
    "<float[6] s = {1, 2, 3, 4, 5, 6}> { y = LayerNormalization<axis = -1>(x, s) }",
    "{ y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1>(x) }",
    "<int64[2] a = {0, 5}> { u = Unsqueeze(x, a) y = Squeeze(u, a) }",
    '<float[0] roi = {}, float[4] s = {1, 1, 2, 2}> { y = Resize<mode = "linear">(x, roi, s) }',
])  # fmt: skip
def test_computes_what_onnx_says(body: str, tmp_path: Path) -> None:
    model = text_model(f"m (float[1,2,4,6] x) => (float[a,b,c,d] y) {body}")
    _compare(model, {"x": FEEDS}, tmp_path)


def test_a_block_of_a_transformer(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = {"w": (20, 16), "wq": (16, 16), "wk": (16, 16), "wv": (16, 16), "g": (16,), "h": (16,)}
    weights = {n: rng.standard_normal(s).astype(np.float32) / 4 for n, s in shapes.items()}
    feeds = {"ids": np.array([[1, 5, 7, 0, 19, 3]]), "mask": np.zeros((1, 1, 1, 6), np.float32)}
    feeds["mask"][..., 4:] = -1e4
    _compare(text_model(BLOCK, **weights), feeds, tmp_path)


def _compare(model: Model, feeds: dict[str, Any], tmp_path: Path) -> None:
    REQUEST.plugin_options["mindspore_python"] = str(lite())
    assert not MindsporeEmitter().unsupported(model, REQUEST)
    session = MindsporeEmitter().open(
        MindsporeEmitter().emit(model, tmp_path, "fp32", REQUEST), REQUEST
    )
    try:
        found = session.run(feeds)["y"]
    finally:
        session.close()
    wanted = run(model, feeds)["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert found.shape == wanted.shape


@pytest.mark.parametrize(("node", "says"), [
    ("Sign(x)", "Sign (n): it wasn't seen to work in MindSpore Lite"),
    ("AveragePool<kernel_shape = [2, 2], dilations = [2, 2]>(x)",
     "AveragePool (n): MindSpore Lite's converter refuses it"),
])  # fmt: skip
def test_operators_that_it_lacks_are_named(node: str, says: str, tmp_path: Path) -> None:
    REQUEST.plugin_options["mindspore_python"] = str(lite())
    model = text_model(f"m (float[1,2,4,6] x) => (float[1,2,a,b] y) {{ [n] y = {node} }}")
    with pytest.raises(UnsupportedError) as refused:
        MindsporeEmitter().emit(model, tmp_path, "fp32", REQUEST)
    assert says in str(refused.value)
    assert not [*tmp_path.iterdir()]


# -- MindSpore Serving ------------------------------------------------------------------------


@contextmanager
def _served(package: Path, python: Path) -> Iterator[tuple[int, int]]:
    """The package's server; its ports by gRPC and REST."""
    with socket.socket() as one, socket.socket() as other:
        for item in (one, other):
            item.bind(("127.0.0.1", 0))
        ports = one.getsockname()[1], other.getsockname()[1]
    line = [python, package / "serving_server.py", "--grpc-port", ports[0], "--http-port", ports[1]]
    with (
        (package.parent / "server.log").open("w") as log,
        subprocess.Popen(
            [*map(str, line)],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(package.parent)},
        ) as process,
    ):
        try:
            until = time.monotonic() + 120
            while "RESTful server start success" not in (package.parent / "server.log").read_text():
                assert process.poll() is None and time.monotonic() < until
                time.sleep(0.2)
            yield ports
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _posted(port: int, method: str, instances: list[Any]) -> list[Any]:
    url = f"http://127.0.0.1:{port}/model/{method}"
    body = json.dumps({"instances": instances}).encode()
    with urllib.request.urlopen(url, body, timeout=60) as answer:
        found: list[Any] = json.loads(answer.read())["instances"]
    return found


@pytest.mark.parametrize("batch", [1, 4])
def test_mindspore_serving_answers_as_the_source(batch: int, tmp_path: Path) -> None:
    """Over gRPC by the package's client, and over REST; a picture's file by its stages."""
    python = _python("mindspore_serving")
    (tmp_path / "photos").mkdir()
    rng = np.random.default_rng(5)
    for name in "abcd":
        pixels = rng.integers(0, 256, (12, 10, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{name}.png")
    written(tmp_path / "net.onnx", FREE, 20)
    (tmp_path / "names.txt").write_text("red\ngreen\nblue\n")
    line = ["convert", "net.onnx", "--to", "mindspore", "--serve", "mindspore-serving,modelbox"]
    line += ["--samples", "photos", "--label-names", "names.txt", "--image-mean", "0.5"]
    line += ["--mindspore-python", str(lite()), "--batch", str(batch), "--no-bench", "--out", "out"]
    command(*line, cwd=tmp_path, code=0)
    package = tmp_path / "out/serving/mindspore-serving/net"
    said = _ran(sys.executable, package / "selftest.py", "--python", lite())
    assert said.rstrip().endswith("ok")
    facts = json.loads((package / "modelyard.json").read_text())
    feeds, expected = (
        np.load(package / next(iter(facts["samples"][0][side].values()))["file"])
        for side in ("feeds", "expected")
    )
    with _served(package, python) as (rpc, rest):
        lines = _ran(python, package / "serving_client.py", f"127.0.0.1:{rpc}").splitlines()
        assert len(lines) == len(facts["samples"])
        assert all(float(told.split()[-1]) < 1e-5 for told in lines), lines
        rows = feeds if batch > 1 else [feeds]
        found = _posted(rest, "net:predict", [{"image": row.tolist()} for row in rows])
        answers = np.array([item["scores"] for item in found]).reshape(expected.shape)
        np.testing.assert_allclose(answers, expected, atol=1e-5)
        if batch == 1:
            photo = [*(tmp_path / "photos" / "a.png").read_bytes()]
            (best,) = _posted(rest, "net:classify", [{"photo": photo}])
            index = int(np.argmax(expected))
            assert best["best"] == ["red", "green", "blue"][index]
            assert best["value"] == pytest.approx(expected[0, index], abs=1e-5)
    assert not (package / "serving_logs").exists()
    infer = tmp_path / "out/serving/modelbox/net/flowunit/net_infer/net_infer.toml"
    assert f"multi_batch_in_buffer = {'true' if batch == 1 else 'false'}" in infer.read_text()
