"""Find and import the user's own code, whatever its files are called."""

from __future__ import annotations

import difflib
import importlib
import importlib.machinery
import importlib.util
import keyword
import os
import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...worker.errors import WorkerError, from_user_code

# The top-level packages of Modelyard. A user's package of the same name wins, always.
OWN_PACKAGES = frozenset({"converter", "emitters", "parsers", "recipes", "zoo"})
PRIVATE = "_modelyard_user"
# Parent folders offered to relative imports of a file that is in no package. They cost nothing.
_PARENT_LEVELS = 4
_RELATIVE = re.compile(r"^[ \t]*from[ \t]+(\.+)", re.MULTILINE)
_STDLIB = frozenset(getattr(sys, "stdlib_module_names", sys.builtin_module_names))


class _UsersFirst:
    """Finder that keeps Modelyard's own packages out of the user's imports.

    Modelyard may be installed in the interpreter that runs this worker, in the usual way or by
    an editable install's finder. A folder without __init__.py would lose against it.
    """

    def __init__(self, folders: Sequence[str], ours: str) -> None:
        self._folders = list(folders)
        self._ours = os.path.realpath(ours)

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The user's module for a name of ours; None for every other name."""
        if path is not None or name not in OWN_PACKAGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, self._folders)
        if spec is not None:
            return spec
        others = (f for f in sys.meta_path if f is not self and hasattr(f, "find_spec"))
        spec = next((s for s in (f.find_spec(name, None) for f in others) if s), None)
        if spec is None or not self._is_ours(spec):
            return spec
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def _is_ours(self, spec: importlib.machinery.ModuleSpec) -> bool:
        places = [spec.origin, *(spec.submodule_search_locations or [])]
        prefix = os.path.join(self._ours, "")  # noqa: PTH118
        return any(os.path.realpath(p).startswith(prefix) for p in places if p)


def search_first(folders: Sequence[str]) -> None:
    """Put folders in front of sys.path, in this order, and let user modules there win."""
    wanted = list(dict.fromkeys(os.path.realpath(f) for f in folders))
    sys.path[:] = wanted + [entry for entry in sys.path if entry not in wanted]
    ours = str(Path(__file__).resolve().parents[3])
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _UsersFirst)]
    sys.meta_path.insert(0, _UsersFirst(wanted, ours))
    importlib.invalidate_caches()


