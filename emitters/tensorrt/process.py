"""Starts the process that builds an engine, so that the same build gives the same bytes.

The builder orders things by their addresses in memory: these aren't randomized in the process, and
its environment holds only what it needs, since that lies on its stack. It loads the library while
whoever started it writes the graph.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from converter.errors import (
    DependencyError,
    MachineError,
    ModelError,
    ModelyardError,
    UsageError,
)
from converter.runtime.child import Child, ChildError, own_module, worker_env
from emitters.tensorrt.build_child import ADDR_NO_RANDOMIZE
from emitters.tensorrt.libraries import Library, has_gpu

COMMAND = own_module("emitters.tensorrt.build_child")

_KEPT = ("LD_LIBRARY_PATH", "PYTHONPATH")
_KEPT_PREFIXES = ("CUDA", "NVIDIA", "NV_", "TRT")
_KEPT_ON_GPUS = ("PATH", "HOME")  # the driver keeps what it compiled under HOME

MORE_SPACE = "Free some space, or raise the file-size limit (ulimit -f), and run it again."
MORE_MEMORY = "Lower --max-batch or the largest shapes, set --workspace, or use a larger machine."


@contextmanager
def started(library: Library) -> Iterator[Child]:
    """A process that is loading ``library``; ended when this is left.

    Raises:
        MachineError: It can't be started.
    """
    with _fixed_addresses():
        try:
            argv = (*COMMAND, library.module)
            child = Child(argv, what=f"the process of {library.title}", env=_environment())
        except OSError as error:
            raise MachineError(
                f"the process of {library.title} can't be started: {error}", code="process-ended"
            ) from (error)
    try:
        yield child
    finally:
        child.close()


def ask(child: Child, request: Mapping[str, Any], folder: Path, library: Library) -> dict[str, Any]:
    """What the process answers.

    Args:
        child: The process.
        request: What it is to do; paths are relative to ``folder``.
        folder: Where it works.
        library: TensorRT or TensorRT-RTX.

    Raises:
        ModelError: The library raised.
        UsageError: It refuses a value.
        DependencyError: It can't be loaded.
        MachineError: The process died, or memory ran out.
    """
    try:
        return child.call("build", **{**request, "folder": str(folder.absolute())})
    except ChildError as error:
        raise _said(error, library) from error
    except MachineError as error:
        if not _lacked_memory(error.details):
            raise
        raise MachineError(
            f"{library.title} ran out of memory",
            code="out-of-memory",
            details=error.details,
            hint=MORE_MEMORY,
        ) from error


def _lacked_memory(log: Sequence[str]) -> bool:
    words = ("bad_alloc", "memoryerror", "cannot allocate memory", "out of memory", "new thread")
    return any(word in line.lower() for line in log for word in words)


def _said(error: ChildError, library: Library) -> ModelyardError:
    if error.kind == "memory" or _lacked_memory([error.message, *error.details]):
        return MachineError(
            f"{library.title} ran out of memory",
            code="out-of-memory",
            details=error.details,
            hint=MORE_MEMORY,
        )
    if error.kind == "space":
        return MachineError(
            f"writing the engine: {error.message}",
            code="write-failed",
            details=error.details,
            hint=MORE_SPACE,
        )
    if error.kind == "usage":
        return UsageError(error.message, code="option-value", details=error.details)
    if error.kind == "dependency":
        return DependencyError(
            f"{library.title} can't be loaded: {error.message}",
            code="package-missing",
            details=error.details,
            hint="Python has to find its shared libraries, through the package that contains "
            "them or LD_LIBRARY_PATH.",
        )
    return ModelError(
        f"{library.title} failed: {error.message}", code="runtime-failed", details=error.details
    )


def _environment() -> dict[str, str | None]:
    """What is changed in ours: everything goes but what the libraries read."""
    names = (*_KEPT, *(_KEPT_ON_GPUS if has_gpu() else ()))
    gone = {
        name: None
        for name in os.environ
        if name not in names and not name.startswith(_KEPT_PREFIXES)
    }
    return {**gone, "PYTHONHASHSEED": "0", "PYTHONFAULTHANDLER": worker_env()["PYTHONFAULTHANDLER"]}


@contextmanager
def _fixed_addresses() -> Iterator[None]:
    """Processes that this thread starts have memory at addresses that aren't randomized.

    The flag is the thread's own (personality(2)), and it counts from the next exec on.
    """
    personality = ctypes.CDLL(None).personality
    before = personality(0xFFFFFFFF)
    personality(before | ADDR_NO_RANDOMIZE)
    try:
        yield
    finally:
        personality(before)
