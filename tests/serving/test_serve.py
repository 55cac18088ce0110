"""``modelyard serve`` with the real Triton; check and bench ask it over the wire."""

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import psutil
import pytest

from converter import api
from converter.commands.serve import Served, find_package
from converter.errors import GateError, ModelError, UsageError
from converter.serving.http import Connection, message
from converter.serving.observed import Observed
from tests.acceptance.cli import COMMAND, command, converted_cnn, small_cnn
from tests.packaging.test_triton import ALL, certified, packed
from tests.serving.probes import assert_probes_answer

MODEL = "cnn"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier, its samples, and a package of it in ``out``."""
    return converted_cnn(tmp_path_factory.mktemp("serve"), "--serve triton --max-batch 8 --out out")


@pytest.fixture(scope="module")
def served(made: Path) -> Iterator[Served]:
    with api.serve(str(made / "out"), port=0) as running:
        yield running


def address(served: Served, protocol: str) -> tuple[str, str | None]:
    """The address to ask at, and the protocol where the address doesn't say it."""
    known = "grpc" if protocol == "grpc" else "v2"
    return served.addresses[known], None if protocol == "grpc" else protocol


# -- check ---------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["v2", "v2-json", "grpc"])
def test_a_server_is_held_to_the_gates(made: Path, served: Served, protocol: str) -> None:
    url, known = address(served, protocol)
    options = {"samples": str(made / "samples.npz")}
    source = str(made / f"{MODEL}.onnx")
    checked = api.check_server(source, url, protocol=known, **options)
    assert checked.verdict == "passed"
    other = small_cnn(made / "other.onnx", channels=4)
    with pytest.raises(GateError, match="missed"):
        api.check_server(str(other), url, protocol=known, **options)


def test_a_package_brings_what_is_sent_and_expected(
    made: Path, served: Served, tmp_path: Path
) -> None:
    url = re.sub(r"/v2/models.*", "", served.addresses["v2"])
    said = command("check", made / "out", "--server", url, "--json", code=0)
    assert said.json["verdict"] == "passed" and "of the package" in said.json["based_on"]
    command("bench", made / "out", "--server", url, "--requests", "20", code=0)
    package = shutil.copytree(served.folder, tmp_path / MODEL)
    (file, *_) = sorted((package / "expected").glob("*.npy"))
    np.save(file, -np.load(file))
    assert "cosine" in command("check", package, "--server", url, code=4).err
    file.unlink()
    assert "since it was written" in command("check", package, "--server", url, code=3).err


@pytest.mark.parametrize("asking", ["check", "bench"])
def test_of_several_packages_one_has_to_be_named(made: Path, tmp_path: Path, asking: str) -> None:
    package = find_package(str(made / "out"))[1]
    both = [shutil.copytree(package, tmp_path / name / MODEL) for name in ("fp32", "int8")]
    said = " ".join(command(asking, tmp_path, "--server", "http://127.0.0.1:9", code=2).err.split())
    assert f"{tmp_path} holds 2 packages" in said
    assert f"Name one: {both[0]}, {both[1]}." in said


def test_the_parts_of_an_output_are_served_together(tmp_path: Path) -> None:
    """Each is asked and checked; a server that takes one of them has a package for each."""
    for name, channels in (("one", 4), ("two", 8)):
        small_cnn(tmp_path / f"{name}.onnx", channels=channels)
    parts = {"one": str(tmp_path / "one.onnx"), "two": str(tmp_path / "two.onnx")}
    made = api.convert(parts, to=["onnx"], serve=["triton", "litserve"], samples="random:4",
                       bench=False, out=str(tmp_path / "out"))  # fmt: skip
    assert made.report is not None
    said = {(item.part, item.path): item.decisions for item in made.report.packages}
    assert "a package holds one model: each part has its own" in said["two", "serving/litserve/two"]
    with pytest.raises(UsageError, match="4 packages"):
        find_package(str(tmp_path / "out"))
    with api.serve(str(tmp_path / "out/serving/triton"), port=0) as served:
        assert {*served.addresses} == {"one grpc", "one v2", "two grpc", "two v2", "metrics"}
        place = re.sub(r"/v2/models.*", "", served.addresses["one v2"])
        both = command(
            "check", tmp_path / "out/serving/triton", "--server", place, "--json", code=0
        )
        assert [Path(item["package"]).name for item in both.json["packages"]] == ["one", "two"]
        assert [item["verdict"] for item in both.json["packages"]] == ["passed", "passed"]
        part = command("check", tmp_path / "out/serving/triton/two", "--server", place, code=0)
        assert "two at" in part.out
        for name in parts:
            assert (
                api.check_server(parts[name], served.addresses[f"{name} grpc"]).verdict == "passed"
            )


