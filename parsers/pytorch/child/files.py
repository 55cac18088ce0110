"""Models that a file holds whole: exported programs, TorchScript, pickled modules.

Reading any of them can run what its maker put there, so none is opened without the user's word:

- torch.export.load unpickles weights and custom objects without restrictions, falls back to
  that for sample inputs, and has sympy evaluate symbolic sizes, which are text in the file.
- TorchScript has its own interpreter, but among its operators are aten::save, which writes any
  file, and aten::from_file, which maps one; __setstate__ runs while it loads.
- A pickle calls what it names.
"""

# zip() knows no strict= before Python 3.10.

from __future__ import annotations

import inspect
import re
import types
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...worker.errors import WorkerError
from ...worker.packages import require
from . import contents, records, source
from .tensors import dtype_name
from .weights import follow, globals_beyond_tensors

_WHY = {
    contents.PROGRAM: "torch.export.load unpickles parts of it and evaluates text in it",
    contents.TORCHSCRIPT: "TorchScript has operators that read and write files (aten::from_file, "
    "aten::save)",
    contents.MODULE: "reading it imports and calls whatever it names",
}
_MACHINE_MADE = re.compile(r"[su]\d+")
_BATCH = "batch"
_UNKNOWN = re.compile(r"(?:Unknown builtin op: |Could not find schema for )(\w+)::")
# Packages that register operators of their own, by the operators' name space.
_OPERATORS_OF = {"torchvision": "torchvision", "torchaudio": "torchaudio"}


@dataclass
class Opened:
    """A model from a file, how it runs in torch, and what the file says of its inputs.

    `inputs` is empty where it says nothing; `sizes` holds a size for each symbol in them, and
    `constants` the arguments that are no tensors.
    """

    model: Any
    name: str
    mode: str = "eager"
    inputs: list[dict[str, Any]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)


def open_file(path: Path, trust: bool, key: str | None, search_paths: Sequence[str]) -> Opened:
    """The model in a file.

    Args:
        path: The file.
        trust: Whether the user said that its code may run.
        key: Leads to the module within a pickled dict.
        search_paths: Folders with the modules that a pickle names.

    Raises:
        WorkerError: ``untrusted`` without `trust`; ``usage``, ``dependency`` or ``source`` where
            the file can't be opened.
    """
    if not path.is_file():
        raise WorkerError("usage", f"there is no file {path}", code="file-not-found")
    kind = contents.kind_of(path)
    if kind not in _WHY:
        raise WorkerError(
            "usage",
            f"{path.name} holds {kind or 'something else'}, not a model",
            code="not-a-model",
        )
    if key and kind != contents.MODULE:
        raise WorkerError(
            "usage",
            f"{path.name} is {kind}, which has no weights keys",
            code="option-not-applicable",
        )
    if not trust:
        raise _refused(path, kind)
    if zipfile.is_zipfile(path) and (problem := records.looked_at(path)[0]):
        raise WorkerError(
            "source", f"{path.name} is damaged: {problem}", code="model-damaged"
        )  # torch doesn't look
    if kind == contents.PROGRAM:
        return _open_program(path)
    if kind == contents.TORCHSCRIPT:
        return _open_torchscript(path)
    return _open_pickle(path, key, search_paths)


def _refused(path: Path, kind: str) -> WorkerError:
    names = globals_beyond_tensors(path) if kind == contents.MODULE else []
    return WorkerError(
        "untrusted",
        f"{path.name} is {kind}, which can run code that the file brings: {_WHY[kind]}. "
        "Modelyard ran nothing of it",
        names,
    )


def _unreadable(path: Path, kind: str, error: Exception) -> WorkerError:
    text = " ".join(str(error).split("\n")[:2]).strip()
    return WorkerError(
        "source", f"{path.name} cannot be read as {kind}: {text}", code="model-damaged"
    )


def _load_torchscript(path: Path) -> Any:
    """The module; operators that a known package registers when it is imported are there then."""
    try:
        return torch.jit.load(str(path), map_location="cpu")
    except RuntimeError as error:
        package = _OPERATORS_OF.get((_UNKNOWN.findall(str(error)) or [""])[0])
        if package is None:
            raise
    require(package, package, f"for the operators that {path.name} holds")
    return torch.jit.load(str(path), map_location="cpu")


def _open_torchscript(path: Path) -> Opened:
    try:
        model = _load_torchscript(path)
    except WorkerError:
        raise
    # Whatever a damaged file, or its own __setstate__, raises: it is about this file.
    except Exception as error:
        raise _unreadable(path, contents.TORCHSCRIPT, error) from error
    return Opened(model, str(model.original_name), mode="torchscript")


# -- pickles -----------------------------------------------------------------------------


