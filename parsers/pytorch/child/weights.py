"""Read a checkpoint without running code from it, and load the right part of it into a model."""

from __future__ import annotations

import ctypes
import inspect
import mmap
import os
import pickle
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from ...worker.errors import WorkerError, missing_package
from . import contents, records

# What training wrappers put in front of every name.
PREFIXES = ("module.", "model.", "_orig_mod.")
_DEPTH = 3
_HEADER = 1 << 25
"""Bytes of the header of a safetensors file: those of 300,000 tensors."""
_HARMLESS = ("torch.", "collections.OrderedDict")

Tensors = dict[str, torch.Tensor]


class Candidate(NamedTuple):
    """A dict of tensors within a checkpoint, with the path of keys that leads to it."""

    path: str
    tensors: Tensors


@dataclass
class Match:
    """How one candidate, after dropping `prefix` from its names, fits a model."""

    path: str
    prefix: str
    tensors: Tensors
    matched: int = 0
    problems: list[str] = field(default_factory=list)


@contextmanager
def _as_main(module_name: str) -> Iterator[None]:
    """Let a pickle find classes under __main__, where the training script had them."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = sys.modules.get(module_name, main)
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def globals_beyond_tensors(path: Path) -> list[str]:
    """The globals that a file asks for beyond plain tensors, found without running it."""
    if zipfile.is_zipfile(path):
        with suppress(AttributeError, ValueError, RuntimeError, pickle.UnpicklingError):
            return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(path))
        return ["objects other than tensors"]
    with path.open("rb") as file:
        names = {name for outline in contents.outlines(file) for name in outline.globals}
    return sorted(name for name in names if not name.startswith(_HARMLESS))


def _refused(path: Path, error: Exception) -> WorkerError:
    """The error for a file that the weights-only reader did not accept."""
    names = globals_beyond_tensors(path)
    if not names:
        return WorkerError(
            "usage", f"{path} is not a PyTorch checkpoint: {error}", code="model-damaged"
        )
    return WorkerError(
        "untrusted",
        f"{path} is a pickle that asks for {names[0]}{' and others' * (len(names) > 1)}: "
        "reading it could run code that the file brings. Modelyard ran nothing of it",
        names,
    )


def _read_pickle(path: Path, trust: bool, module_name: str, mapped: bool) -> Any:
    """torch.load on the CPU; code in the file runs only when `trust` is set."""
    if contents.kind_of(path) == contents.PADDED:
        raise WorkerError("usage", f"{path} is {contents.PADDED}", code="model-damaged")
    known = "mmap" in inspect.signature(torch.load).parameters  # from torch 2.1 on
    mappable = zipfile.is_zipfile(path) and records.checked(path)
    how = {"mmap": True} if mapped and known and mappable else {}
    try:
        if trust:
            with _as_main(module_name):
                return torch.load(path, map_location="cpu", weights_only=False, **how)
        return torch.load(path, map_location="cpu", weights_only=True, **how)
    except pickle.UnpicklingError as error:
        raise _refused(path, error) from error
    # Whatever a damaged file, or a trusted one's own code, raises: it is about this file.
    except Exception as error:
        raise WorkerError(
            "usage",
            f"{path} cannot be read as a PyTorch checkpoint: {error or type(error).__name__}",
            code="model-damaged",
        ) from error


def _read_safetensors(path: Path) -> Tensors:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError:
        raise missing_package("safetensors", f"to read {path.name}") from None
    require_small_header(path, "usage")
    try:
        tensors: Tensors = load_file(path, device="cpu")
    except (SafetensorError, OSError, ValueError) as error:
        raise WorkerError(
            "usage", f"{path} is not a safetensors file: {error}", code="model-damaged"
        ) from error
    return tensors


def require_small_header(path: Path, kind: Literal["usage", "source"]) -> None:
    """Raise an error of a kind for a safetensors file whose header is larger than any is."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
    if _HEADER < size < path.stat().st_size:
        raise WorkerError(
            kind,
            f"{path} has a header of {size:,} bytes; the limit is {_HEADER:,}",
            code="model-damaged",
        )


