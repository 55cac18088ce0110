"""Where the time of a TFLite file's run goes: LiteRT's own profiler, through its C library.

LiteRT's Python classes don't reach it; `libLiteRt.so`, which comes with them, has it
(`litert/c/litert_profiler.h`). It runs the file as a compiled model on the CPU: XNNPACK takes the
operators that it takes in the interpreter, and tells each of its own.
"""

from __future__ import annotations

import ctypes as c
import os
from pathlib import Path
from typing import Any, Iterator, Mapping

from ...worker import resident
from ...worker.errors import WorkerError

_CPU, _WRITE = 1, 1
_OPERATOR, _DELEGATES = 1 << 1, 1 << 3
"""Kinds of events: an operator of the graph; one that a delegate runs in its place."""

_WITH_BODIES = ("WHILE", "IF", "STABLEHLO_COMPOSITE")
_SENTINEL, _LARGEST = 0xA5, 512
_LAYOUT = 4
"""Where a `LiteRtRankedTensorType` has its layout: rank, and from the next word on sizes."""
_LAYOUT_BYTES = 68
_ERROR = "LiteRT's C library failed: {} gave {}"
_IGNORED = c.CFUNCTYPE(None, c.c_void_p)(lambda _: None)
_PROFILING = b"enable_profiling = true\n"


def profile(file: str, feeds: Mapping[str, Any], threads: int, seconds: float) -> dict[str, Any]:
    """Where the time of a file's run goes, by operator.

    Args:
        file: The file.
        feeds: Arrays by input.
        threads: How many run it; 0: LiteRT's own choice.
        seconds: For how long it runs.

    Returns:
        ``runs``; ``us``: microseconds of a run; ``events``: tag, index, delegated, us and inner of
        each, that is the operator's number in its graph, or in the delegate's piece of that; its
        own microseconds; whether it ran in a body of another operator.

    Raises:
        WorkerError: ``source`` where LiteRT fails; ``usage`` where its library isn't there or tells
            nothing.
    """
    with _Model(file, threads) as model:
        model.feed(feeds)
        model.run()
        model.call("LiteRtStartProfiler", model.profiler)
        runs = resident.repeat(model.run, seconds)
        model.call("LiteRtStopProfiler", model.profiler)
        return {"runs": runs, **_summed(model.events(), runs)}


def _summed(events: list[_Event], runs: int) -> dict[str, Any]:
    """Means; every run has the same operators in the same order."""
    whole = sum(event.us for event in events if event.tag == "Invoke" and event.kind == 1)
    told = [event for event in events if event.kind in (_OPERATOR, _DELEGATES)]
    if not told or len(told) % runs:
        raise WorkerError(
            "usage",
            "LiteRT's profiler lists other operators in each run",
            code="option-not-applicable",
        )
    _take_apart(told)
    count = len(told) // runs
    found = []
    for at in range(count):
        first, us = told[at], sum(event.own for event in told[at::count]) / runs
        found.append((first.tag, first.index, first.kind == _DELEGATES, us, first.inner))
    return {"us": whole / runs, "events": found}


def _take_apart(events: list[_Event]) -> None:
    """Takes the time of what bodies of WHILE and IF ran from those."""
    around: list[_Event] = []
    for event in sorted(events, key=lambda e: (e.start, -e.us)):
        while around and around[-1].start + around[-1].us < event.start + event.us:
            around.pop()
        if around:
            event.inner = True
            around[-1].own -= event.us
        if event.tag in _WITH_BODIES:
            around.append(event)


class _Event:
    """An event as the profiler wrote it: `ProfiledEventData`.

    How many bytes the part between differs from version to version: the first fields stand at its
    begin, and the last at its end. `own` is its time without what ran within it, `inner` whether
    it ran within another.
    """

    def __init__(self, data: bytes) -> None:
        self.tag = (c.c_char_p(int.from_bytes(data[:8], "little")).value or b"").decode()
        self.kind = int.from_bytes(data[8:12], "little")
        self.start = int.from_bytes(data[16:24], "little")
        self.us = self.own = int.from_bytes(data[24:32], "little")
        self.inner = False
        self.index = int.from_bytes(data[-24:-16], "little")


