"""Where the builder's timings are kept: in our cache, by device and by the library's version."""

from __future__ import annotations

import ctypes
import re

from converter.cache import cache_root
from emitters.tensorrt.libraries import Library

_MAJOR, _MINOR = 75, 76
"""``CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`` and ``_MINOR`` of cuda.h."""


def timing_cache_of(library: Library) -> str | None:
    """The file of the timings for the first device; None where none can be kept.

    TensorRT-RTX measures nothing when it builds: its timing cache does nothing since 1.2.
    """
    device = device_name() if library.name == "tensorrt" else ""
    if not device:
        return None
    folder = cache_root() / "tensorrt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # the build measures anew then
        return None
    plain = re.sub(r"[^A-Za-z0-9.]+", "-", f"{library.version}-{device}")
    return str(folder / f"{plain}.timing")


def device_capability() -> str:
    """Compute capability of the first device: ``8.9``; empty without one."""
    return device_name().rpartition(" ")[2]


def device_name() -> str:
    """Name and compute capability of the first device, from the driver; empty without one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        text = ctypes.create_string_buffer(256)
        major, minor, device = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        failed = (
            driver.cuInit(0)
            or driver.cuDeviceGet(ctypes.byref(device), 0)
            or driver.cuDeviceGetName(text, len(text), device)
            or driver.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, device)
            or driver.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, device)
        )
    except (OSError, AttributeError):  # no driver, or one without these entry points
        return ""
    return "" if failed else f"{text.value.decode()} {major.value}.{minor.value}"