def read(path: Path, trust: bool, module_name: str, mapped: bool = False) -> Any:
    """The content of a weights file.

    Args:
        path: The file.
        trust: Whether the user said that a pickle's code may run.
        module_name: Where a trusted pickle finds classes that it knows from `__main__`.
        mapped: Whether tensors are read from the file only when they are first looked at.

    Raises:
        WorkerError: ``usage``, ``dependency`` or ``untrusted``.
    """
    if not path.is_file():
        raise WorkerError("usage", f"there is no weights file {path}", code="file-not-found")
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    return _read_pickle(path, trust, module_name, mapped)


def _as_mapping(value: Any) -> Mapping[Any, Any] | None:
    if isinstance(value, torch.nn.Module):
        return dict(value.state_dict())
    return value if isinstance(value, Mapping) else None


def _tensors_of(content: Mapping[Any, Any]) -> Tensors:
    return {
        key: value
        for key, value in content.items()
        if isinstance(key, str) and isinstance(value, torch.Tensor)
    }


def candidates(content: Any, path: str = "", depth: int = _DEPTH) -> list[Candidate]:
    """Every dict of tensors in a checkpoint, outermost first.

    Args:
        content: What the file holds.
        path: The keys that led to it, joined by dots.
        depth: How many dicts deep it is searched.
    """
    mapping = _as_mapping(content)
    if mapping is None:
        return []
    found = []
    tensors = _tensors_of(mapping)
    if tensors:
        found.append(Candidate(path, tensors))
    if depth > 0:
        for key, value in mapping.items():
            inner = f"{path}.{key}" if path else str(key)
            found += candidates(value, inner, depth - 1)
    return found


def _compare(own: Tensors, match: Match) -> Match:
    """Fill in how many names fit and every reason why the match is not complete."""
    missing = [k for k in own if k not in match.tensors and "num_batches_tracked" not in k]
    unexpected = [k for k in match.tensors if k not in own]
    shared = [k for k in own if k in match.tensors]
    match.matched = len(shared)
    match.problems = [f"missing: {k} {list(own[k].shape)}" for k in missing]
    match.problems += [f"unexpected: {k} {list(match.tensors[k].shape)}" for k in unexpected]
    match.problems += [
        f"shape: {k} is {list(match.tensors[k].shape)} in the file, {list(own[k].shape)} in the "
        "model"
        for k in shared
        if own[k].shape != match.tensors[k].shape
    ]
    return match


def _prefixes_of(tensors: Tensors) -> Iterator[str]:
    """No prefix, then every chain of known prefixes that all names share."""
    prefix = ""
    yield prefix
    while True:
        longer = next(
            (prefix + p for p in PREFIXES if all(k.startswith(prefix + p) for k in tensors)), None
        )
        if longer is None:
            return
        prefix = longer
        yield prefix


def _best_match(own: Tensors, candidate: Candidate) -> Match:
    """The way to read a candidate that fits the model best; the shortest prefix on a tie."""
    matches = []
    for prefix in _prefixes_of(candidate.tensors):
        stripped = {k[len(prefix) :]: v for k, v in candidate.tensors.items()}
        matches.append(_compare(own, Match(candidate.path, prefix, stripped)))
    return min(matches, key=lambda m: (-m.matched, len(m.problems)))


def follow(content: Any, key: str) -> Any:
    """The value at a dotted key. Raises usage, with the keys that were there instead."""
    value = content
    for step in key.split("."):
        mapping = _as_mapping(value)
        if mapping is None or step not in mapping:
            known = ", ".join(map(str, mapping)) if mapping is not None else "no keys"
            raise WorkerError(
                "usage",
                f"the weights file has no key {key!r}: at {step!r} it has {known}",
                code="weights-mismatch",
            )
        value = mapping[step]
    return value


def _same(one: Tensors, other: Tensors) -> bool:
    return all(torch.equal(value, other[name]) for name, value in one.items() if name in other)


