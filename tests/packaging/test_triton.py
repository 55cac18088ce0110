"""Triton's package on the real server: its test, its clients, the lines of its README."""

from __future__ import annotations

import json
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from converter.check.gates import Limits
from converter.check.shipping import Item, Shipped
from converter.ir.model import Model
from converter.protocols.server import Evidence, Packaged
from converter.runtime.ort import OrtSession
from converter.samples import Samples
from emitters.serving.triton.server import TritonServer as TritonPlugin
from tests.acceptance.cli import command, written
from tests.serving.models import adder, classifier, emit, identity, make_request, samples_for
from tests.serving.test_triton_live import CASES
from tests.triton.server import TritonServer

pytestmark = pytest.mark.slow

ALL = {**CASES, "bfloat16": (identity("bfloat16"), 8)}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    (folder / "repository").mkdir()
    return folder


@pytest.fixture(scope="module")
def server(workspace: Path) -> Iterator[TritonServer]:
    with TritonServer(workspace / "repository", "explicit") as running:
        yield running


def shipped(model: Model, path: Path, samples: Samples) -> Shipped:
    """The samples, with what ONNX Runtime gives of the artifact."""
    session = OrtSession(path)
    items = [Item(item.name, item.feeds, session.run(item.feeds)) for item in samples]
    session.close()
    return Shipped(tuple(items), Limits(0.9999), model.outputs, (), "ONNX Runtime", "", len(items))


def packed(model: Model, workspace: Path, name: str, **fields: Any) -> Packaged:
    """A folder in the repository, as a run packages it."""
    samples, request = samples_for(model, 3), make_request(name, **fields)
    artifact = emit(model, workspace / f"artifact-{name}", request)
    evidence = Evidence(shipped(model, artifact.path, samples))
    folder = workspace / "repository"
    return TritonPlugin().package(artifact, model, samples, request, folder, evidence)


