"""A server over HTTP: one that runs already, or the package's own, started for the test.

Three forms of a request: ``v2`` is the inference protocol's JSON, ``v2-binary`` the same with
values as raw bytes behind it (Triton's extension), ``json`` plain nested lists by name.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from emitters.packaging.script.stored import from_bytes, shown, to_bytes, to_lists

HEADER = "Inference-Header-Content-Length"

V2_TYPES = {
    "bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64",
    "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "float16": "FP16",
    "bfloat16": "BF16", "float32": "FP32", "float64": "FP64", "string": "BYTES",
}  # fmt: skip


class Runner:
    """Asks a server."""

    def options(self, facts: Mapping[str, Any], arguments: list[str]) -> Any:
        """What the command line says."""
        text = "Sends the samples to the server and compares its answers."
        parser = argparse.ArgumentParser(description=text)
        starts = "the package's server is started" if facts["start"] else facts["wire"]["url"]
        parser.add_argument("--url", help=f"a server that runs; without it, {starts}")
        parser.add_argument(
            "--wait",
            type=float,
            help="seconds to wait until ready: 120 for the package's server, 5 for one that runs",
        )
        parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one answer")
        return parser.parse_args(arguments)

    @contextlib.contextmanager
    def served(self, folder: Path, facts: Mapping[str, Any], options: Any) -> Iterator[str]:
        """Gives the address that is asked, once the model is ready.

        Args:
            folder: The package's, whose server is started where the facts say so.
            facts: What ``modelyard.json`` says.
            options: From the command line: ``url``; ``wait``, in seconds.
        """
        wire = facts["wire"]
        with contextlib.ExitStack() as stack:
            process, url = None, options.url or wire["url"]
            if facts["start"] and not options.url:
                process, url = stack.enter_context(started(folder, facts))
            wait = options.wait if options.wait is not None else 120 if process else 5
            wait_until_ready(url.rstrip("/") + wire["ready"], wait, process)
            yield url.rstrip("/") + wire["path"]

    @contextlib.contextmanager
    def opened(self, folder: Path, facts: Mapping[str, Any], options: Any) -> Iterator[Any]:
        """Gives what asks for a sample."""
        with self.served(folder, facts, options) as address:
            first = int.from_bytes(os.urandom(3), "little") << 8  # others may run the same test

            def run(feeds: Mapping[str, Any], step: Mapping[str, int] | None = None) -> Any:
                known = {**step, "id": first + step["id"]} if step else {}
                named = {f"sequence_{name}": value for name, value in known.items()}
                return ask(address, facts, feeds, options.timeout, named)

            yield run


class Unready(Exception):
    """The server doesn't answer, or refuses."""


