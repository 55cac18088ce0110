"""The GPU on which an engine runs: its memory, streams, events and graphs.

On the driver API of :mod:`emitters.tensorrt.engine_script.driver`, with errors of ours. Everything
lies in the device's primary context, the one that TensorRT's runtime API uses too.

Imported only by the process that runs an engine.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from converter.errors import DependencyError, MachineError
from emitters.tensorrt.engine_script.driver import NON_BLOCKING, Cuda
from emitters.tensorrt.engine_script.refusals import DEPENDENCY, Stopped

_CAPABILITY = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
_THREAD_LOCAL = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

_driver = cache(Cuda)


@contextmanager
def _ours() -> Iterator[None]:
    """Raises what the driver refuses as DependencyError (no GPU) or MachineError."""
    try:
        yield
    except Stopped as stopped:
        if stopped.code == DEPENDENCY:
            hint = "Run it on a machine with a GPU (nvidia-smi lists it); see `modelyard doctor`."
            raise DependencyError(
                stopped.message, code="device-missing", hint=stopped.hint or hint
            ) from stopped
        raise MachineError(
            stopped.message,
            code="machine",
            hint="After such an error, nothing runs in this process any more, so run it again. "
            "If memory ran out, use a smaller batch or fewer callers.",
        ) from stopped


def _call(name: str, *args: Any) -> None:
    with _ours():
        _driver().call(name, *args)


def _get(name: str, kind: Any, *args: Any) -> Any:
    with _ours():
        return _driver().get(name, kind, *args)


def _new(name: str, *args: Any) -> int:
    """A handle that the function makes."""
    return int(_get(name, ctypes.c_void_p, *args) or 0)


@dataclass(frozen=True)
class Device:
    """A GPU.

    Attributes:
        index: Among those that CUDA_VISIBLE_DEVICES leaves.
        name: ``NVIDIA H100 80GB HBM3``.
        capability: Its compute capability: ``9.0``.
        memory: Bytes in all.
        driver: The newest CUDA that its driver serves: ``13.0``.
        context: The handle of its primary context.
    """

    index: int
    name: str
    capability: str
    memory: int
    driver: str
    context: int

    def use(self) -> None:
        """Makes it the calling thread's; each thread that touches the device has to."""
        _call("cuCtxSetCurrent", self.context)


@cache
def open_device(index: int = 0) -> Device:
    """The GPU at ``index``, used by this thread from now on; opened once in a process.

    Raises:
        DependencyError: There is no driver or no such GPU.
        MachineError: The device fails.
    """
    count = _get("cuDeviceGetCount", ctypes.c_int)
    if index >= count:
        raise DependencyError(
            f"there is no GPU {index}: the driver shows {count}",
            code="device-missing",
            hint="See CUDA_VISIBLE_DEVICES.",
        )
    handle = _get("cuDeviceGet", ctypes.c_int, index)
    major, minor = (_get("cuDeviceGetAttribute", ctypes.c_int, n, handle) for n in _CAPABILITY)
    version = _get("cuDriverGetVersion", ctypes.c_int)
    with _ours():
        name = _driver().name_of(handle)
    device = Device(
        index,
        name,
        f"{major}.{minor}",
        _get("cuDeviceTotalMem_v2", ctypes.c_size_t, handle),
        f"{version // 1000}.{version % 1000 // 10}",
        _new("cuDevicePrimaryCtxRetain", handle),
    )
    device.use()
    return device


class Memory:
    """A piece of the device's memory, never empty: TensorRT takes no null address.

    Attributes:
        address: Where it begins, aligned to 256 bytes at least.
        size: Bytes.
    """

    def __init__(self, size: int) -> None:
        self.size = max(size, 1)
        with _ours():
            self.address = _driver().allocate(size)

    def close(self) -> None:
        """Gives it back, once everything that uses it is done."""
        if self.address:
            _call("cuMemFree_v2", self.address)
            self.address = 0


class Stream:
    """A queue of work on the device; it doesn't wait for the default stream.

    Attributes:
        handle: Its address, for libraries that take a stream.
    """

    def __init__(self) -> None:
        self.handle = _new("cuStreamCreate", NON_BLOCKING)

    def upload(self, address: int, source: int, size: int) -> None:
        """Queues a copy from the host to the device.

        Args:
            address: The device's memory.
            source: The host's memory.
            size: In bytes; 0 queues nothing.
        """
        if size:
            _call("cuMemcpyHtoDAsync_v2", address, source, size, self.handle)

    def download(self, target: int, address: int, size: int) -> None:
        """Queues a copy from the device to the host.

        Args:
            target: The host's memory.
            address: The device's memory.
            size: In bytes; 0 queues nothing.
        """
        if size:
            _call("cuMemcpyDtoHAsync_v2", target, address, size, self.handle)

    def record(self, event: Event) -> None:
        """Queues the taking of a time."""
        _call("cuEventRecord", event.handle, self.handle)

    def launch(self, graph: Graph) -> None:
        """Queues a graph's work."""
        _call("cuGraphLaunch", graph.executable, self.handle)

    def wait(self) -> None:
        """Until all that was queued is done.

        Raises:
            MachineError: Some of it failed.
        """
        _call("cuStreamSynchronize", self.handle)

    @contextmanager
    def capturing(self, graph: Graph) -> Iterator[None]:
        """What is queued inside is written into ``graph`` and not run."""
        _call("cuStreamBeginCapture_v2", self.handle, _THREAD_LOCAL)
        try:
            yield
        except BaseException:  # an interrupt must end the capture too; all of it goes on
            with suppress(MachineError):  # such a capture is invalid: ending it says so
                self._captured()
            raise
        graph.take(self._captured())

    def _captured(self) -> int:
        graph = ctypes.c_void_p()
        _call("cuStreamEndCapture", self.handle, ctypes.byref(graph))
        return int(graph.value or 0)

    def close(self) -> None:
        """Gives it back, once it is done."""
        if self.handle:
            _call("cuStreamDestroy_v2", self.handle)
            self.handle = 0


class Event:
    """A point in a stream whose time is taken."""

    def __init__(self) -> None:
        self.handle = _new("cuEventCreate", 0)

    def wait(self) -> None:
        """Until the stream has passed it."""
        _call("cuEventSynchronize", self.handle)

    def nanoseconds_since(self, start: Event) -> int:
        """Device time between two events that were passed; the driver resolves about 500 ns."""
        milliseconds: float = _get("cuEventElapsedTime", ctypes.c_float, start.handle, self.handle)
        return round(milliseconds * 1e6)

    def close(self) -> None:
        if self.handle:
            _call("cuEventDestroy_v2", self.handle)
            self.handle = 0


class Graph:
    """Captured work, launched as one.

    Attributes:
        executable: The driver's handle of it; 0 before :meth:`take`.
    """

    def __init__(self) -> None:
        self.executable = 0

    def take(self, captured: int) -> None:
        """Makes a captured graph ready to launch."""
        try:
            self.executable = _new("cuGraphInstantiateWithFlags", captured, 0)
        finally:
            _call("cuGraphDestroy", captured)

    def close(self) -> None:
        if self.executable:
            _call("cuGraphExecDestroy", self.executable)
            self.executable = 0