class _Model:
    """A compiled model with its profiler."""

    def __init__(self, file: str, threads: int) -> None:
        self._library = _library()
        self._made: list[tuple[str, c.c_void_p]] = []
        self._kept: list[Any] = []
        self.environment = self._new("Environment", 0, None)
        self.model = self._out("LiteRtCreateModelFromFile", self.environment, file.encode())
        options = self._new("Options")
        self.call("LiteRtSetOptionsHardwareAccelerators", options, _CPU)
        self._add(options, b"runtime_options_string", _PROFILING)
        self._add(options, b"xnnpack", f"num_threads = {threads}\n".encode())
        self.compiled = self._new("CompiledModel", self.environment, self.model, options)
        self.profiler = self._out("LiteRtCompiledModelGetProfiler", self.compiled)
        self._signature = self._out("LiteRtGetModelSignature", self.model, c.c_size_t(0))
        self._inputs: Any = None
        self._outputs: Any = None

    def __enter__(self) -> _Model:
        return self

    def __exit__(self, *_: object) -> None:
        for name, handle in reversed(self._made):
            getattr(self._library, f"LiteRtDestroy{name}")(handle)

    def call(self, name: str, *args: Any) -> None:
        """Raises source where it fails."""
        if status := getattr(self._library, name)(*args):
            raise WorkerError("source", _ERROR.format(name, status), code="runtime-failed")

    def _out(self, name: str, *args: Any) -> c.c_void_p:
        made = c.c_void_p()
        self.call(name, *args, c.byref(made))
        return made

    def _new(self, name: str, *args: Any) -> c.c_void_p:
        made = self._out(f"LiteRtCreate{name}", *args)
        self._made.append((name, made))
        return made

    def _add(self, options: c.c_void_p, name: bytes, text: bytes) -> None:
        held = c.create_string_buffer(text)
        self._kept.append(held)
        made = self._out("LiteRtCreateOpaqueOptions", name, held, _IGNORED)
        self.call("LiteRtAddOpaqueOptions", options, made)

    def feed(self, feeds: Mapping[str, Any]) -> None:
        """Gives inputs their sizes and values, and outputs their memory."""
        import numpy as np

        inputs = []
        for number, name in enumerate(self._names("Input")):
            array = np.asarray(feeds[name], order="C")
            if _sizes(self._type("Input", number).raw[_LAYOUT:]) != array.shape:
                sizes = (c.c_int32 * array.ndim)(*array.shape)
                place = self.compiled, c.c_size_t(0), c.c_size_t(number)
                self.call("LiteRtCompiledModelResizeInputTensorNonStrict", *place, sizes,
                          c.c_size_t(array.ndim))  # fmt: skip
            buffer = self._buffer("Input", number, array.shape)
            held = c.c_void_p()
            self.call("LiteRtLockTensorBuffer", buffer, c.byref(held), _WRITE)
            c.memmove(held, array.ctypes.data, array.nbytes)
            self.call("LiteRtUnlockTensorBuffer", buffer)
            inputs.append(buffer.value)
        count = len(list(self._names("Output")))
        layouts = c.create_string_buffer(_LAYOUT_BYTES * count)
        self.call("LiteRtGetCompiledModelOutputTensorLayouts", self.compiled, c.c_size_t(0),
                  c.c_size_t(count), layouts, c.c_bool(True))  # fmt: skip
        outputs = []
        for number in range(count):
            shape = _sizes(layouts.raw[_LAYOUT_BYTES * number : _LAYOUT_BYTES * (number + 1)])
            outputs.append(self._buffer("Output", number, shape).value)
        self._inputs, self._outputs = _array(inputs), _array(outputs)

    def _names(self, kind: str) -> Iterator[str]:
        count = c.c_size_t()
        self.call(f"LiteRtGetNumSignature{kind}s", self._signature, c.byref(count))
        for number in range(count.value):
            name = c.c_char_p()
            self.call(f"LiteRtGetSignature{kind}Name", self._signature, c.c_size_t(number),
                      c.byref(name))  # fmt: skip
            yield (name.value or b"").decode()

    def _type(self, kind: str, number: int) -> Any:
        """What the file says of an input or output: a `LiteRtRankedTensorType`."""
        at, described = c.c_size_t(number), c.create_string_buffer(256)
        tensor = self._out(f"LiteRtGetSignature{kind}TensorByIndex", self._signature, at)
        self.call("LiteRtGetRankedTensorType", tensor, described)
        return described

    def _buffer(self, kind: str, number: int, shape: tuple[int, ...]) -> c.c_void_p:
        at, described = c.c_size_t(number), self._type(kind, number)
        for axis, size in enumerate(shape):
            c.c_int32.from_buffer(described, _LAYOUT + 4 + 4 * axis).value = size
        needs = self._out(
            f"LiteRtGetCompiledModel{kind}BufferRequirements", self.compiled, c.c_size_t(0), at
        )
        name = "LiteRtCreateManagedTensorBufferFromRequirements"
        made = self._out(name, self.environment, described, needs)
        self._made.append(("TensorBuffer", made))
        return made

    def run(self) -> None:
        self.call("LiteRtRunCompiledModel", self.compiled, c.c_size_t(0),
                  c.c_size_t(len(self._inputs)), self._inputs,
                  c.c_size_t(len(self._outputs)), self._outputs)  # fmt: skip

    def events(self) -> list[_Event]:
        """What was told since the profiler began; an event's size is what was written of it."""
        count = c.c_int()
        self.call("LiteRtGetNumProfilerEvents", self.profiler, c.byref(count))
        if not count.value:
            raise WorkerError(
                "usage", "LiteRT's profiler gave no figures", code="option-not-applicable"
            )
        held = c.create_string_buffer(_LARGEST * count.value)
        c.memset(held, _SENTINEL, _LARGEST * count.value)
        self.call("LiteRtGetProfilerEvents", self.profiler, count, held)
        written = len(held.raw.rstrip(bytes([_SENTINEL])))
        size = -(-written // (8 * count.value)) * 8
        data = held.raw
        return [_Event(data[size * at : size * (at + 1)]) for at in range(count.value)]


def _sizes(layout: bytes) -> tuple[int, ...]:
    """The sizes of a `LiteRtLayout`, whose first seven bits are how many there are."""
    rank = layout[0] & 0x7F
    return tuple(int.from_bytes(layout[4 + 4 * axis :][:4], "little", signed=True)
                 for axis in range(rank))  # fmt: skip


def _array(handles: list[int | None]) -> Any:
    return (c.c_void_p * len(handles))(*handles)


def _library() -> c.CDLL:
    import ai_edge_litert

    folder = Path(os.path.dirname(ai_edge_litert.__file__))  # noqa: PTH120
    for name in ("libLiteRt.so", "libLiteRt.dylib"):
        if (folder / name).exists():
            library = c.CDLL(str(folder / name))
            if hasattr(library, "LiteRtGetProfilerEvents"):
                return library
    raise WorkerError(
        "usage",
        "Python can't reach a profiler in this ai-edge-litert",
        code="option-not-applicable",
    )
