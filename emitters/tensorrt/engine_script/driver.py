"""The CUDA driver: device memory, streams, events and graphs, through its own library and ctypes.

The driver API, not the runtime's: libcuda comes with the driver, so that nothing has to be
installed, and it works in the primary context, the one that TensorRT uses too. The prototypes are
those of ``cuda.h``; every function gives a ``CUresult``, 0 for success.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from emitters.tensorrt.engine_script.refusals import DEPENDENCY, MACHINE, Stopped

_BYTES, _HANDLE, _NEW = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p  # _NEW: where it goes
_PROTOTYPES: dict[str, list[Any]] = {
    "cuInit": [ctypes.c_uint],
    "cuDriverGetVersion": [_NEW],
    "cuDeviceGetCount": [_NEW],
    "cuDeviceGet": [_NEW, ctypes.c_int],
    "cuDeviceGetName": [ctypes.c_char_p, ctypes.c_int, ctypes.c_int],
    "cuDeviceGetAttribute": [_NEW, ctypes.c_int, ctypes.c_int],
    "cuDeviceTotalMem_v2": [_NEW, ctypes.c_int],
    "cuDevicePrimaryCtxRetain": [_NEW, ctypes.c_int],
    "cuCtxSetCurrent": [_HANDLE],
    "cuMemGetInfo_v2": [_NEW, _NEW],
    "cuMemAlloc_v2": [_NEW, _BYTES],
    "cuMemFree_v2": [ctypes.c_uint64],
    "cuMemcpyHtoDAsync_v2": [ctypes.c_uint64, ctypes.c_void_p, _BYTES, _HANDLE],
    "cuMemcpyDtoHAsync_v2": [ctypes.c_void_p, ctypes.c_uint64, _BYTES, _HANDLE],
    "cuStreamCreate": [_NEW, ctypes.c_uint],
    "cuStreamSynchronize": [_HANDLE],
    "cuStreamDestroy_v2": [_HANDLE],
    "cuStreamBeginCapture_v2": [_HANDLE, ctypes.c_int],
    "cuStreamEndCapture": [_HANDLE, _NEW],
    "cuGraphInstantiateWithFlags": [_NEW, _HANDLE, ctypes.c_uint64],
    "cuGraphDestroy": [_HANDLE],
    "cuGraphLaunch": [_HANDLE, _HANDLE],
    "cuGraphExecDestroy": [_HANDLE],
    "cuEventCreate": [_NEW, ctypes.c_uint],
    "cuEventRecord": [_HANDLE, _HANDLE],
    "cuEventSynchronize": [_HANDLE],
    "cuEventElapsedTime": [_NEW, _HANDLE, _HANDLE],
    "cuEventDestroy_v2": [_HANDLE],
}

NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: it doesn't wait for the default stream
_OUT_OF_MEMORY = 2
_NO_DEVICE = (34, 100, 101, 802, 803, 804)
"""A stub of the library, no or no such device, system not ready, driver and libcuda of different
versions, a libcuda that the device doesn't support."""


class Cuda:
    """The library, initialized.

    Raises:
        Stopped: There is no driver, or no GPU.
    """

    def __init__(self) -> None:
        self._library = _load()
        self.call("cuInit", 0)

    def call(self, name: str, *args: Any) -> None:
        """Calls a function by its name in the library.

        Raises:
            Stopped: Its status isn't 0.
        """
        status = getattr(self._library, name)(*args)
        if status in _NO_DEVICE:
            raise Stopped(
                DEPENDENCY,
                f"the NVIDIA driver gives no usable GPU: {name} gave CUresult {status}",
                hint="See what nvidia-smi lists, and CUDA_VISIBLE_DEVICES.",
            )
        if status == _OUT_OF_MEMORY:
            left, total = ctypes.c_size_t(), ctypes.c_size_t()
            self._library.cuMemGetInfo_v2(ctypes.byref(left), ctypes.byref(total))
            room = f"{left.value >> 20} of {total.value >> 20} MiB are free"
            raise Stopped(
                MACHINE, f"the GPU's memory is full: {name} gave CUresult {status}; {room}"
            )
        if status:
            raise Stopped(MACHINE, f"the GPU failed: {name} gave CUresult {status}")

    def get(self, name: str, kind: Any, *args: Any) -> Any:
        """The value, of a type of ctypes, that a function writes where its first argument says."""
        value = kind()
        self.call(name, ctypes.byref(value), *args)
        return value.value

    def name_of(self, device: int) -> str:
        """A device's: ``NVIDIA H100 80GB HBM3``."""
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, len(text), device)
        return text.value.decode(errors="replace")

    def allocate(self, size: int) -> int:
        """The address of ``size`` bytes on the device; never none, as TensorRT takes no null."""
        return int(self.get("cuMemAlloc_v2", ctypes.c_uint64, max(size, 1)))


class Driver(Cuda):
    """The first GPU, with one stream.

    Attributes:
        name: The GPU's.
        stream: The stream's handle.

    Raises:
        Stopped: There is no driver, or no GPU.
    """

    def __init__(self) -> None:
        super().__init__()
        if not self.get("cuDeviceGetCount", ctypes.c_int):
            raise Stopped(DEPENDENCY, "the NVIDIA driver shows no GPU")
        device = self.get("cuDeviceGet", ctypes.c_int, 0)
        self.name = self.name_of(device)
        context = self.get("cuDevicePrimaryCtxRetain", ctypes.c_void_p, device)
        self.call("cuCtxSetCurrent", context)
        self.stream = int(self.get("cuStreamCreate", ctypes.c_void_p, NON_BLOCKING))

    def free(self, address: int) -> None:
        self.call("cuMemFree_v2", address)

    def upload(self, address: int, data: bytes) -> None:
        """Copies to the device; done when it returns."""
        if data:
            self.call("cuMemcpyHtoDAsync_v2", address, data, len(data), self.stream)
            self.wait()

    def download(self, address: int, size: int) -> bytes:
        """Copies from the device; done when it returns."""
        buffer = ctypes.create_string_buffer(size) if size else b""
        if size:
            self.call("cuMemcpyDtoHAsync_v2", buffer, address, size, self.stream)
            self.wait()
        return bytes(buffer)

    def wait(self) -> None:
        """Until the stream is done."""
        self.call("cuStreamSynchronize", self.stream)


def _load() -> Any:
    try:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError as error:
        raise Stopped(
            DEPENDENCY,
            f"there is no NVIDIA driver here: {error}",
            hint="Run this on the machine with the GPU; in a container, start it with --gpus all.",
        ) from None
    for name, arguments in _PROTOTYPES.items():
        getattr(library, name).argtypes = arguments
    return library
