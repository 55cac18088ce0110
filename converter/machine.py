"""What latency was measured on; never a host's or a user's name."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FLAGS = ("avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8")
"""Instruction sets that decide how fast float and int8 models run (names of Linux' cpuinfo)."""

INT8_DOT = ("avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")
"""Instruction sets with a dot product of 8-bit integers: x86's VNNI and AMX, Arm's dotprod and
i8mm. Without one, int8 costs as many instructions as float32."""

_ARM_FLAGS = ("asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve")


@dataclass(frozen=True)
class Machine:
    """A machine, as far as it matters to speed.

    Attributes:
        cpu: The model's name.
        cores: Physical cores; None where unknown.
        usable: Logical CPUs that this process may use (affinity and container limit).
        memory_gib: Of the machine, or the container's limit where that is smaller.
        os: ``Linux 6.1 (Debian GNU/Linux 12), x86_64``.
        python: Its version.
        flags: Of :data:`FLAGS` (or of Arm's), those the CPU has.
        gpus: Name, memory and driver of each, as ``nvidia-smi`` tells.
    """

    cpu: str
    cores: int | None
    usable: float
    memory_gib: float | None
    os: str
    python: str
    flags: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()


@cache
def describe_machine() -> Machine:
    """This machine; what can't be found out is left empty."""
    info = _cpuinfo()
    present = set((info.get("flags") or info.get("Features") or "").split())
    return Machine(
        cpu=info.get("model name") or _cpu_name(),
        cores=_cores(),
        usable=_usable(),
        memory_gib=_memory(),
        os=_os(),
        python=platform.python_version(),
        flags=tuple(flag for flag in (*FLAGS, *_ARM_FLAGS) if flag in present),
        gpus=_gpus(),
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _cpuinfo() -> dict[str, str]:
    """The fields of the first CPU in /proc/cpuinfo; empty elsewhere than on Linux."""
    first = _read("/proc/cpuinfo").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _cpu_name() -> str:
    if platform.system() == "Darwin":
        return _output("sysctl", "-n", "machdep.cpu.brand_string").strip()
    return platform.processor() or platform.machine()


def _cores() -> int | None:
    found = {
        (_read(f"{folder}/physical_package_id"), _read(f"{folder}/core_id"))
        for folder in map(str, Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology"))
    }
    if found:
        return len(found)
    told = _output("sysctl", "-n", "hw.physicalcpu") if platform.system() == "Darwin" else ""
    return int(told) if told.strip().isdigit() else None


def _usable() -> float:
    affinity = getattr(os, "sched_getaffinity", None)
    count = float(len(affinity(0)) if affinity else os.cpu_count() or 1)
    quota, _, period = _read("/sys/fs/cgroup/cpu.max").strip().partition(" ")
    if quota.isdigit() and period.isdigit():
        count = min(count, int(quota) / int(period))
    return round(count, 2)


def _memory() -> float | None:
    sizes = []
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    limit = _read("/sys/fs/cgroup/memory.max").strip()
    if limit.isdigit():
        sizes.append(int(limit))
    return round(min(sizes) / 2**30, 1) if sizes else None


def _os() -> str:
    name = f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"
    with contextlib.suppress(OSError):  # not every system has that file
        name += f" ({platform.freedesktop_os_release()['PRETTY_NAME']})"
    return f"{name}, {platform.machine()}"


def _gpus() -> tuple[str, ...]:
    told = _output(
        "nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"
    )
    rows = (line.split(", ") for line in told.splitlines() if line.count(", ") == 2)
    return tuple(f"{name}, {memory}, driver {driver}" for name, memory, driver in rows)


def _output(*argv: str) -> str:
    """What a command prints; empty where it isn't there or fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
