"""Entry point of the worker: `PYTHON .../parsers/worker/main.py FRAMEWORK`.

Talks JSON lines over stdin and stdout; see `protocol.py` for the messages.
"""

import os
import sys

# A script's own folder comes first on sys.path. Siblings there would shadow the user's modules
# and even the framework's, so it has to go before anything else is imported.
_HERE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120
sys.path[:] = [entry for entry in sys.path if not entry or os.path.realpath(entry) != _HERE]

import importlib.util  # noqa: E402

PACKAGE = "_modelyard_worker"
BACKENDS = {
    "torch": "torch_backend:TorchBackend",
    "huggingface": "hf_backend:HuggingFaceBackend",
    "tensorflow": "tf_backend:TensorFlowBackend",
    "litert": "litert_backend:LiteRTBackend",
}


def _load_package() -> None:
    """Make the sibling files importable as `_modelyard_worker.*`."""
    spec = importlib.util.spec_from_file_location(
        PACKAGE,
        os.path.join(_HERE, "__init__.py"),  # noqa: PTH118
        submodule_search_locations=[_HERE],
    )
    if spec is None or spec.loader is None:
        raise SystemExit("the worker's own files are incomplete")
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)


def main() -> None:
    """Serve requests until stdin ends; argument 1 names the framework, torch by default."""
    name = sys.argv[1] if len(sys.argv) > 1 else "torch"
    if name not in BACKENDS:
        raise SystemExit(f"unknown framework {name!r}; one of: {', '.join(BACKENDS)}")
    _load_package()
    importlib.import_module(f"{PACKAGE}.carried").install()
    protocol = importlib.import_module(f"{PACKAGE}.protocol")
    module, _, attribute = BACKENDS[name].partition(":")
    backend = getattr(importlib.import_module(f"{PACKAGE}.{module}"), attribute)
    protocol.serve(backend)


if __name__ == "__main__":
    main()
