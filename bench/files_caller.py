"""A caller of :mod:`bench.files`: asks with one photo after the other for some seconds.

    python -m bench.files_caller PLACE MODEL STAGES SECONDS FIRST PHOTO...

It says ``ready``, begins at a line on its standard input, and then says how many requests it made
in which time, and its own CPU time. With STAGES, a folder, it prepares and makes answers itself.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from converter.preparation.stages import Stages

LENGTH = "Inference-Header-Content-Length"


class Caller:
    """A connection to one model of a V2 server."""

    def __init__(self, place: str, model: str) -> None:
        self._connection = http.client.HTTPConnection(place)
        self._path = f"/v2/models/{model}/infer"

    def _post(self, body: bytes, header: int) -> bytes:
        """What stands behind the header of the answer."""
        self._connection.request("POST", self._path, body, {LENGTH: str(header)})
        reply = self._connection.getresponse()
        data = reply.read()
        if reply.status != http.HTTPStatus.OK:
            raise RuntimeError(data.decode())
        return data[int(reply.headers[LENGTH]) :]

    def file(self, photo: bytes) -> Any:
        """The answer of a model that takes files; 4 bytes of length come before it."""
        return json.loads(self._post(photo, 0)[4:])

    def tensors(self, photo: bytes, stages: Stages) -> Any:
        """The answer of a model that takes tensors."""
        (item,) = stages.items(photo)
        feeds, seen = stages.prepare(item)
        inputs = [
            {"name": name, "shape": array.shape, "datatype": "FP32",
             "parameters": {"binary_data_size": array.nbytes}}
            for name, array in feeds.items()
        ]  # fmt: skip
        asked = {"inputs": inputs, "parameters": {"binary_data_output": True}}
        head = json.dumps(asked).encode()
        body = b"".join([head, *(array.tobytes() for array in feeds.values())])
        scores = np.frombuffer(self._post(body, len(head)), np.float32)
        return stages.answer({"scores": scores.reshape(1, -1)}, seen)


def main(place: str, model: str, folder: str, seconds: str, first: str, *files: str) -> None:
    """Asks, and says how it went.

    Args:
        place: The server's address.
        model: Its name there.
        folder: The stages that prepare and answer here; empty: the server does.
        seconds: For how long.
        first: Which photo is the first.
        *files: The photos.
    """
    photos, caller = [Path(file).read_bytes() for file in files], Caller(place, model)
    stages = Stages.load(Path(folder)) if folder else None
    count, start, cpu = -1, 0.0, 0.0
    while count < 0 or time.perf_counter() < start + float(seconds):
        photo = photos[(int(first) + count) % len(photos)]
        answer = caller.tensors(photo, stages) if stages else caller.file(photo)
        if len(answer["classes"]) == 0:
            raise RuntimeError(f"no classes in {answer}")
        count += 1
        if count == 0:  # the first doesn't count
            print("ready", flush=True)
            sys.stdin.readline()
            start, cpu = time.perf_counter(), time.process_time()
    taken = time.perf_counter() - start
    print(json.dumps({"count": count, "seconds": taken, "cpu": time.process_time() - cpu}))


if __name__ == "__main__":
    main(*sys.argv[1:])
