"""Entry point of the worker: `PYTHON .../worker/main.py BACKEND [--fork]`.

The backend is `MODULE:CLASS` in `parsers`, or `FILE.py:CLASS` of a plug-in that lies elsewhere. It
talks JSON lines over stdin and stdout; see `protocol.py` for the messages.
"""

import os
import sys

# A script's own folder comes first on sys.path. Siblings there would shadow the user's modules
# and even the framework's, so it has to go before anything else is imported.
_HERE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120
sys.path[:] = [entry for entry in sys.path if not entry or os.path.realpath(entry) != _HERE]

import importlib  # noqa: E402
from types import ModuleType  # noqa: E402

PACKAGE = "_modelyard_parsers"
_PARSERS = os.path.dirname(_HERE)  # noqa: PTH120
_ELSEWHERE = "_modelyard_plugin"
_OFFERED = ("backend", "errors", "packages", "protocol", "timing")


def _load_package(name: str = PACKAGE, folder: str = _PARSERS) -> None:
    """Make a folder's modules, ours or a plug-in's, importable as `name.*`, whatever the user calls
    `parsers`."""
    package = ModuleType(name)
    package.__path__ = [folder]
    sys.modules[name] = package


def _load_plugin(file: str) -> str:
    """Make importable what lies beside a plug-in's file, and for it, as `parsers.worker.*`, what
    backends share; gives the file's module."""
    for name in _OFFERED:
        shared = importlib.import_module(f"{PACKAGE}.worker.{name}")
        sys.modules[f"parsers.worker.{name}"] = shared
    folder, module = os.path.split(file)
    sys.modules["parsers.worker.errors"].OURS.append(folder)
    _load_package(_ELSEWHERE, folder)
    return f"{_ELSEWHERE}.{module[:-3]}"


def main() -> None:
    """Serve requests until stdin ends; argument 1 is the backend; `--fork`: several models."""
    if len(sys.argv) < 2 or sys.argv[2:] not in ([], ["--fork"]):
        raise SystemExit("usage: main.py MODULE:CLASS [--fork]")
    _load_package()
    importlib.import_module(f"{PACKAGE}.worker.lent_packages").install()
    protocol = importlib.import_module(f"{PACKAGE}.worker.protocol")
    module, _, attribute = sys.argv[1].rpartition(":")
    name = _load_plugin(module) if module.endswith(".py") else f"{PACKAGE}.{module}"
    backend = getattr(importlib.import_module(name), attribute)
    protocol.serve(backend, forking=bool(sys.argv[2:]))


if __name__ == "__main__":
    main()
