"""The names that the vendor's bindings have, of versions whose libraries aren't installed.

The bindings come alone (`tensorrt-cu13-bindings`...); the libraries that they link to come from the
vendor's own host. TensorRT-RTX's export the same C functions, so that they stand in while the
bindings are imported, in a process of its own; nothing but names is asked for.
"""

import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from zoo.packages import fetch_package_file

PUBLISHED = {
    "10.16.1.11": ("tensorrt-cu12-bindings",
                   "9bf84a17f9df12e2c907d2f03b57139a8cfc9b034b90f701eec3e495caf8ad15"),
    "11.4.0.106": ("tensorrt-cu13-bindings",
                   "d07cb6dfd4300c794285e056633c98ffa54c63e06f828b903fdb4abbe2158938"),
}  # fmt: skip
"""For CPython 3.11 on Linux x86-64: the package, and the sha256 of the module in it."""

_LOAD = """
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.ExtensionFileLoader(sys.argv[1], sys.argv[2])
spec = importlib.util.spec_from_file_location(sys.argv[1], sys.argv[2], loader=loader)
module = importlib.util.module_from_spec(spec)
loader.exec_module(module)
"""
_LIST = """
import json
print(json.dumps({"": dir(module), **{name: dir(getattr(module, name)) for name in dir(module)}}))
"""

Names = dict[str, frozenset[str]]
"""The attributes of each class and enum by its name; of the module itself under ``""``."""


@cache
def names(version: str) -> Names:
    """What the bindings of that version hold; skips where they can't be imported."""
    if version == "rtx":
        return _read(["import tensorrt_rtx as module" + _LIST], "")
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the bindings in the tests are those for Python 3.11")
    package, sha256 = PUBLISHED[version]
    module = fetch_package_file(package, version, "tensorrt_bindings/tensorrt.so", sha256)
    folder = _stand_ins(version.split(".")[0], module.parent)
    return _read([_LOAD + _LIST, "tensorrt", str(module)], folder)


def _read(code: list[str], libraries: str) -> Names:
    line, env = [sys.executable, "-P", "-c", *code], {"LD_LIBRARY_PATH": libraries}
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0, done.stderr
    return {name: frozenset(items) for name, items in json.loads(done.stdout).items()}


def _stand_ins(major: str, folder: Path) -> str:
    """A folder with libraries of the names that the bindings ask for, and the real ones' folder."""
    import tensorrt_rtx_libs

    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to make a library of one function with")
    real = Path(tensorrt_rtx_libs.__file__).parent
    made = folder / f"stand-ins-{major}"
    made.mkdir(exist_ok=True)
    for name, other in (("infer", "rtx"), ("onnxparser", "onnxparser_rtx")):
        link = made / f"libnv{name}.so.{major}"
        link.unlink(missing_ok=True)
        link.symlink_to(real / f"libtensorrt_{other}.so.1")
    source = made / "plugin.c"
    source.write_text("int initLibNvInferPlugins(void *log, const char *space) { return 0; }\n")
    target = made / f"libnvinfer_plugin.so.{major}"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(target), str(source)], check=True, timeout=60
    )
    return f"{made}:{real}"