@contextmanager
def user_code(doing: str, hint: str = "") -> Iterator[None]:
    """Turn whatever user code raises, exit() included, into a WorkerError."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise from_user_code(error, doing, hint) from error


def split(source: str) -> tuple[str, str]:
    """`place:attribute` in two. Raises usage when the attribute is missing."""
    place, colon, attribute = source.rpartition(":")
    if not colon or not place or not attribute or "/" in attribute or "\\" in attribute:
        raise WorkerError(
            "usage",
            f"{source!r} does not name a model: write FILE.py:NAME or package.module:NAME",
            code="choose-one",
        )
    return place, attribute


def _is_free(name: str) -> bool:
    """Whether a file may be imported under its own name without hiding another module."""
    usable = name.isidentifier() and not keyword.iskeyword(name)
    return usable and name not in sys.modules and name not in _STDLIB


def _run_file(name: str, path: Path, package: list[str] | None = None) -> types.ModuleType:
    """Import a file under the given full name; `package` is its __path__ if it is one."""
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=package)
    if spec is None or spec.loader is None:
        raise WorkerError("usage", f"{path} is not a Python file", code="unknown-format")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:  # exit() too leaves no half a module behind; all of it goes on
        sys.modules.pop(name, None)
        raise
    return module


def _top_package(folder: Path) -> Path:
    """The outermost package folder that holds `folder`, itself a package."""
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _import_in_package(path: Path, top: Path) -> types.ModuleType:
    """Import a file by its dotted name below the package `top`."""
    inner = list(path.relative_to(top).with_suffix("").parts)
    if inner[-1] == "__init__":
        inner.pop()
    search_first([str(top.parent), str(Path.cwd())])
    # Last, so that a types.py or a logging.py in the package shadows nothing.
    sys.path.append(str(path.parent))
    name = top.name
    if not _is_free(name):
        name = f"{PRIVATE}_{name}"
        if name not in sys.modules:
            _run_file(name, top / "__init__.py", [str(top)])
    return importlib.import_module(".".join([name, *inner]))


def _import_loose(path: Path) -> types.ModuleType:
    """Import a file that is in no package and imports nothing relatively."""
    search_first([str(path.parent), str(Path.cwd())])
    name = path.stem if _is_free(path.stem) else f"{PRIVATE}_{path.stem}"
    return _run_file(name, path)


def _import_relative(path: Path) -> types.ModuleType:
    """Import a file with relative imports whose folder has no __init__.py.

    Its folder and the folders above become packages under a private name.
    """
    search_first([str(path.parent), str(Path.cwd())])
    chain = [path.parent, *path.parent.parents][:_PARENT_LEVELS]
    name = ""
    for depth, folder in enumerate(reversed(chain)):
        parent, leaf = name, folder.name if folder.name.isidentifier() else f"level{depth}"
        name = f"{parent}.{leaf}" if parent else PRIVATE
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
        if parent:
            setattr(sys.modules[parent], leaf, package)
    return _run_file(f"{name}.{path.stem}", path)


def _package_above(path: Path, levels: int) -> Path | None:
    """The top package that holds the file, at most `levels` folders without __init__.py away."""
    for folder in [path.parent, *path.parent.parents][: max(levels, 1)]:
        if (folder / "__init__.py").is_file():
            return _top_package(folder)
    return None


def import_file(path: Path) -> types.ModuleType:
    """Import a Python file. Raises usage, dependency or source errors."""
    if not path.is_file():
        raise WorkerError("usage", f"there is no file {path}", code="file-not-found")
    path = path.resolve()
    sys.argv[:] = [str(path)]
    text = path.read_bytes().decode("utf-8", errors="replace")
    levels = max((len(dots) for dots in _RELATIVE.findall(text)), default=0)
    top = _package_above(path, levels)
    with user_code(f"importing {path.name}"):
        if top is not None:
            return _import_in_package(path, top)
        return _import_relative(path) if levels else _import_loose(path)


def import_module(name: str, search_paths: Sequence[str]) -> types.ModuleType:
    """Import a module by its dotted name; cwd and `search_paths` come first."""
    search_first([str(Path.cwd()), *search_paths])
    sys.argv[:] = [name]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            places = ", ".join([str(Path.cwd()), *search_paths])
            raise WorkerError(
                "usage",
                f"there is no module {name!r} in {places} or in {sys.executable}",
                code="code-not-found",
            ) from error
        raise from_user_code(error, f"importing {name}") from error
    except (Exception, SystemExit) as error:
        raise from_user_code(error, f"importing {name}") from error


def _find_attribute(
    module: types.ModuleType, place: str, attribute: str, is_model: Callable[[Any], bool]
) -> Any:
    """Follow a dotted attribute from a module. Raises usage, with the names that would do."""
    value: Any = module
    for step in attribute.split("."):
        try:
            value = getattr(value, step)
        except AttributeError as error:
            names = [n for n, v in vars(module).items() if not n.startswith("_") and is_model(v)]
            close = difflib.get_close_matches(attribute, list(vars(module)), 3)
            known = sorted(dict.fromkeys([*names, *close]))
            hint = f"; it has: {', '.join(known)}" if known else "; it defines no model"
            raise WorkerError(
                "usage", f"{place} has no {attribute!r}{hint}", code="code-not-found"
            ) from error
    return value


def find(source: str, search_paths: Sequence[str], is_model: Callable[[Any], bool]) -> Any:
    """Import the user's code and return the object.

    Args:
        source: `FILE.py:NAME` or `package.module:NAME`.
        search_paths: Folders that modules are looked for in.
        is_model: Tells which objects of a module to offer when the name is not there.

    Raises:
        WorkerError: ``usage``, ``dependency`` or ``source``.
    """
    place, attribute = split(source)
    is_file = place.endswith(".py") or "/" in place or "\\" in place
    module = import_file(Path(place)) if is_file else import_module(place, search_paths)
    return _find_attribute(module, place, attribute, is_model)
