"""What the first bytes of an engine tell, without the library that made it.

TensorRT's plans begin with ``ftrt``, TensorRT-RTX's with ``vtrt``. The four bytes from 24 on are
the version of the library (said by its maintainers in NVIDIA/TensorRT issue 3073). As read from
plans of TensorRT-RTX 1.7: the eight bytes from 16 on are the size of the file, and the byte at 32
has a bit for each compute capability that it was built for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from converter.errors import ModelError

MAGIC = {b"ftrt": "tensorrt", b"vtrt": "tensorrt-rtx"}

_HEADER = 36
RTX_CAPABILITIES = ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")
"""By bit, from the lowest; as ``ComputeCapability`` of TensorRT-RTX 1.7 has them."""


@dataclass(frozen=True)
class PlanHeader:
    """The first bytes of an engine.

    Attributes:
        target: ``tensorrt`` or ``tensorrt-rtx``.
        version: Of the library that made it: ``10.16.0.72``.
        compute_capabilities: What it was built for (TensorRT-RTX).
    """

    target: str
    version: str
    compute_capabilities: tuple[str, ...] = ()


def target_of(path: Path) -> str:
    """The target whose engine a file is, by its first bytes; empty where it is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return MAGIC.get(file.read(4), "")


def read_header(path: Path) -> PlanHeader:
    """The header of the engine at ``path``.

    Raises:
        ModelError: It is no engine, or it is cut short.
    """
    with path.open("rb") as file:
        head = file.read(_HEADER)
    target = MAGIC.get(head[:4])
    if target is None:
        raise ModelError(
            f"{path.name} isn't an engine of TensorRT: it begins with {head[:4]!r}",
            code="model-damaged",
        )
    size = path.stat().st_size
    written = int.from_bytes(head[16:24], "little")
    if len(head) < _HEADER or (target == "tensorrt-rtx" and written != size):
        raise ModelError(
            f"{path.name} is damaged: it has {size} bytes, but its header says {written}",
            code="model-damaged",
            hint="Build it again.",
        )
    version = ".".join(str(number) for number in head[24:28])
    if target != "tensorrt-rtx":
        return PlanHeader(target, version)
    built = tuple(name for bit, name in enumerate(RTX_CAPABILITIES) if head[32] >> bit & 1)
    return PlanHeader(target, version, built)


def require_version(header: PlanHeader, version: str, name: str) -> None:
    """Raises where an engine was built by another version of its library than is here.

    Args:
        header: The engine's.
        version: The library's: ``10.16.1.11``. The last number, of the build, doesn't count.
        name: The engine's file, for the message.

    Raises:
        ModelError: The versions differ.
    """
    if header.version.split(".")[:3] != version.split(".")[:3]:
        raise ModelError(
            f"{name} was built by {header.target} {header.version}, but {version} is "
            "installed here",
            code="engine-mismatch",
            hint="Build it again with this version, or with --version-compatible if the library "
            "has that option.",
        )
