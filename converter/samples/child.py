"""The process in which a user's sample function runs: it writes what that yields to one file.

Started by ``converter.samples.function`` and spoken to in JSON lines (``converter.runtime.child``).
Two requests come: ``open`` takes the file, which the parent unlinks then, so that nothing stays
behind however both end; ``collect`` runs the function. Each item yielded is written as a line of
JSON ({"arrays": names, "label": bool}) and its arrays in numpy's own format. The process
ends when its standard input does. Standard library and numpy only.
"""

from __future__ import annotations

import collections.abc
import errno
import importlib.util
import json
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import IO, Any

import numpy as np

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class UserError(Exception):
    """An error for the user.

    Args:
        kind: ``usage``, ``dependency`` or ``machine``.
        message: What went wrong.
        details: More of it, one item a line.
    """

    def __init__(self, kind: str, message: str, details: list[str] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.details = details or []


def collect(out: IO[bytes], file: str, function: str, search_paths: list[str], limit: int) -> int:
    """Writes what a function yields.

    Args:
        out: Where items go, one after the other.
        file: The user's Python file.
        function: The function's name.
        search_paths: Folders that go onto the import path.
        limit: Items at most; 0 for all.

    Returns:
        How many items were written.

    Raises:
        UserError: The function isn't there, fails, or yields what is no sample.
    """
    found = _load(file, function, search_paths)
    items = 0
    try:
        for item in _iterate(found, function):
            _write(out, *_split(item), where=f"item {items} of {function}")
            items += 1
            if items == limit:
                break
        out.flush()
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        if isinstance(error, OSError) and error.errno in _FULL:
            raise UserError("machine", f"keeping the samples of {function}: {error}") from error
        raise _of_user(error, file, function) from error
    return items


def _load(file: str, function: str, search_paths: list[str]) -> Any:
    sys.path[:0] = [str(Path(file).resolve().parent), *search_paths]
    name = Path(file).stem
    try:
        sys.dont_write_bytecode = True  # the user's folder stays as it was: no __pycache__ in it
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    except ImportError as error:
        what = f"{Path(file).name} imports {error.name or error}, which can't be imported"
        raise UserError("dependency", what, _frames(error, file)) from error
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        raise _of_user(error, file, Path(file).name) from error
    found = getattr(module, function, None)
    if not callable(found):
        here = [key for key, value in vars(module).items() if _is_own(value, module)]
        raise UserError(
            "usage",
            f"{Path(file).name} has no function {function!r}",
            [f"it has {key}" for key in here],
        )
    return found


def _is_own(value: Any, module: Any) -> bool:
    return callable(value) and getattr(value, "__module__", None) == module.__name__


def _iterate(found: Any, function: str) -> Any:
    items = found()
    if isinstance(items, (dict, str, bytes, np.ndarray)) or not isinstance(
        items, collections.abc.Iterable
    ):
        raise UserError(
            "usage",
            f"{function}() returned {type(items).__name__}, but has to yield samples one by one",
            [
                "a sample is an array, a dict of arrays with the inputs' names as keys, or "
                "(sample, label)"
            ],
        )
    return items


def _split(item: Any) -> tuple[dict[str, Any], Any]:
    """An item's arrays by name (``""`` for a bare one) and its label."""
    label = None
    if isinstance(item, tuple) and len(item) == 2:
        item, label = item
    if isinstance(item, dict):
        return {str(name): value for name, value in item.items()}, label
    return {"": item}, label


def _write(out: IO[bytes], arrays: dict[str, Any], label: Any, where: str) -> None:
    ready = {name: _array(value, f"{where}, {name!r}") for name, value in arrays.items()}
    head = {"arrays": list(ready), "label": label is not None}
    out.write(json.dumps(head).encode() + b"\n")
    stored = [*ready.values(), *([] if label is None else [_array(label, f"{where}, label")])]
    for array in stored:
        np.lib.format.write_array(out, array, version=(2, 0), allow_pickle=False)


def _array(value: Any, where: str) -> np.ndarray[Any, Any]:
    if hasattr(value, "detach"):  # a tensor with gradients
        value = value.detach().cpu()
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise UserError("usage", f"{where}: it can't become an array ({error})") from error
    if array.dtype.hasobject:
        raise UserError("usage", f"{where}: {type(value).__name__} can't become an array")
    return array


def _of_user(error: BaseException, file: str, where: str) -> UserError:
    what = f"{where} raised {type(error).__name__}: {error}"
    return UserError("usage", what, _frames(error, file))


def _frames(error: BaseException, file: str) -> list[str]:
    """The lines of the user's own file that the error went through."""
    name = str(Path(file).resolve())
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if str(Path(frame.filename).resolve()) == name]
    return [f"{Path(name).name}, line {frame.lineno}: {frame.line}" for frame in own]


def _end_with_parent(requests: IO[bytes]) -> None:
    def wait() -> None:
        while requests.read(1 << 16):
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def _answer(answers: IO[bytes], request: dict[str, Any], **body: Any) -> None:
    answers.write(json.dumps({"id": request["id"], **body}).encode() + b"\n")
    answers.flush()


def main() -> None:
    """Serves the two requests; what is printed meanwhile goes to standard error."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    request = json.loads(requests.readline())
    with Path(request["params"]["spool"]).open("wb") as out:
        _answer(answers, request, result={})
        if not (line := requests.readline()):
            return
        request = json.loads(line)
        _end_with_parent(requests)
        try:
            items = collect(out, **request["params"])
        except UserError as error:
            body = {"kind": error.kind, "message": str(error), "details": error.details}
            _answer(answers, request, error=body)
        else:
            _answer(answers, request, result={"items": items})
    os._exit(0)  # a user's thread may not keep the process


if __name__ == "__main__":
    main()