def _choose(own: Tensors, found: list[Candidate]) -> Match:
    """The one candidate that fits. Raises usage for none, or for several with other values."""
    matches = [_best_match(own, candidate) for candidate in found]
    fitting = [m for m in matches if not m.problems]
    different = [m for m in fitting[1:] if not _same(fitting[0].tensors, m.tensors)]
    if different:
        names = [m.path or "(top level)" for m in (fitting[0], *different)]
        raise WorkerError(
            "usage",
            f"the weights file holds {len(names)} sets of weights that fit this model: "
            f"{', '.join(names)}; choose one with --weights-key",
            names,
            code="choose-one",
        )
    if fitting:
        return fitting[0]
    nearest = min(matches, key=lambda m: (-m.matched, len(m.problems)))
    place = f" (at key {nearest.path!r})" if nearest.path else ""
    raise WorkerError(
        "usage",
        f"the weights{place} do not fit the model: {len(nearest.problems)} differences, "
        f"first: {nearest.problems[0]}",
        nearest.problems,
        code="weights-mismatch",
    )


def select(content: Any, own: Tensors, key: str | None) -> Match:
    """The part of a checkpoint that fits a model.

    Args:
        content: What the file holds.
        own: The model's state_dict.
        key: Leads to the part; None: it is searched for.

    Raises:
        WorkerError: ``usage`` where there is none.
    """
    if key:
        found = [c for c in candidates(follow(content, key), key, 0) if c.path == key]
    else:
        found = candidates(content)
    if not found:
        at = f" at key {key!r}" if key else ""
        raise WorkerError(
            "usage", f"the weights file holds no dict of tensors{at}", code="weights-mismatch"
        )
    return _choose(own, found)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether it has memory of its own: no other class's, not sparse."""
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided


class _Releasing(TorchFunctionMode):  # type: ignore[misc]
    """Gives back the memory of a mapped file's tensors once they were copied, so that the weights
    aren't there twice. Pages of the file alone: what is looked at again is read again. So what a
    model's own hooks wrote to (`_version`), or several names share, stays."""

    def __init__(self, path: Path, tensors: Tensors) -> None:
        super().__init__()
        plain = [tensor for tensor in tensors.values() if _is_plain(tensor)]
        names = Counter(tensor.untyped_storage().data_ptr() for tensor in plain)
        self._versions = {
            tensor.data_ptr(): tensor._version
            for tensor in plain
            if names[tensor.untyped_storage().data_ptr()] == 1
        }
        self._advise = getattr(ctypes.CDLL(None), "madvise", None) if os.name == "posix" else None
        self._ranges: list[tuple[int, int]] = []
        with suppress(OSError):  # /proc/self/maps(5), of Linux alone
            for line in Path("/proc/self/maps").read_text().splitlines():
                if line.endswith(f" {path.resolve()}"):
                    start, end = line.split(maxsplit=1)[0].split("-")
                    self._ranges.append((int(start, 16), int(end, 16)))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func is torch.Tensor.copy_:
            self._release(args[1])
        return found

    def _release(self, tensor: torch.Tensor) -> None:
        if self._advise is None or not _is_plain(tensor):
            return
        start, page = tensor.data_ptr(), mmap.PAGESIZE
        if self._versions.get(start) != tensor._version:
            return
        end = start + tensor.nbytes
        if any(low <= start and end <= high for low, high in self._ranges):
            start, end = -(-start // page) * page, end // page * page
            if end > start:
                self._advise(
                    ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED
                )


def _apply(model: torch.nn.Module, match: Match, path: Path, meta: bool) -> None:
    try:
        with _Releasing(path, match.tensors):
            model.load_state_dict(match.tensors, strict=False, assign=meta)
    except RuntimeError as error:
        raise WorkerError(
            "usage", f"the weights do not fit the model: {error}", code="weights-mismatch"
        ) from error


def load_into(model: torch.nn.Module, path: Path, key: str | None, trust: bool) -> tuple[str, str]:
    """Load a weights file into a model.

    Args:
        model: Takes the weights.
        path: The file.
        key: Leads to the weights within the file; None: they are searched for.
        trust: Whether the user said that a pickle's code may run.

    Returns:
        The key within the file and the prefix that was dropped; both empty if none.

    Raises:
        WorkerError: ``usage`` with every difference as a detail; ``dependency`` or ``untrusted``.
    """
    # Parameters on the meta device have no storage to copy into.
    meta = any(p.is_meta for p in model.parameters())
    content = read(path, trust, type(model).__module__, mapped=not meta)
    own: Tensors = _tensors_of(model.state_dict())
    match = select(content, own, key)
    _apply(model, match, path, meta)
    return match.path, match.prefix
