"""Which of the vendor's libraries is here, what it lacks, and whether there is a GPU."""

from __future__ import annotations

import ctypes
import importlib.util
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from converter.errors import DependencyError
from converter.plugins.extras import install_line, requirements

_MODULES = {"tensorrt": "tensorrt", "tensorrt-rtx": "tensorrt_rtx"}

_DISTRIBUTIONS = {
    "tensorrt": (
        "tensorrt", "tensorrt-cu13", "tensorrt-cu12", "tensorrt-cu13-bindings",
        "tensorrt-cu12-bindings", "tensorrt-lean", "tensorrt-dispatch",
    ),
    "tensorrt-rtx": ("tensorrt-rtx", "tensorrt-rtx-cu13", "tensorrt-rtx-cu12"),
}  # fmt: skip
"""Distributions that carry a library's version, the usual one first."""


@dataclass(frozen=True)
class Library:
    """A library that builds engines.

    Attributes:
        name: ``tensorrt`` or ``tensorrt-rtx``: the target's name.
        module: What is imported: ``tensorrt``, ``tensorrt_rtx``.
        version: As its distribution says: ``10.16.0.72``.
    """

    name: str
    module: str
    version: str

    @property
    def major(self) -> int:
        """The first number of the version; 0 where it isn't known."""
        first = self.version.split(".")[0]
        return int(first) if first.isdecimal() else 0

    @property
    def title(self) -> str:
        """``TensorRT-RTX 1.7.1.116``, for messages."""
        return f"{'TensorRT-RTX' if self.name == 'tensorrt-rtx' else 'TensorRT'} {self.version}"


@cache
def installed(target: str) -> Library | None:
    """The library of a target, if it is installed; it isn't loaded."""
    module = _MODULES[target]
    if importlib.util.find_spec(module) is None:
        return None
    return Library(target, module, _version(target))


def find(target: str) -> Library:
    """The library of the target ``tensorrt`` or ``tensorrt-rtx``; it isn't loaded.

    Raises:
        DependencyError: It isn't installed.
    """
    library = installed(target)
    if library is None:
        raise DependencyError(
            f"the target {target} needs the Python package {_MODULES[target]}",
            code="package-missing",
            hint=_how_to_install(target),
        )
    return library


def _version(target: str) -> str:
    for name in _DISTRIBUTIONS[target]:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "of unknown version"


def lacks(library: Library) -> Mapping[str, str]:
    """Options that a library doesn't have here: field of ``EngineOptions`` and why.

    What a single version lacks besides is found in the child, by the names that its bindings have.
    """
    if library.name == "tensorrt":
        return _TENSORRT_LACKS
    return _RTX_LACKS if has_gpu() else {**_RTX_LACKS, **_RTX_LACKS_WITHOUT_GPU}


_TENSORRT_LACKS = {
    "compute_capabilities": "TensorRT builds for the GPU at hand only; for others there is "
    "--hardware-compatible",
}

_RTX_LACKS = {
    "version_compatible": "its package doesn't have the lean runtime that such an engine carries",
    "hardware_compatible": "it takes no notice of it; --compute-capability says what to build for",
    "optimization_level": "it takes no notice of it",
}
"""Seen in 1.7: the first fails, the others leave the engine as it is, byte for byte."""

_RTX_LACKS_WITHOUT_GPU = {
    "refit": "such an engine is compiled on the GPU, and there is none here",
    "strip_weights": "such an engine is compiled on the GPU, and there is none here",
}


def has_gpu() -> bool:
    """Whether the NVIDIA driver has a device for us; never raises."""
    return bool(device_name())


def device_capability() -> str:
    """Compute capability of the first device: ``8.9``; empty without one."""
    return device_name().rpartition(" ")[2]


@cache
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
    return "" if failed else f"{text.value.decode(errors='replace')} {major.value}.{minor.value}"


_MAJOR, _MINOR = 75, 76
"""``CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`` and ``_MINOR`` of cuda.h."""


def _how_to_install(target: str) -> str:
    if target != "tensorrt":
        return install_line(target)
    wanted = " ".join(shlex.quote(f"{item.name}{item.specifier}") for item in requirements(target))
    return (
        f"On the GPU machine: python3 -m pip install {wanted} (it fetches the vendor's libraries), "
        "or the vendor's container or packages."
    )
