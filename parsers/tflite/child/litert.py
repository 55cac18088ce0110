"""The worker's methods for LiteRT, the runtime of TFLite files.

Its interpreter is opened as its users open it: XNNPACK takes the operators that it knows. Besides
being what runs in the field, it rounds as the format says: its results on full-integer models are
those of the exact scales, where LiteRT's older kernels multiply by fixed-point approximations of
them, and its float results are far closer to other runtimes' on ill-conditioned models.
"""

from __future__ import annotations

import os
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...worker.backend import FrameworkBackend
from ...worker.errors import WorkerError
from ...worker.packages import require
from ...worker.protocol import Channel

_PACKAGES = ("ai-edge-litert", "numpy")


class Entry(NamedTuple):
    """What is run of the file; inputs and outputs are tensor numbers by name, in order.

    `keys` has the signature's names of outputs, `packed` is a folder for packed weights.
    """

    file: str
    subgraph: int
    signature: str | None
    inputs: dict[str, int]
    outputs: dict[str, int]
    keys: dict[str, str]
    xnnpack: bool = True
    packed: str = ""


class LiteRTBackend(FrameworkBackend):
    """One file at a time."""

    PACKAGES = _PACKAGES
    METHODS = ("hello", "warm", "load", "run", "time", "operators", "shapes", "memory", "profile")

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._entry: Entry | None = None
        self._stamp: tuple[int, ...] = ()
        self._runners: list[Runner] = []
        self._threads = 0

    def warm(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Import LiteRT. Raises dependency."""
        start = time.perf_counter()
        _litert()
        return {"seconds": time.perf_counter() - start}

    def load(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Open a file's entry; returns {"signatures": [keys]}.

        `file` is its path. `subgraph` is the entry's number, and `signature` its key where it has
        one; a subgraph other than the first is only reached through it. `inputs` and `outputs`
        are [{name, index}], tensor numbers; an output's `key` is the signature's name for it
        where that is another. Inputs are named as in the signature. Where `xnnpack` is false,
        LiteRT's own kernels run everything. With `again` what is loaded already goes on, with what
        it keeps between runs, where it is the same. With `later` no interpreter is made yet.
        `packed` is an empty folder that packed weights go to instead of the memory, where LiteRT
        can.
        Raises source where LiteRT refuses the file, usage where the entry isn't there.
        """
        entry = Entry(
            params["file"],
            int(params.get("subgraph") or 0),
            params.get("signature"),
            {item["name"]: int(item["index"]) for item in params["inputs"]},
            {item["name"]: int(item["index"]) for item in params["outputs"]},
            {item["name"]: item.get("key") or item["name"] for item in params["outputs"]},
            bool(params.get("xnnpack", True)),
            params.get("packed") or "",
        )
        if entry.subgraph and entry.signature is None:
            raise WorkerError(
                "usage",
                f"subgraph {entry.subgraph} has no signature, so it can't be run",
                code="choose-one",
            )
        try:
            facts = Path(entry.file).stat()
        except OSError as error:
            raise WorkerError(
                "source", f"LiteRT can't open the file: {error}", code="runtime-failed"
            ) from error
        stamp = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
        if not params.get("again") or (entry, stamp) != (self._entry, self._stamp):
            self._entry, self._stamp, self._runners = entry, stamp, []
        if params.get("later"):
            return {}
        return {"signatures": self._ready(1, _cores())[0].signatures()}

    def run(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run on .npz feeds (`feeds`) and write .npz outputs (`out`), as stored: no scales.

        Returns {"outputs": [{name, dtype, shape}]}. Raises source or usage.
        """
        runner = self._ready(1, self._threads)[0]
        results = runner.run(_read(params["feeds"]))
        _write(params["out"], results)
        return {
            "outputs": [
                {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
                for name, array in results.items()
            ]
        }

    def operators(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """What runs where, after a run: {"operators", "left": {name: count}}, or {"whole"}.

        `operators` counts those of the main graph, and `left` those that XNNPACK leaves to
        LiteRT's own kernels, by name; `whole` is whether it leaves none. Raises usage.
        """
        return self._ready(1, self._threads)[0].operators()

    def shapes(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """{"shapes": {number: [sizes]}} of `tensors` (numbers) where `inputs` have shapes by name.

        What hangs on values is known after a run: on zeros. Raises source or usage.
        """
        runner = self._ready(1, self._threads or _cores())[0]
        return {"shapes": runner.shapes(params["inputs"], params["tensors"])}

    def memory(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Resident memory by phase, and the arena, of a loaded file on `feeds` run for `seconds`:
        {"phases": [{name, resident, peak}], "arena"}. Nothing else has run in this process."""
        from .costs import memory

        entry, threads = self._required(), int(params.get("threads") or _cores())
        return memory(lambda: Runner(entry, threads), _read(params["feeds"]), params["seconds"])

    def profile(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Time by operator of a loaded file on `feeds` run for `seconds`: see `costs.profile`."""
        from .costs import profile

        entry, threads = self._required(), int(params.get("threads") or _cores())
        feeds, seconds = _read(params["feeds"]), float(params["seconds"])
        return profile(Runner(entry, threads), feeds, entry.file, threads, seconds)

    def _required(self) -> Entry:
        if self._entry is None:
            raise WorkerError("usage", "no model is loaded", code="usage")
        return self._entry

    def time(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Latency: {"ns": [each run], "total_ns", "threads"}.

        `concurrency` callers have an interpreter each, of `threads` threads (default: one for
        each core; LiteRT's own default is 1). Setting inputs and getting outputs is part of a
        run, as for any caller. `warmup` runs (default 2) go before.
        """
        from ...worker import timing

        feeds = _read(params["feeds"])
        threads = int(params.get("threads") or _cores())
        concurrency = max(int(params.get("concurrency") or 1), 1)
        runners = self._ready(concurrency, threads)
        for runner in runners:
            for _ in range(max(int(params.get("warmup", 2)), 0)):
                runner.run(feeds)
        result = timing.measure(
            _each_its_own(runners, feeds), max(int(params["runs"]), 1), concurrency
        )
        return {**result, "threads": threads}

    def _ready(self, count: int, threads: int) -> list[Runner]:
        """`count` interpreters of `threads` threads; those of another number are made anew."""
        entry = self._required()
        if threads != self._threads:
            self._runners, self._threads = [], threads
        while len(self._runners) < count:
            self._runners.append(_runner(entry, threads))
        return self._runners[:count]


def _runner(entry: Entry, threads: int) -> Runner:
    if not entry.packed:
        return Runner(entry, threads)
    from .cached import CachedRunner

    return CachedRunner(entry, threads)


class Runner:
    """One interpreter, run through the first subgraph's tensors or through a signature.

    `interpreter` is LiteRT's.
    """

    def __init__(self, entry: Entry, threads: int) -> None:
        litert = _litert()
        self._entry = entry
        with _Failing("opening the file"):
            kinds = litert.OpResolverType
            kind = kinds.AUTO if entry.xnnpack else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
            self.interpreter = litert.Interpreter(
                model_path=entry.file, num_threads=threads, experimental_op_resolver_type=kind
            )
            self._signature: Any = (
                self.interpreter.get_signature_runner(entry.signature) if entry.subgraph else None
            )
        self._shapes: dict[int, tuple[int, ...]] | None = None

    def signatures(self) -> list[str]:
        return list(self.interpreter.get_signature_list())

    def operators(self) -> dict[str, Any]:
        """How many operators the main graph has, and which of them no delegate takes.

        LiteRT lists what a delegate took still, and one operator DELEGATE for each piece: what is
        taken is found from its outputs back to its inputs.
        """
        own, taken = self.listed()
        left: dict[str, int] = {}
        for operator in own:
            if operator["index"] not in taken:
                left[operator["op_name"]] = left.get(operator["op_name"], 0) + 1
        return {"operators": len(own), "left": left}

    def listed(self) -> tuple[list[dict[str, Any]], set[int]]:
        """The main graph's operators, and the numbers of those that a delegate took."""
        # Private, but the one place that Python has for it; without it nothing is told.
        listed: list[dict[str, Any]] = getattr(self.interpreter, "_get_ops_details", list)()
        makers = {out: op for op in listed for out in op["outputs"] if op["op_name"] != "DELEGATE"}
        taken: set[int] = set()
        for piece in listed:
            if piece["op_name"] == "DELEGATE":
                taken |= _between(makers, piece["inputs"], piece["outputs"])
        return [op for op in listed if op["op_name"] != "DELEGATE"], taken

    def shapes(self, inputs: Mapping[str, Any], tensors: list[int]) -> dict[str, list[int]]:
        """The shapes of tensors by their numbers; a run on zeros tells those without memory yet."""
        import numpy as np

        wanted = {index: tuple(inputs[name]) for name, index in self._entry.inputs.items()}
        with _Failing("running the model"):
            self._resize(wanted)
            if not all(self._has_memory(number) for number in tensors):
                for item in self.interpreter.get_input_details():
                    zeros = np.zeros(tuple(item["shape"]), item["dtype"])
                    self.interpreter.set_tensor(item["index"], zeros)
                self.interpreter.invoke()
            known = {item["index"]: item["shape"] for item in self.interpreter.get_tensor_details()}
        return {str(number): [int(size) for size in known[number]] for number in tensors}

    def _has_memory(self, number: int) -> bool:
        try:
            self.interpreter.tensor(number)()
        except ValueError:
            return False
        return True

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name, in order."""
        missing = [name for name in self._entry.inputs if name not in feeds]
        if missing:
            raise WorkerError("usage", f"inputs are missing: {', '.join(missing)}", code="usage")
        with _Failing("running the model"):
            if self._signature is not None:
                return self._run_signature(feeds)
            return self._run_tensors(feeds)

    def _run_signature(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        results = self._signature(**{name: feeds[name] for name in self._entry.inputs})
        return {name: results[key] for name, key in self._entry.keys.items()}

    def _run_tensors(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        shapes = {index: feeds[name].shape for name, index in self._entry.inputs.items()}
        self._resize(shapes)
        for name, index in self._entry.inputs.items():
            self.interpreter.set_tensor(index, feeds[name])
        self.interpreter.invoke()
        return {name: self._output(index) for name, index in self._entry.outputs.items()}

    def _resize(self, shapes: dict[int, tuple[int, ...]]) -> None:
        """Gives the inputs their shapes, by their numbers, unless they have them."""
        if shapes != self._shapes:
            for index, shape in shapes.items():
                self.interpreter.resize_tensor_input(index, list(shape), strict=False)
            self.interpreter.allocate_tensors()
            self._shapes = shapes

    def _output(self, index: int) -> Any:
        """An output; LiteRT gives none that has no elements ("Invalid tensor size")."""
        try:
            return self.interpreter.get_tensor(index)
        except ValueError:
            for details in self.interpreter.get_output_details():
                if details["index"] == index and 0 in details["shape"]:
                    import numpy as np

                    return np.zeros(tuple(details["shape"]), details["dtype"])
            raise


def _between(makers: Mapping[int, Any], inputs: Any, outputs: Any) -> set[int]:
    """The operators, by their numbers, that make `outputs` out of `inputs`."""
    found: set[int] = set()
    known, open_ones = set(inputs), list(outputs)
    while open_ones:
        tensor = open_ones.pop()
        if tensor in known or tensor not in makers:
            continue
        known.add(tensor)
        operator = makers[tensor]
        found.add(operator["index"])
        open_ones += list(operator["inputs"])
    return found


class _Failing:
    """Turns what LiteRT raises into a source error that says what was being done."""

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, (ValueError, RuntimeError, MemoryError)):
            raise WorkerError(
                "source", f"LiteRT failed while {self._doing}: {error}", code="runtime-failed"
            ) from error


def _cores() -> int:
    known = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1


def _litert() -> Any:
    return require("ai_edge_litert.interpreter", "ai-edge-litert", "to run TFLite files")


def _each_its_own(runners: list[Runner], feeds: Mapping[str, Any]) -> Callable[[], object]:
    """A call that gives each thread an interpreter of its own: one serves one caller at a time."""
    lock = threading.Lock()
    free = list(runners)
    own = threading.local()

    def call() -> object:
        if not hasattr(own, "runner"):
            with lock:
                own.runner = free.pop()
        return own.runner.run(feeds)

    return call


def _read(path: str) -> dict[str, Any]:
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise WorkerError("usage", f"the feeds can't be read: {error}", code="usage") from error


def _write(path: str, arrays: Mapping[str, Any]) -> None:
    """Like numpy.savez, which can't store an output called `file`."""
    import numpy as np

    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