def ran(package: Path, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A script of a package's, run from another folder."""
    line = [sys.executable, str(package / script), *options]
    return subprocess.run(line, cwd="/", text=True, capture_output=True, timeout=120, check=False)


@pytest.mark.parametrize("case", ALL)
def test_every_type_and_shape(case: str, workspace: Path, server: TritonServer) -> None:
    model, _ = ALL[case]
    path = packed(model, workspace, case).path
    server.load(case)
    done = ran(path, "selftest.py", "--url", f"http://{server.http_url}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{case}: 3 samples, against ONNX Runtime; ")
    for script, url in (
        ("client_requests.py", f"http://{server.http_url}"),
        ("client_grpc.py", server.grpc_url),
    ):
        asked = ran(path, script, "--url", url)
        assert asked.returncode == 0, asked.stderr
    server.unload(case)


def test_what_is_wrong_is_told(workspace: Path, server: TritonServer) -> None:
    """Another model's answers, a number that isn't the source's, a server that isn't there."""
    path = packed(classifier(), workspace, "wrong", warmup=0).path
    assert len(list((path / "warmup").iterdir())) == 3
    url = f"http://{server.http_url}"
    assert ran(path, "selftest.py", "--url", url, "--wait", "1").returncode == 2
    server.load("wrong")
    assert ran(path, "selftest.py", "--url", url).returncode == 0
    (file, *_) = sorted((path / "expected").iterdir())
    kept = file.read_bytes()
    np.save(file, np.load(file) + np.array([[0, 0, 9, 0]], np.float32))
    done = ran(path, "selftest.py", "--url", url)
    assert done.returncode == 1 and "MISSED scores: cosine" in done.stderr
    file.write_bytes(kept)
    other = emit(classifier(sign=-1), workspace / "other").path
    shutil.copyfile(other, path / "1" / "model.onnx")
    server.load("wrong")
    assert ran(path, "selftest.py", "--url", url).returncode == 1
    server.unload("wrong")


def test_curl_sends_the_first_sample(workspace: Path, server: TritonServer) -> None:
    path = packed(adder(("batch", 3, 4, 4)), workspace, "curled").path
    server.load("curled")
    readme = (path / "README.md").read_text().replace("localhost:8000", server.http_url)
    (line,) = re.findall(r"^curl --fail --output(?:[^\n]*\\\n)*[^\n]*", readme, re.M)
    subprocess.run(["sh", "-c", line], cwd=path, check=True, timeout=30)
    (file,) = (path / "warmup").glob("sample1-*")
    sent = np.frombuffer(file.read_bytes(), "<f4")
    answer = (path / "answer.bin").read_bytes()
    assert (sent + sent).astype("<f4").tobytes() in answer
    for verb in ("unload", "load"):
        (line,) = re.findall(rf"^curl \S+ -X POST \S+/{verb}$", readme, re.M)
        subprocess.run(line.split(), check=True, timeout=60)


def test_photos_and_tls(tmp_path: Path) -> None:
    """As users make it: of photos, converted and served; gRPC behind a certificate."""
    photos = tmp_path / "photos"
    photos.mkdir()
    rng = np.random.default_rng(5)
    for name in "abc":
        pixels = rng.integers(0, 256, (20, 24, 3), np.uint8)
        Image.fromarray(pixels).save(photos / f"{name}.png")
    text = """g (float[batch,3,12,10] image) => (float[batch,3] scores) <int64[2] shape = {-1, 3}> {
        means = GlobalAveragePool (image) s = Reshape (means, shape) scores = Softmax (s) }"""
    written(tmp_path / "net.onnx", text, 20)
    (tmp_path / "names.txt").write_text("red\ngreen\nblue\n")
    said = command(
        "convert", "net.onnx", "--serve", "triton", "--samples", "photos", "--label-names",
        "names.txt", "--image-mean", "0.5", "--no-bench", "--out", "out", cwd=tmp_path,
    )  # fmt: skip
    assert said.code == 0, said.err
    repository = tmp_path / "out/serving/triton"
    certificate, key = certified(tmp_path)
    secured = ("--grpc-use-ssl=1", f"--grpc-server-cert={certificate}", f"--grpc-server-key={key}")
    with TritonServer(repository, extra_args=secured) as server:
        path = repository / "net"
        done = ran(path, "selftest.py", "--url", f"http://{server.http_url}")
        assert done.returncode == 0, done.stderr
        photo = str(photos / "b.png")
        over_http = ran(path, "client_requests.py", "--url", f"http://{server.http_url}", photo)
        address = server.grpc_url.replace("127.0.0.1", "localhost")
        secure = ("--url", address, "--ca", str(certificate))
        over_grpc = ran(path, "client_grpc.py", *secure, photo)
        plain = ran(path, "client_grpc.py", "--url", address)
        own = ("client.py", "--protocol", "http", "--url", server.http_url)
        first, both = ran(path, *own, photo), ran(path, *own, photo, str(photos / "a.png"))
        none = [ran(path, *name, str(photos / "none.png"))
                for name in (own, ("client_requests.py",), ("client_grpc.py",))]  # fmt: skip
    assert first.returncode == 0 and "'red'" not in first.stdout, first.stderr
    shown = re.findall(r"  ([\d.]+)  \d  (red|green|blue)$", first.stdout, re.M)
    assert sum(float(share) for share, _ in shown) == pytest.approx(1, abs=1e-4)
    ranked = re.findall(r"'(red|green|blue)'", over_http.stdout)
    assert [name for _, name in shown] == ranked and both.stdout.startswith(first.stdout)
    assert both.stdout.count("FP32 [1, 3]") == 2
    for done in none:
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
        assert "No such file" in done.stderr
    assert over_http.returncode == 0, over_http.stderr
    assert over_http.stdout == over_grpc.stdout and "'red'" in over_http.stdout, over_grpc.stderr
    assert plain.returncode == 1 and plain.stderr.startswith("UNAVAILABLE: "), plain.stderr
    facts = json.loads((path / "modelyard.json").read_text())
    assert [item["name"] for item in facts["samples"]] == ["a.png", "b.png", "c.png"]


def certified(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine that nobody else trusts, and its key."""
    certificate, key = folder / "server.pem", folder / "server.key"
    line = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    line += ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
    line += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(line, check=True, capture_output=True)
    ssl.create_default_context(cafile=str(certificate))
    return certificate, key
