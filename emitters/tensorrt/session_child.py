"""The process in which an engine runs: ``python -P -m emitters.tensorrt.session_child``.

A damaged plan, a plugin or a failing kernel can take a process down, and after a device error
nothing runs in it any more: so none of it is the tool's own. One JSON object a line comes in and
goes out, as in :mod:`converter.runtime.child`; arrays travel as .npz files.

    {"id": 1, "method": "open", "params": {"plan": "model.plan", "module": "tensorrt",
     "cuda_graph": false, "host_code": false, "runtime_cache": null, "plugins": []}}
    {"id": 2, "method": "run", "params": {"feeds": "in.npz", "out": "out.npz"}}
    {"id": 3, "method": "time", "params": {"feeds": "in.npz", "runs": 100, "concurrency": 2}}
    {"id": 4, "method": "layers", "params": {}}
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from converter.errors import DependencyError, InternalError, ModelyardError
from converter.files.arrays import load_arrays, save_arrays
from emitters.tensorrt.cuda import open_device
from emitters.tensorrt.engine import Engine
from emitters.tensorrt.execution_context import Lane, dtype_of

Params = Mapping[str, Any]
Answer = dict[str, Any]


class Backend:
    """One engine, and a :class:`Lane` for each caller."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._lanes: list[Lane] = []

    @property
    def engine(self) -> Engine:
        """The one that ``open`` opened."""
        if self._engine is None:
            raise InternalError("no engine is open")
        return self._engine

    def open(self, params: Params) -> Answer:
        """Opens a plan on the first GPU; gives its inputs, outputs and what runs it."""
        device = open_device()
        for plugin in params["plugins"]:
            _load_plugin(plugin)
        cache = params["runtime_cache"]
        self._engine = engine = Engine(
            Path(params["plan"]),
            params["module"],
            device,
            cuda_graph=params["cuda_graph"],
            host_code=params["host_code"],
            runtime_cache=Path(cache) if cache else None,
        )
        self._lanes.append(Lane(engine))
        return {
            "inputs": [self._tensor(name) for name in engine.inputs],
            "outputs": [self._tensor(name) for name in engine.outputs],
            "runtime": engine.described(),
            "log": engine.log,
        }

    def _tensor(self, name: str) -> Answer:
        engine = self.engine
        return {"name": name, "dtype": engine.dtype(name), "shape": list(engine.shape(name))}

    def run(self, params: Params) -> Answer:
        """One run: reads ``feeds``, writes ``out``."""
        lane = self._lane(0)
        lane.load(self._feeds(params["feeds"]))
        lane.run()
        arrays = lane.outputs()
        save_arrays(Path(params["out"]), {name: _plain(array) for name, array in arrays.items()})
        return {}

    def time(self, params: Params) -> Answer:
        """``runs`` runs in each of ``concurrency`` lanes, each lane in its own thread."""
        feeds = self._feeds(params["feeds"])
        lanes = [self._lane(index) for index in range(params["concurrency"])]
        for lane in lanes:
            lane.load(feeds)
            if self.engine.cuda_graph:
                lane.capture()
            else:
                lane.run()  # what the library does once for a shape is no latency
        start = time.perf_counter_ns()
        taken = _together([partial(lane.timed, params["runs"]) for lane in lanes])
        total = time.perf_counter_ns() - start
        ns = [one for lane in taken for one in lane]
        return {"ns": ns, "total_ns": total, "graph": all(lane.captured for lane in lanes)}

    def layers(self, params: Params) -> Answer:
        """What the library's inspector tells of the engine."""
        return {"layers": self.engine.layers()}

    def _lane(self, index: int) -> Lane:
        while len(self._lanes) <= index:
            self._lanes.append(Lane(self.engine))
        return self._lanes[index]

    def _feeds(self, path: str) -> dict[str, np.ndarray[Any, Any]]:
        """The arrays of a file, those of types that .npz doesn't know given their type back."""
        known = {name: dtype_of(self.engine.dtype(name)) for name in self.engine.inputs}
        arrays = load_arrays(Path(path))
        return {
            name: array.view(known[name])
            if known.get(name, array.dtype).name == "bfloat16" and array.dtype == np.uint16
            else array
            for name, array in arrays.items()
        }

    def close(self) -> None:
        """Keeps what was compiled; the process's end gives the device's memory back."""
        if self._engine is not None:
            self._engine.save_cache()


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """bfloat16 as its bits: .npz has no such type."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def _load_plugin(path: str) -> None:
    try:
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise DependencyError(
            f"the plugin library {Path(path).name} doesn't load: {error}", code="package-missing"
        ) from error


def _together(jobs: Sequence[Callable[[], list[int]]]) -> list[list[int]]:
    """What each job gives, all run at once; the first error of any is raised.

    The library lets go of the interpreter's lock while it enqueues and the bindings while they
    wait, so that threads do run side by side.
    """
    if len(jobs) == 1:
        return [jobs[0]()]
    results: list[list[int]] = [[] for _ in jobs]
    errors: list[BaseException] = []
    ready = threading.Barrier(len(jobs))

    def work(index: int, job: Callable[[], list[int]]) -> None:
        try:
            open_device().use()
            ready.wait()
            results[index] = job()
        except BaseException as error:  # it is raised in the caller's thread
            errors.append(error)
            ready.abort()

    threads = [threading.Thread(target=work, args=item) for item in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise next(
            (e for e in errors if not isinstance(e, threading.BrokenBarrierError)), errors[0]
        )
    return results


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answers requests until they end."""
    backend = Backend()
    methods = {name: getattr(backend, name) for name in ("open", "run", "time", "layers")}
    for line in requests:
        request = json.loads(line)
        answer: Answer = {"id": request["id"]}
        try:
            answer["result"] = methods[request["method"]](request["params"])
        except ModelyardError as error:
            answer["error"] = error.as_dict() | {"kind": error.kind}
        except Exception as error:  # whatever the library raises is the answer
            answer["error"] = {
                "kind": "internal",
                "message": f"{type(error).__name__}: {error}",
                "details": traceback.format_exc().splitlines()[-8:],
            }
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    backend.close()


def main() -> None:
    """Keeps standard output for answers; what a library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
