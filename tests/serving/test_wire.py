"""What asks servers, and a load generator that sees what is lost, wrong or late: with servers that
are so."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from converter.check.reference import run_sample
from converter.commands.load import bench_server
from converter.commands.remote import check_server
from converter.errors import ModelError, UsageError
from converter.ir.model import TensorSpec
from converter.samples import Sample
from converter.serving.address import Address, parse
from converter.serving.generator import Generator, percentile
from converter.serving.http import Connection, message
from converter.serving.plain import Plain
from converter.serving.remote import RemoteSession
from converter.serving.tensors import DATATYPES, from_bytes, name_of, to_bytes
from tests.acceptance.cli import small_cnn

Answer = Callable[[int, bytes], tuple[int, bytes]]
"""What a server answers to its request number N."""


@contextmanager
def answering(answer: Answer, *, chunked: bool = False, closing: bool = False) -> Iterator[str]:
    """A real HTTP server on this machine; its address."""
    numbers = iter(range(1 << 30))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, data = answer(next(numbers), body)
            self.send_response(status)
            if chunked:
                self.send_header("Transfer-Encoding", "chunked")
                half = len(data) // 2
                parts = [data[:half], data[half:], b""]
                data = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
            else:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            self.close_connection = closing  # without saying so, as servers do that time out

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def plain(place: str, **fields: object) -> Plain:
    return Plain(parse(f"http://{place}/predict"), **fields)  # type: ignore[arg-type]


def doubling(number: int, body: bytes) -> tuple[int, bytes]:
    """``{"y": 2 x}``."""
    return 200, json.dumps({"y": (2 * np.array(json.loads(body)["x"])).tolist()}).encode()


# -- addresses and tensors -----------------------------------------------------------------


@pytest.mark.parametrize(("url", "protocol", "found"), [
    ("localhost:8000", None, Address("", "localhost", 8000, False, "")),
    ("https://h/v2/models/a%20b/infer", None, Address("", "h", 443, True, "a b")),
    ("http://[::1]:8/v2/models/net", "v2-json", Address("v2-json", "::1", 8, False, "net")),
    ("grpcs://h:9/net", "v2", Address("grpc", "h", 9, True, "net")),
    ("http://h:3000/predict/", None, Address("json", "h", 3000, False, "/predict")),
    ("http://h:3000", "json", Address("json", "h", 3000, False, "")),
])  # fmt: skip
def test_addresses(url: str, protocol: str | None, found: Address) -> None:
    assert parse(url, protocol) == found


@pytest.mark.parametrize("url", ["ftp://h/x", "http://", "http://h:port", "grpc:///net", ""])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UsageError, match="isn't the address"):
        parse(url)


@pytest.mark.parametrize("dtype", sorted(DATATYPES))
def test_raw_tensors(dtype: str) -> None:
    if dtype == "string":
        array = np.array(["", "µ", "two words", "x"], object)
    else:
        kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
        array = np.array([0, 1, 1, 7]).astype(kind)
    array = array.reshape(2, 2)
    assert name_of(array) == dtype
    found = from_bytes(to_bytes(array), dtype, [2, 2])
    assert name_of(found) == dtype and found.tolist() == array.tolist()


# -- HTTP and plain JSON -------------------------------------------------------------------


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("closing", [False, True])
def test_a_connection_is_kept_or_opened_again(chunked: bool, closing: bool) -> None:
    with answering(lambda number, body: (200, body * 2), chunked=chunked, closing=closing) as place:
        host, port = place.split(":")
        connection = Connection(host, int(port), secure=False)
        for size in (0, 1, 1000, 300_000):
            answer = connection.ask(message("POST", place, "/", b"a" * size))
            assert (answer.status, answer.body) == (200, b"a" * 2 * size)
        connection.close()


def test_a_server_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("converter.serving.http.TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connection = Connection("127.0.0.1", silent.getsockname()[1], secure=False)
        with pytest.raises(TimeoutError, match=r"no answer in 0\.2 s"):
            connection.ask(message("GET", "here", "/"))


def test_plain_json_as_a_session() -> None:
    specs = ([TensorSpec("x", "float32", ("batch", 2))], [TensorSpec("y", "float32", ("batch", 2))])
    feeds = {"x": np.array([[1, np.inf]], np.float32)}
    for keys, answer in (
        (("", ""), {"y": [[2.0, float("inf")]]}),
        (("inputs", "outputs"), {"outputs": {"y": [[2.0, float("inf")]]}}),
        (("", "*"), [[2.0, float("inf")]]),
    ):
        seen: list[bytes] = []

        def said(_: int, body: bytes, seen: list[bytes] = seen, answer: object = answer
                 ) -> tuple[int, bytes]:  # fmt: skip
            seen.append(body)
            return 200, json.dumps(answer).encode()

        with answering(said) as place:
            wire = plain(place, outputs=specs[1], inputs_key=keys[0], outputs_key=keys[1])
            found = run_sample(RemoteSession(wire, specs), Sample("one", feeds))
        assert found["y"].dtype == np.float32 and found["y"].tolist() == [[2.0, np.inf]]
        sent = {"x": [[1.0, np.inf]]}
        assert json.loads(seen[0]) == ({keys[0]: sent} if keys[0] else sent)


@pytest.mark.parametrize(("status", "body", "error"), [
    (400, b"no such input: x", "400: no such input: x"),
    (503, b"", "503"), (200, b"<html>", "doesn't follow its"), (200, b"[1]", "doesn't follow its"),
])  # fmt: skip
def test_refusals_are_told(tmp_path: Path, status: int, body: bytes, error: str) -> None:
    model = small_cnn(tmp_path / "cnn.onnx")
    with answering(lambda *_: (status, body)) as place, pytest.raises(ModelError, match=error):
        check_server(str(model), f"http://{place}/predict", samples="random:2")


# -- the load generator --------------------------------------------------------------------

JOB = {"connections": 4, "count": 200, "seconds": 60, "rate": None, "seed": 0}


def generate(
    place: str, warm: Callable[[], object] = lambda: None, **job: object
) -> dict[str, float]:
    wire = plain(place)
    requests = [wire.encode({"x": np.float32([[number]])}) for number in (1, 2, 3)]
    return Generator(wire, requests, {**JOB, **job}).run(warm)


def test_what_is_wrong_or_an_error_is_counted() -> None:
    lock, count, before = threading.Lock(), [0], list[int]()

    def lies(_: int, body: bytes) -> tuple[int, bytes]:
        with lock:
            count[0] += 1
            number = count[0] - 3 - JOB["connections"]  # those before any is counted
        status, data = doubling(0, body)
        if number > 0 and number % 10 == 0:
            return 500, b"out of memory"
        if number > 0 and number % 10 == 5:
            data = data.replace(b"2.0", b"2.1").replace(b"4.0", b"2.0").replace(b"6.0", b"6.1")
        return status, data

    with answering(lies) as place:
        found = generate(place, lambda: before.append(count[0]))
    assert before == [3 + JOB["connections"]]
    assert (found["n"], found["errors"], found["wrong"]) == (180, 20, 20)
    assert list(found["error_texts"]) == ["ErrorAnswer: 500: out of memory"]  # type: ignore[call-overload]


def test_rounding_is_not_wrong() -> None:
    def rounds(number: int, body: bytes) -> tuple[int, bytes]:
        x = np.array(json.loads(body)["x"])
        return 200, json.dumps({"y": (x * (2 + 1e-6 * number)).tolist()}).encode()

    with answering(rounds) as place:
        assert generate(place, count=50)["wrong"] == 0


@pytest.mark.slow
def test_an_open_loop_sees_a_pause_that_a_closed_one_hides() -> None:
    """A server that rests for a second once: of 100 requests a second, all that were due meanwhile
    were late; one caller that waits for its answer has seen one slow answer."""
    lock = threading.Lock()

    def rests(number: int, body: bytes) -> tuple[int, bytes]:
        with lock:
            time.sleep(1.0 if number == 60 else 0)
        return doubling(number, body)

    with answering(rests) as place:
        opened = generate(place, rate=100.0, connections=16)
    with answering(rests) as place:
        closed = generate(place, connections=1)
    assert closed["n"] == opened["n"] == 200
    assert closed["max_ms"] > 900 and closed["p90_ms"] < 500 < opened["p90_ms"]


def test_percentiles_are_given_where_they_are_known() -> None:
    assert percentile([1.0, 2.0, 3.0], 50) == 2.0
    assert percentile([1.0, 2.0], 50) == 1.5
    assert percentile(list(map(float, range(19))), 95) is None
    assert percentile(list(map(float, range(21))), 95) == 19.0
    assert percentile([], 50) is None


def test_a_load_is_more_than_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="more than 0"):
        bench_server(str(tmp_path), "http://127.0.0.1:1", bench_concurrency=[0])
