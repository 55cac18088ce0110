"""Device memory and a stream, through the CUDA driver's own library and ctypes.

The driver API, not the runtime's: libcuda comes with the driver, so that nothing has to be
installed, and it works in the primary context, the one that TensorRT uses too. The prototypes are
those of ``cuda.h``; every function gives a ``CUresult``, 0 for success.
"""

from __future__ import annotations

import ctypes
from typing import Any

from emitters.tensorrt.engine_script.refusals import DEPENDENCY, MACHINE, Stopped

_PROTOTYPES: dict[str, list[Any]] = {
    "cuInit": [ctypes.c_uint],
    "cuDeviceGetCount": [ctypes.c_void_p],
    "cuDeviceGet": [ctypes.c_void_p, ctypes.c_int],
    "cuDeviceGetName": [ctypes.c_char_p, ctypes.c_int, ctypes.c_int],
    "cuDevicePrimaryCtxRetain": [ctypes.c_void_p, ctypes.c_int],
    "cuCtxSetCurrent": [ctypes.c_void_p],
    "cuMemAlloc_v2": [ctypes.c_void_p, ctypes.c_size_t],
    "cuMemFree_v2": [ctypes.c_uint64],
    "cuMemcpyHtoDAsync_v2": [
        ctypes.c_uint64,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
    ],
    "cuMemcpyDtoHAsync_v2": [
        ctypes.c_void_p,
        ctypes.c_uint64,
        ctypes.c_size_t,
        ctypes.c_void_p,
    ],
    "cuStreamCreate": [ctypes.c_void_p, ctypes.c_uint],
    "cuStreamSynchronize": [ctypes.c_void_p],
}

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: it doesn't wait for the default stream
_OUT_OF_MEMORY = 2
_NO_DEVICE = (34, 100, 101, 802, 803, 804)
"""A stub of the library, no or no such device, system not ready, driver and libcuda of different
versions, a libcuda that the device doesn't support."""


class Driver:
    """The first GPU, with one stream.

    Attributes:
        name: The GPU's.
        stream: The stream's handle.

    Raises:
        Stopped: There is no driver, or no GPU.
    """

    def __init__(self) -> None:
        self._library = _load()
        self._call("cuInit", 0)
        count, device = ctypes.c_int(), ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        if not count.value:
            raise Stopped(DEPENDENCY, "the NVIDIA driver shows no GPU")
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        text = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", text, 256, device.value)
        self.name = text.value.decode(errors="replace")
        context, stream = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device.value)
        self._call("cuCtxSetCurrent", context)
        self._call("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
        self.stream = int(stream.value or 0)

    def allocate(self, size: int) -> int:
        """The address of ``size`` bytes on the device; never none, as TensorRT takes no null."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), max(size, 1))
        return int(address.value)

    def free(self, address: int) -> None:
        self._call("cuMemFree_v2", address)

    def upload(self, address: int, data: bytes) -> None:
        """Copies to the device; done when it returns."""
        if data:
            self._call("cuMemcpyHtoDAsync_v2", address, data, len(data), self.stream)
            self.wait()

    def download(self, address: int, size: int) -> bytes:
        """Copies from the device; done when it returns."""
        buffer = ctypes.create_string_buffer(size) if size else b""
        if size:
            self._call("cuMemcpyDtoHAsync_v2", buffer, address, size, self.stream)
            self.wait()
        return bytes(buffer)

    def wait(self) -> None:
        """Until the stream is done."""
        self._call("cuStreamSynchronize", self.stream)

    def _call(self, name: str, *args: Any) -> None:
        status = getattr(self._library, name)(*args)
        if status in _NO_DEVICE:
            raise Stopped(
                DEPENDENCY,
                f"the NVIDIA driver gives no usable GPU: {name} gave CUresult {status}",
                hint="See what nvidia-smi lists, and CUDA_VISIBLE_DEVICES.",
            )
        if status == _OUT_OF_MEMORY:
            raise Stopped(MACHINE, f"the GPU's memory is spent: {name} gave CUresult {status}")
        if status:
            raise Stopped(MACHINE, f"the GPU failed: {name} gave CUresult {status}")


def _load() -> Any:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise Stopped(
            DEPENDENCY,
            f"there is no NVIDIA driver here: {error}",
            hint="Run this on the machine with the GPU; in a container, start it with --gpus all.",
        ) from None
    for name, arguments in _PROTOTYPES.items():
        getattr(library, name).argtypes = arguments
    return library