@pytest.mark.slow
@pytest.mark.parametrize("case", ["types", "bfloat16", "scalar"])
def test_every_type_goes_over_the_wire(tmp_path: Path, case: str) -> None:
    (tmp_path / "repository").mkdir()
    package = str(packed(ALL[case][0], tmp_path, case).path)
    with api.serve(package, port=0) as served:
        for protocol in ("v2", "grpc"):
            assert api.check_server(package, served.addresses[protocol]).verdict == "passed"
        if case != "scalar":  # the server's own word, which JSON of it lacks
            with pytest.raises(ModelError, match="via JSON is not supported"):
                api.check_server(package, served.addresses["v2"], protocol="v2-json")


def test_the_protocol_and_the_model_are_found_out(made: Path, served: Served) -> None:
    place = re.sub(r"/v2/models.*", "", served.addresses["v2"])
    said = command("check", made / f"{MODEL}.onnx", "--samples", made / "samples.npz", "--server",
                   place, "--json", code=0)  # fmt: skip
    assert said.json["verdict"] == "passed" and f"v2 at {place[7:]}" not in said.err
    assert said.json["accuracy"]["comparison"]["samples"] == 12


def test_what_a_cluster_asks_is_answered(served: Served) -> None:
    assert_probes_answer(served)


def test_the_response_cache_is_on_where_the_package_asks_for_it(made: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(made / "out" / "serving" / "triton" / MODEL, tmp_path / MODEL)
    with (folder / "config.pbtxt").open("a") as config:
        config.write("response_cache { enable: true }\n")
    with api.serve(str(tmp_path), port=0) as running:
        url = running.addresses["v2"]
        for _ in range(2):
            assert api.check_server(str(folder), url, probes=False).verdict == "passed"
        place = url.split("/v2/")[0]
        with urllib.request.urlopen(f"{place}/v2/models/{MODEL}/stats", timeout=10) as answer:
            (stats,) = json.load(answer)["model_stats"]
    assert stats["inference_stats"]["cache_hit"]["count"] > 0


def test_where_nothing_answers(made: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    for url in (f"http://{place}", f"grpc://{place}/{MODEL}"):
        with pytest.raises(UsageError, match="doesn't answer"):
            api.check_server(str(made / f"{MODEL}.onnx"), url, samples=str(made / "samples.npz"))
    said = command("check", made / f"{MODEL}.onnx", code=2)
    assert "--against" in said.err and "--server" in said.err


# -- bench ---------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["v2", "v2-json", "grpc"])
def test_load_is_measured(made: Path, served: Served, protocol: str) -> None:
    url, known = address(served, protocol)
    found = api.bench_server(
        str(made / f"{MODEL}.onnx"), url, protocol=known, requests=60, bench_concurrency=[1, 4],
        bench_batches=[1, 2], samples=str(made / "samples.npz"), p95=60_000,
    )  # fmt: skip
    assert [(p.batch, p.concurrency) for p in found.points] == [(1, 1), (1, 4), (2, 1), (2, 4)]
    for point in found.points:
        assert (point.n, point.errors, point.wrong) == (60, 0, 0)
        assert point.p50_ms and point.p95_ms and point.p50_ms <= point.p95_ms
        assert point.p99_ms is None  # of 60 requests, none is expected beyond it
        assert point.throughput == pytest.approx(60 * point.batch / point.seconds)
        assert point.queue_ms is not None and point.compute_ms and point.mean_ms
        assert point.runs and point.runs <= point.n  # without those of the warm-up
        assert point.cpu_ms and point.memory and point.memory > 50e6 and point.client_share
    assert found.best == max(found.points, key=lambda point: point.throughput)
    # Triton counts what it does after an answer, too, and waits for a core there now and then: of
    # many requests that is little.
    many = api.bench_server(
        str(made / f"{MODEL}.onnx"), url, protocol=known, requests=900, bench_concurrency=[1, 4],
        bench_batches=[1, 2], samples=str(made / "samples.npz"), p95=60_000,
    )  # fmt: skip
    for point in many.points:
        assert point.queue_ms is not None and point.compute_ms and point.mean_ms
        assert point.queue_ms + point.compute_ms < point.mean_ms


@pytest.mark.slow
def test_an_open_loop_sends_when_requests_are_due(
    made: Path, served: Served, tmp_path: Path
) -> None:
    plot = tmp_path / "load.svg"
    said = command(
        "bench", made / f"{MODEL}.onnx", "--server", served.addresses["v2"], "--rate", "20,40",
        "--bench-seconds", "3", "--samples", made / "samples.npz", "--plot", plot, "--p95", "0.001",
        "--json", code=0,
    )  # fmt: skip
    points = said.json["points"]
    for point, rate in zip(points, (20, 40), strict=True):
        assert point["rate"] == rate and point["concurrency"] is None
        assert abs(point["n"] - 3 * rate) < 6 * np.sqrt(3 * rate)  # Poisson's deviation
        assert point["late_p99_ms"] is None or point["late_p99_ms"] >= 0
    assert said.json["best"] is None and said.json["written"] == [str(plot)]
    drawn = ElementTree.fromstring(plot.read_text())
    assert len([item for item in drawn.iter() if item.tag.endswith("circle")]) == 2


def test_loads_for_other_tools(made: Path, served: Served, tmp_path: Path) -> None:
    line = ("bench", made / f"{MODEL}.onnx", "--server", served.addresses["grpc"], "--samples",
            made / "samples.npz", "--concurrency", "1,4", "--p95", "20", "--export")  # fmt: skip
    command(*line, "perf-analyzer", tmp_path, code=0)
    script = (tmp_path / "perf_analyzer.sh").read_text().splitlines()
    assert len(script) == 5 and f"-m {MODEL}" in script[-1] and "-i grpc" in script[-1]
    assert "--concurrency-range 4" in script[-1] and "--latency-threshold 20" in script[-1]
    data = json.loads((tmp_path / "input_data.json").read_text())["data"]
    first = np.load(made / "samples.npz")["image"][0]
    assert data[0]["image"]["shape"] == [3, 16, 16] and len(data) == 8
    np.testing.assert_array_equal(np.float32(data[0]["image"]["content"]), first.ravel())
    command(*line, "model-analyzer", tmp_path, code=0)
    text = (tmp_path / "model_analyzer.yaml").read_text()
    assert "- 4" in text and served.addresses["metrics"] in text
    assert "no such tool" in command(*line, "siege", tmp_path, code=2).err


# -- bad input -----------------------------------------------------------------------------


def asking(**changes: object) -> bytes:
    """A good request with something else in its input."""
    data = {"shape": [1, 3, 16, 16], "datatype": "FP32", "data": [0.0] * 768}
    return json.dumps({"inputs": [{"name": "image", **data, **changes}]}).encode()


BAD: dict[str, tuple[bytes, str]] = {
    "name": (asking(name="picture"), "picture|image"),
    "dtype": (asking(datatype="INT32", data=[0] * 768), "data-type|datatype|INT32"),
    "shape": (asking(shape=[1, 3, 16, 15]), "shape|elements"),
    "batch": (asking(shape=[9, 3, 16, 16], data=[0.0] * 6912), "batch"),
    "missing": (b'{"inputs": []}', "input"),
    "not-json": (b"{image: [", "parse|JSON"),
    "empty": (b"", "mismatch"),
    "values": (asking(data=["x"] * 768), "parse|type|expect"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_and_the_server_goes_on(served: Served, case: str) -> None:
    body, said = BAD[case]
    status, text = _infer(served, body)
    assert 400 <= status < 600, text  # some of what it can't parse, it calls an error of its own
    assert re.search(said, text, re.IGNORECASE), text
    assert _infer(served, asking())[0] == 200


def test_more_than_the_model_takes(served: Served) -> None:
    """64 MB where 3 kB belong: refused, and neither kept nor fatal."""
    watched = Observed(served.running.pid)
    before = watched.resident()
    assert 400 <= _infer(served, asking(data=[0.5] * 16_000_000))[0] < 600
    assert _infer(served, asking())[0] == 200
    assert watched.resident() < before + 600e6


def test_a_refusal_is_the_server_s_own_words(made: Path, served: Served) -> None:
    with pytest.raises(ModelError, match=r"refuses a request.*other"):
        url = served.addresses["v2"].replace(MODEL, "other")
        api.check_server(str(made / f"{MODEL}.onnx"), url, samples=str(made / "samples.npz"))


def test_what_speaks_another_protocol(made: Path, served: Served) -> None:
    place = served.addresses["metrics"].removesuffix("/metrics")
    said = command("check", made / "out", "--server", place, code=2).err
    assert "doesn't speak the Open Inference Protocol" in said and f"{place}/predict" in said


def _infer(served: Served, body: bytes) -> tuple[int, str]:
    place, path = re.match(r"http://([^/]+)(.*)", served.addresses["v2"]).groups()  # type: ignore[union-attr]
    host, port = place.split(":")
    connection = Connection(host, int(port), secure=False)
    try:
        answer = connection.ask(message("POST", place, f"{path}/infer", body))
    finally:
        connection.close()
    return answer.status, answer.body.decode()


# -- many ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["v2", "grpc"])
def test_no_answer_of_20000_is_lost_or_wrong(made: Path, served: Served, protocol: str) -> None:
    """Over 32 connections; each is compared, and memory doesn't grow with their number."""
    url, known = address(served, protocol)
    options = {"protocol": known, "bench_concurrency": [32], "samples": str(made / "samples.npz")}
    source, watched = str(made / f"{MODEL}.onnx"), Observed(served.running.pid)
    api.bench_server(source, url, requests=2_000, **options)
    before = watched.resident()
    (point,) = api.bench_server(source, url, requests=20_000, **options).points
    assert (point.n, point.errors, point.wrong) == (20_000, 0, 0)
    assert watched.resident() < before * 1.1


# -- serve itself --------------------------------------------------------------------------


def started(*args: str | Path) -> tuple["subprocess.Popen[str]", dict[str, object]]:
    """``modelyard serve``, once it says where it is."""
    line = [COMMAND, "serve", *args, "--port", "0", "--yes", "--json", "--quiet"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    text = ""
    while not text.endswith("\n}\n"):
        piece = process.stdout.readline()
        assert piece, process.communicate()[1]
        text += piece
    return process, json.loads(text)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_with_all_that_it_started(made: Path, number: signal.Signals) -> None:
    process, said = started(made / "out")
    family = _marked(int(str(said["pid"])))
    assert len(family) >= 2  # the server, and the backend's process
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in err, err
    assert not [pid for pid in family if Path(f"/proc/{pid}").exists()]


@pytest.mark.slow
def test_a_server_that_a_request_ends_is_started_again(made: Path) -> None:
    """Three times, each told; then it ends as it does without."""
    before = set(Path("/dev/shm").glob("modelyard-*"))
    process, said = started(made / "out")
    url = str(said["addresses"]["v2"])  # type: ignore[index]
    nested = asking(data="@").replace(b'"@"', b"[" * 5_000_000 + b"]" * 5_000_000)
    lines, pid = [], int(str(said["pid"]))
    assert process.stderr is not None
    for attack in (asking(shape=[1 << 31, 3, 16, 16]), nested, b""):
        if attack:
            with suppress(OSError):
                urllib.request.urlopen(f"{url}/infer", attack, timeout=30)
        else:
            os.kill(pid, signal.SIGKILL)
        lines += [process.stderr.readline(), process.stderr.readline()]
        pid = int(lines[-1].split()[-1])
        with urllib.request.urlopen(f"{url}/infer", asking(), timeout=30) as answer:
            assert answer.status == 200
    os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 6 and "was ended by SIGKILL, after 3 restarts" in err, err
    told = [f"starting it again ({number} of 3)" in line for number, line in
            enumerate(lines[::2], 1)]  # fmt: skip
    names = [line.split("was ended by ")[1].split(";")[0] for line in lines[::2]]
    assert all(told) and names == ["SIGABRT", "SIGSEGV", "SIGKILL"], lines
    assert set(Path("/dev/shm").glob("modelyard-*")) <= before


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["the command", "its child"])
def test_no_shared_memory_is_left_where_one_is_killed(made: Path, killed: str) -> None:
    """Of the server's backends; the command has a child that does everything."""
    before = set(Path("/dev/shm").glob("modelyard-*"))
    process, said = started(made / "out")
    regions = set(Path("/dev/shm").glob("modelyard-*")) - before
    numbers = {
        "the command": process.pid,
        "its child": psutil.Process(int(str(said["pid"]))).ppid(),
    }
    assert regions and numbers["its child"] != process.pid
    os.kill(numbers[killed], signal.SIGKILL)
    process.communicate(timeout=60)
    deadline = time.monotonic() + 20
    while any(region.exists() for region in regions):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_tls(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = certified(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with api.serve(str(made / "out"), port=0, tls=(str(certificate), str(key))) as served:
        for protocol in ("v2", "grpc"):
            url = served.addresses[protocol]
            assert url.split(":")[0] in ("https", "grpcs")
            checked = api.check_server(str(made / f"{MODEL}.onnx"), url,
                                       samples=str(made / "samples.npz"))  # fmt: skip
            assert checked.verdict == "passed"
        plain = served.addresses["v2"].replace("https", "http")
        with pytest.raises(OSError):
            urllib.request.urlopen(plain, timeout=10)
        monkeypatch.delenv("SSL_CERT_FILE")
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(plain.replace("http", "https"), timeout=10,
                                   context=ssl.create_default_context(cafile=None))  # fmt: skip
    with pytest.raises(UsageError, match="--tls"), api.serve(
        str(made / "out"), port=0, tls=(str(key), str(key))
    ):  # fmt: skip
        pass


def test_a_server_that_cannot_load_its_model_says_why(made: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(made / "out" / "serving" / "triton" / MODEL, tmp_path / MODEL)
    (folder / "1" / "model.onnx").write_bytes(b"no model")
    said = command("serve", tmp_path, "--port", "0", "--yes", code=6)
    assert "ended during its start" in said.err and "INVALID_PROTOBUF" in said.err


def test_what_was_edited_is_held_to_the_rest(made: Path, tmp_path: Path) -> None:
    """Triton itself ends with SIGSEGV at a warm-up above the largest batch."""
    folder = shutil.copytree(made / "out" / "serving" / "triton" / MODEL, tmp_path / MODEL)
    config = folder / "config.pbtxt"
    text, count = re.subn(r"(?m)^max_batch_size: \d+$", "max_batch_size: 2", config.read_text())
    assert count == 1
    config.write_text(text)
    said = command("serve", tmp_path, "--port", "0", "--yes", code=2)
    assert "a batch of 8 is out of range, max_batch_size is 2" in said.err


def test_a_package_is_found_from_where_one_is(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever folder the server then runs in."""
    monkeypatch.chdir(made)
    _, folder = find_package("out")
    assert folder.is_absolute() and folder.is_relative_to(made / "out" / "serving")


def test_what_can_be_refused_before_anything_is_fetched(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "holds no package" in command("serve", made / "out" / "onnx", "--yes", code=2).err
    assert "no folder" in command("serve", tmp_path / "none", code=2).err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path / "empty"))
        said = command("serve", made / "out", "--port", port, code=2)  # before it asks for --yes
    assert f"(process {os.getpid()}) listens there" in said.err and "--port 0" in said.err
    line = ("serve", made / "out", "--port", "0")
    said = command(*line, "--offline", "--yes", code=5)
    assert "--offline forbids a download" in said.err and "95 MB" in said.err
    said = command(*line, code=5)  # nobody there to ask
    assert "--yes" in said.err and not (tmp_path / "empty" / "servers").exists()


def _marked(pid: int) -> list[int]:
    """The processes that have the same mark in their environment."""
    mark = next(item for item in _environment(pid) if item.startswith(b"MODELYARD_SERVING="))
    pids = (int(place.name) for place in Path("/proc").glob("[0-9]*"))
    return [item for item in pids if item != os.getpid() and mark in _environment(item)]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
