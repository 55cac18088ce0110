"""The CUDA driver: memory, streams, events and graphs, as much of it as running an engine needs.

Through NVIDIA's own bindings of the driver API (``cuda.bindings.driver``). The driver API, not
the runtime's: libcuda comes with the driver itself, so that no CUDA toolkit has to be there, and
bindings of a newer CUDA go on working with an older driver. Everything lies in the device's
primary context, the one that TensorRT's runtime API uses too.

Imported only by the process that runs an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from converter.errors import DependencyError, MachineError, ModelyardError
from converter.runtime.extras import in_range, pip_line

_NO_DEVICE = (
    "CUDA_ERROR_NO_DEVICE",
    "CUDA_ERROR_NOT_INITIALIZED",
    "CUDA_ERROR_STUB_LIBRARY",
    "CUDA_ERROR_INVALID_DEVICE",
    "CUDA_ERROR_DEVICE_UNAVAILABLE",
    "CUDA_ERROR_DEVICE_NOT_LICENSED",
    "CUDA_ERROR_SYSTEM_NOT_READY",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
)
_NO_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
_NOTHING = "CUDA_SUCCESS"


@cache
def _driver() -> Any:
    """The bindings.

    Raises:
        DependencyError: They aren't installed.
    """
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise DependencyError(
            "running an engine needs the Python package cuda-bindings",
            hint=pip_line([in_range("cuda-bindings", "tensorrt")]),
        ) from error
    return driver


def _call(name: str, *args: Any) -> Any:
    """What the driver's function gives beside its status: None, one value, or a tuple.

    Raises:
        DependencyError: There is no usable driver or device.
        MachineError: The device's memory is spent, or it failed.
    """
    function: Callable[..., tuple[Any, ...]] = getattr(_driver(), name)
    try:
        status, *values = function(*args)
    except RuntimeError as error:  # the bindings find no libcuda, or no such function in it
        raise _no_driver(str(error)) from error
    if status.name != _NOTHING:
        raise _failed(name, status.name)
    if len(values) < 2:
        return values[0] if values else None
    return tuple(values)


def _no_driver(why: str) -> DependencyError:
    return DependencyError(
        "running an engine needs an NVIDIA GPU, and its driver was not found",
        details=[why.splitlines()[0]] if why else [],
        hint="Run it on a machine with a GPU (nvidia-smi lists it); see `modelyard doctor`.",
    )


def _failed(name: str, status: str) -> ModelyardError:
    """The error for a status of :func:`_call`, named as in ``cuda.h``."""
    if status in _NO_DEVICE:
        return DependencyError(
            f"the NVIDIA driver gives no usable GPU: {name} said {status}",
            hint="See what nvidia-smi lists, and CUDA_VISIBLE_DEVICES.",
        )
    if status == _NO_MEMORY:
        return MachineError(
            f"the GPU's memory is spent{_memory_left()}: {name} said {status}",
            hint="Use a smaller batch or fewer callers, or end what else runs on the GPU.",
        )
    return MachineError(
        f"the GPU failed: {name} said {status}",
        hint="After such an error nothing runs in this process any more; run it again.",
    )


def _memory_left() -> str:
    status, free, total = _driver().cuMemGetInfo()
    return f" ({free >> 20} of {total >> 20} MiB are free)" if status.name == _NOTHING else ""


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
    context: Any

    def use(self) -> None:
        """Makes it the calling thread's; each thread that touches the device has to."""
        _call("cuCtxSetCurrent", self.context)