def _open_pickle(path: Path, key: str | None, search_paths: Sequence[str]) -> Opened:
    source.search_first([str(path.parent), str(Path.cwd()), *search_paths])
    hint = ""
    if any(name.startswith("__main__.") for name in globals_beyond_tensors(path)):
        hint = (
            ". Its class was defined in the script that saved it; name that class instead "
            "(FILE.py:CLASS --weights with --trust-source)"
        )
    with source.user_code(f"unpickling {path.name}", hint):
        content = torch.load(path, map_location="cpu", weights_only=False)
    model = _module_in(content, path, key)
    return Opened(model, type(model).__name__)


def _module_in(content: Any, path: Path, key: str | None) -> torch.nn.Module:
    """The pickled module: the object itself, or in a dict at `key` or the only one there."""
    value = follow(content, key) if key else content
    if isinstance(value, torch.nn.Module):
        return value
    keys: list[str] = []
    if isinstance(value, Mapping):
        keys = [str(k) for k, item in value.items() if isinstance(item, torch.nn.Module)]
        if len(keys) == 1:
            return _module_in(value, path, keys[0])
    if keys:
        raise WorkerError(
            "usage",
            f"{path.name} holds {len(keys)} modules: {', '.join(keys)}; choose one with "
            "--weights-key",
            keys,
            code="choose-one",
        )
    raise WorkerError(
        "usage", f"{path.name} holds a {type(value).__name__} without a module", code="not-a-model"
    )


# -- exported programs -------------------------------------------------------------------


def _open_program(path: Path) -> Opened:
    try:
        program = torch.export.load(str(path))
        model = _as_module(program)
    except Exception as error:
        raise _unreadable(path, contents.PROGRAM, error) from error
    opened = Opened(model, "ExportedProgram", mode="exported program")
    values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    tensors: list[tuple[str, Any]] = []
    for name, given in _user_inputs(program, model):
        value = values.get(given) if isinstance(given, str) else None
        if isinstance(value, torch.Tensor):
            tensors.append((name, value))
        elif value is None:
            opened.constants[name] = given
        else:
            raise WorkerError("unsupported", f"input {name} is a {type(value).__name__}")
    _declare(opened, tensors)
    return opened


def _as_module(program: Any) -> Any:
    model = program.module()

    def stay(self: Any, mode: bool = False) -> Any:
        return self

    # A program is as it was exported; the module's own train() and eval() raise.
    model.train = types.MethodType(stay, model)
    model.eval = types.MethodType(stay, model)
    return model


def _user_inputs(program: Any, model: Any) -> Iterator[tuple[str, Any]]:
    """Each of the user's inputs by its dotted name: a placeholder's name, or a constant."""
    given = program.graph_signature.user_inputs
    parameters = list(inspect.signature(model.forward).parameters)
    tree = pytree.tree_unflatten(list(range(len(given))), program.call_spec.in_spec)
    for path, index in pytree.tree_flatten_with_path(tree)[0]:
        top, *inner = (_key(step) for step in path[1:])
        name = parameters[top] if isinstance(top, int) else str(top)
        if any(isinstance(step, int) for step in inner):
            raise WorkerError("unsupported", f"input {name} is a list or tuple, not a tensor")
        yield ".".join([name, *map(str, inner)]), given[index]


def _key(step: Any) -> Any:
    """What a step of a pytree path holds: an index, a key or an attribute's name."""
    for attribute in ("idx", "key", "name"):
        if hasattr(step, attribute):
            return getattr(step, attribute)
    return str(step)


def _declare(opened: Opened, tensors: Sequence[tuple[str, Any]]) -> None:
    """Fill in the inputs: the first free first dimension is the batch, others get names."""
    symbols: dict[str, str] = {}
    firsts = [str(t.shape[0]) for _, t in tensors if t.dim() and not isinstance(t.shape[0], int)]
    if firsts:
        symbols[firsts[0]] = _BATCH
    for name, tensor in tensors:
        shape: list[Any] = []
        for axis, dim in enumerate(tensor.shape):
            if isinstance(dim, int):
                shape.append(dim)
                continue
            text = str(dim)
            readable = text.isidentifier() and not _MACHINE_MADE.fullmatch(text)
            fresh = text if readable else f"{name.replace('.', '_')}_dim{axis}"
            symbol = symbols.setdefault(text, fresh)
            opened.sizes.setdefault(symbol, _size(dim, 2))
            shape.append(symbol)
        opened.inputs.append({"name": name, "dtype": dtype_name(tensor.dtype), "shape": shape})


def _size(dim: Any, least: int) -> int:
    """The size that the program was exported with, as a size to trace with."""
    hint = getattr(dim.node, "hint", None)
    return max(int(hint), least) if isinstance(hint, int) else least