@contextlib.contextmanager
def started(folder: Path, facts: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """The package's own server in a process group of its own, and its address."""
    ports = free_ports(3)
    known = {"host": "127.0.0.1", "python": sys.executable}
    known |= {"port": str(ports[0]), "grpc_port": str(ports[1]), "metrics_port": str(ports[2])}
    command = [filled(part, known) for part in facts["start"]]
    needs = f"install what it needs: pip install {' '.join(facts['requires'])}"
    variables = {name.upper(): value for name, value in known.items() if name != "python"}
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(
                command, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env={**os.environ, **variables}, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise Unready(f"{command[0]} can't be started ({error}); {needs}") from error
        try:
            yield process, f"http://127.0.0.1:{ports[0]}"
        except BaseException:  # whatever it was, what the server said belongs to it
            log.seek(0)
            lines = log.read()[-4000:].decode(errors="replace").splitlines()
            for line in lines:
                if line.startswith("ModuleNotFoundError: "):
                    raise Unready(f"{line.partition(': ')[2]}; {needs}") from None
            print("\n".join(map(shown, lines)), file=sys.stderr)
            raise
        finally:
            stop(process)


def filled(part: str, known: Mapping[str, str]) -> str:
    """``{port}`` and its like in a part of a command; other braces stay."""
    for name, value in known.items():
        part = part.replace("{" + name + "}", value)
    return part


def stop(process: Any) -> None:
    """Ends the server and what it started."""
    for number, seconds in ((signal.SIGTERM, 15), (signal.SIGKILL, 5)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on, all held until the last is known."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [item.getsockname()[1] for item in sockets]


def wait_until_ready(url: str, seconds: float, process: Any) -> None:
    """Waits until ``url`` answers 200.

    Args:
        url: What is asked for.
        seconds: How long.
        process: The server's; None where it runs elsewhere.

    Raises:
        Unready: It doesn't answer in time, or the process has ended.
    """
    until, why = time.monotonic() + seconds, ""
    while time.monotonic() < until:
        if process is not None and process.poll() is not None:
            raise Unready(f"the server ended with {process.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError as error:
            why = str(error)
        time.sleep(0.1)
    raise Unready(f"{url} isn't ready after {seconds:g} s: {why}")


def ask(
    address: str,
    facts: Mapping[str, Any],
    feeds: Mapping[str, Any],
    timeout: float,
    named: Mapping[str, Any],
) -> Any:
    """Sends one request.

    Args:
        address: The URL.
        facts: What ``modelyard.json`` says.
        feeds: Arrays by input.
        timeout: In seconds.
        named: The request's parameters.

    Returns:
        Arrays by output.

    Raises:
        Unready: The server answers with an error, or with another type.
    """
    wire = facts["wire"]
    if wire["kind"] == "json":
        body, headers = plain_body(wire, feeds), {"Content-Type": "application/json"}
    else:
        binary = wire["kind"] == "v2-binary"
        body, headers = v2_body(facts, feeds, named, binary=binary)
    data, length = sent(address, body, headers, timeout)
    if wire["kind"] == "json":
        return plain_outputs(facts, json.loads(data))
    types = {item["name"]: V2_TYPES[item["dtype"]] for item in facts["outputs"]}
    return v2_outputs(data, int(length) if length else len(data), types)


def sent(
    address: str, body: bytes, headers: Mapping[str, str], timeout: float
) -> tuple[bytes, str | None]:
    """What a request is answered: its bytes, and how many of them are JSON.

    Args:
        address: The URL.
        body: What is sent.
        headers: Of the request.
        timeout: In seconds.

    Raises:
        Unready: The server answers with an error.
    """
    request = urllib.request.Request(address, body, dict(headers))
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.read(), answer.headers.get(HEADER)
    except urllib.error.HTTPError as error:
        said = error.read()[:500].decode(errors="replace")
        raise Unready(f"{address} answers {error.code}: {said}") from error


def plain_body(wire: Mapping[str, Any], feeds: Mapping[str, Any]) -> bytes:
    """Nested lists by name."""
    lists: Any = {name: to_lists(array) for name, array in feeds.items()}
    return json.dumps({wire["inputs"]: lists} if wire["inputs"] else lists).encode()


def plain_outputs(facts: Mapping[str, Any], found: Any) -> dict[str, Any]:
    """Arrays of nested lists, in the model's types: JSON has none."""
    key = facts["wire"]["outputs"]
    types = {item["name"]: item["dtype"] for item in facts["outputs"]}
    if key not in ("", "*"):
        found = found[key]
    if not isinstance(found, Mapping):  # the only output's values
        found = dict.fromkeys(types, found)
    return {
        name: np.array(values, _numpy_type(types.get(name, "float64")))
        for name, values in found.items()
    }


def _numpy_type(dtype: str) -> Any:
    return {"string": object, "bfloat16": np.float32}.get(dtype, dtype)


def v2_body(
    facts: Mapping[str, Any],
    feeds: Mapping[str, Any],
    named: Mapping[str, Any],
    *,
    binary: bool,
) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a request by the inference protocol.

    Args:
        facts: What ``modelyard.json`` says.
        feeds: Arrays by input.
        named: The request's parameters.
        binary: Whether values are raw bytes behind the JSON.
    """
    types = {item["name"]: item["dtype"] for item in facts["inputs"]}
    inputs: list[dict[str, Any]] = []
    tail = b""
    for name, array in feeds.items():
        entry: dict[str, Any] = {"name": name, "shape": list(array.shape)}
        entry["datatype"] = V2_TYPES[types[name]]
        if binary:
            data = to_bytes(array, types[name])
            entry["parameters"] = {"binary_data_size": len(data)}
            tail += data
        else:
            entry["data"] = to_lists(array.ravel())
        inputs.append(entry)
    outputs: list[dict[str, Any]] = [{"name": item["name"]} for item in facts["outputs"]]
    if binary:
        outputs = [{**item, "parameters": {"binary_data": True}} for item in outputs]
    parameters = {"parameters": dict(named)} if named else {}
    head = json.dumps({"inputs": inputs, "outputs": outputs, **parameters}).encode()
    if not binary:
        return head, {"Content-Type": "application/json"}
    kind = {"Content-Type": "application/octet-stream", HEADER: str(len(head))}
    return head + tail, kind


def v2_outputs(data: bytes, length: int, types: Mapping[str, str]) -> dict[str, Any]:
    """Arrays of an answer whose JSON has ``length`` bytes; raw values follow it. ``types`` are the
    outputs' datatypes.

    Args:
        data: The answer.
        length: How many of its bytes are JSON; raw values follow.
        types: The outputs' datatypes, by name.

    Returns:
        Arrays by output.

    Raises:
        Unready: An output has another datatype.
    """
    names = {kind: name for name, kind in V2_TYPES.items()}
    answer, tail, found = json.loads(data[:length]), data[length:], {}
    for item in answer["outputs"]:
        dtype = names[item["datatype"]]
        size = (item.get("parameters") or {}).get("binary_data_size")
        if size is None:
            array = np.array(item["data"], _numpy_type(dtype))
        else:
            array, tail = from_bytes(tail[:size], dtype), tail[size:]
        if item["datatype"] != types.get(item["name"], item["datatype"]):
            raise Unready(f"{item['name']} is {item['datatype']}, not {types[item['name']]}")
        found[item["name"]] = array.reshape(item["shape"])
    return found