@cache
def open_device(index: int = 0) -> Device:
    """The GPU at ``index``, used by this thread from now on; opened once in a process.

    Raises:
        DependencyError: There are no bindings, no driver or no such GPU.
        MachineError: The device fails.
    """
    _call("cuInit", 0)
    count = _call("cuDeviceGetCount")
    if index >= count:
        raise DependencyError(
            f"there is no GPU {index}: the driver shows {count}", hint="See CUDA_VISIBLE_DEVICES."
        )
    handle = _call("cuDeviceGet", index)
    attribute = _driver().CUdevice_attribute
    major, minor = (
        _call("cuDeviceGetAttribute", getattr(attribute, which), handle)
        for which in (
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
        )
    )
    version = _call("cuDriverGetVersion")
    device = Device(
        index,
        _call("cuDeviceGetName", 256, handle).split(b"\0")[0].decode(errors="replace"),
        f"{major}.{minor}",
        _call("cuDeviceTotalMem", handle),
        f"{version // 1000}.{version % 1000 // 10}",
        _call("cuDevicePrimaryCtxRetain", handle),
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
        self._handle = _call("cuMemAlloc", self.size)
        self.address = int(self._handle)

    def close(self) -> None:
        """Gives it back, once everything that uses it is done."""
        if self.address:
            _call("cuMemFree", self._handle)
            self.address = 0


class Stream:
    """A queue of work on the device; it doesn't wait for the default stream.

    Attributes:
        handle: Its address, for libraries that take a stream.
    """

    def __init__(self) -> None:
        flags = _driver().CUstream_flags.CU_STREAM_NON_BLOCKING
        self._stream = _call("cuStreamCreate", int(flags))
        self.handle = int(self._stream)

    def upload(self, address: int, source: int, size: int) -> None:
        """Queues a copy of ``size`` bytes of host memory at ``source`` to the device."""
        if size:
            _call("cuMemcpyHtoDAsync", address, source, size, self._stream)

    def download(self, target: int, address: int, size: int) -> None:
        """Queues a copy of ``size`` bytes of the device's memory to the host's at ``target``."""
        if size:
            _call("cuMemcpyDtoHAsync", target, address, size, self._stream)

    def record(self, event: Event) -> None:
        """Queues the taking of a time."""
        _call("cuEventRecord", event.handle, self._stream)

    def launch(self, graph: Graph) -> None:
        """Queues a graph's work."""
        _call("cuGraphLaunch", graph.executable, self._stream)

    def wait(self) -> None:
        """Until all that was queued is done.

        Raises:
            MachineError: Some of it failed.
        """
        _call("cuStreamSynchronize", self._stream)

    @contextmanager
    def capturing(self, graph: Graph) -> Iterator[None]:
        """What is queued inside is written into ``graph`` and not run."""
        mode = _driver().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        _call("cuStreamBeginCapture", self._stream, mode)
        try:
            yield
        except BaseException:  # an interrupt must end the capture too; all of it goes on
            with suppress(MachineError):  # such a capture is invalid: ending it says so
                _call("cuStreamEndCapture", self._stream)
            raise
        graph.take(_call("cuStreamEndCapture", self._stream))

    def close(self) -> None:
        """Gives it back, once it is done."""
        if self.handle:
            _call("cuStreamDestroy", self._stream)
            self.handle = 0


class Event:
    """A point in a stream whose time is taken."""

    def __init__(self) -> None:
        flags = _driver().CUevent_flags.CU_EVENT_DEFAULT
        self.handle = _call("cuEventCreate", int(flags))

    def wait(self) -> None:
        """Until the stream has passed it."""
        _call("cuEventSynchronize", self.handle)

    def nanoseconds_since(self, start: Event) -> int:
        """Device time between two events that were passed; the driver resolves about 500 ns."""
        milliseconds: float = _call("cuEventElapsedTime", start.handle, self.handle)
        return round(milliseconds * 1e6)

    def close(self) -> None:
        if self.handle is not None:
            _call("cuEventDestroy", self.handle)
            self.handle = None


class Graph:
    """Captured work, launched as one.

    Attributes:
        executable: The driver's handle of it.
    """

    def __init__(self) -> None:
        self.executable: Any = None

    def take(self, captured: Any) -> None:
        """Makes a captured graph ready to launch."""
        try:
            self.executable = _call("cuGraphInstantiate", captured, 0)
        finally:
            _call("cuGraphDestroy", captured)

    def close(self) -> None:
        if self.executable is not None:
            _call("cuGraphExecDestroy", self.executable)
            self.executable = None
