"""The core names no source, target or server: what is known of one stands in its own folder."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import converter
from converter import plugins
from converter.options.request import taken
from converter.protocols.emitter import Emitter
from converter.protocols.server import Server
from converter.runtime.frameworks import frameworks

ROOT = Path(converter.__file__).parent

_OURS = {"onnx", "ort"}
"""Words of the core's own too: its graphs are ONNX, and ONNX Runtime runs them."""

_BOTH = {"keras", "pytorch"}
"""Targets that are sources first: the lines that name those are counted below."""

_WORDS = {"web"}
"""Names that other words hold: WebP."""

NAMED = {
    "api.py": "an example for users",
    "cli/convert.py": "examples for users, and suffixes of sources",
    "commands/doctor.py": "a provider of ONNX Runtime",
    "cli/sweep.py": "an example of a command line",
    "options/keywords.py": "generated: the options of ours that are installed",
    "options/sweep.py": "examples of command lines and recipes",
    "options/source_options.py": "texts of what sources share",
    "options/values.py": "a provider of ONNX Runtime",
    "pipeline/cache.py": "a provider of ONNX Runtime",
    "precision/calibrate/thresholds.py": "the title of a paper",
    "precision/weights/forms.py": "where a number comes from",
    "runtime/ort.py": "a provider of ONNX Runtime",
    "serving/export.py": "the options of a tool",
    "serving/rpc.py": "the package that has the protocol's messages",
    "runtime/ort_gpu.py": "a provider of ONNX Runtime",
}
"""Files that do name one, and what for: this list gets shorter, never longer."""


def _names() -> re.Pattern[str]:
    found = {name for kind in ("emitters", "servers") for name in plugins.available(kind)}
    whole = found & _WORDS
    parts = sorted({*found - _OURS - _BOTH - whole, "litert", "core ml"})
    return re.compile("|".join([*parts, *(rf"\b{name}\b" for name in whole)]), re.IGNORECASE)


def test_the_core_names_no_target_and_no_server() -> None:
    names = _names()
    files = {path.relative_to(ROOT).as_posix(): path for path in ROOT.rglob("*.py")}
    assert {name for name, path in files.items() if names.search(path.read_text())} == set(NAMED)


_IR = "the IR as a file: what is written where no target is named"
_PACKAGE = "the package that holds the IR"
_PROVIDER = "a provider of ONNX Runtime"
LITERALS = {
    "api.py": {"onnx": _IR},
    "cli/split.py": {"onnx": _IR},
    "commands/split.py": {"onnx": _IR},
    "options/target_options.py": {"onnx": _IR},
    "options/values.py": {"tensorrt": _PROVIDER},
    "passes/libraries/onnxslim.py": {"onnx": _PACKAGE},
    "passes/opset/upgrade.py": {"onnx": _PACKAGE},
    "pipeline/plan.py": {"onnx": _PACKAGE},
    "runtime/ort.py": {"ort": "ONNX Runtime, which runs the IR", "tensorrt": _PROVIDER},
    "runtime/versions.py": {"onnx": _PACKAGE},
    "serving/containers.py": {"docker": "a program that runs servers"},
}
"""Texts and modules that are called as a plug-in is, and what for: never longer."""


def test_no_text_and_no_module_is_called_as_a_plug_in_is() -> None:
    kinds = ("parsers", "emitters", "servers", "deployments")
    names = {name for kind in kinds for name in plugins.available(kind)}
    names |= {name.replace("-", "_") for name in names}
    found: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        called = {part.removesuffix(".py") for part in path.relative_to(ROOT).parts}
        called |= set(_texts(ast.parse(path.read_text())))
        if called & names:
            found[path.relative_to(ROOT).as_posix()] = called & names
    assert found == {path: set(named) for path, named in LITERALS.items()}


def _texts(tree: ast.Module) -> Iterator[str]:
    """The texts that a module has in its code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


SOURCES_NAMED = {
    "api.py": 1,
    "cli/convert.py": 1,
    "cli/mmdownload.py": 2,
    "options/source_options.py": 1,
    "passes/fuse/limits.py": 1,
    "passes/fuse/moments.py": 1,
    "passes/fuse/normalization.py": 1,
    "passes/libraries/child.py": 1,
    "precision/int8/weight_only.py": 1,
    "preparation/staged/base.py": 1,
}
"""Lines that name a source, by file: this only ever shrinks."""


def sources() -> set[str]:
    """Names of the sources that are no target too, and the distributions that are theirs alone."""
    targets = set(plugins.available("emitters")) - _BOTH
    parsers = set(plugins.available("parsers")) - targets
    return parsers | {n for item in frameworks() if item.extra not in targets for n in item.own}


def test_no_source_is_named() -> None:
    names = sources()
    assert {"pytorch", "torch", "keras", "huggingface", "transformers", "sklearn"} <= names
    word = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, sorted(names)))})(?![\w-])", re.I)
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        lines = [line for line in path.read_text().splitlines() if word.search(line)]
        if lines:
            found[path.relative_to(ROOT).as_posix()] = len(lines)
    assert found == SOURCES_NAMED


def test_the_core_imports_none() -> None:
    for path in ROOT.rglob("*.py"):
        assert not re.search(r"^\s*(from|import) emitters\b", path.read_text(), re.MULTILINE), path


def test_each_declares_its_own() -> None:
    for name in plugins.available("emitters"):
        target: Emitter = plugins.load("emitters", name)
        assert isinstance(target, Emitter) and target.name == name
        assert "fp32" in target.precisions and not set(target.precisions) & set(target.lacks)
        assert ("int16x8" in target.precisions) == bool(target.scheme and target.scheme.sixteen)
    for name in plugins.available("servers"):
        server: Server = plugins.load("servers", name)
        assert isinstance(server, Server) and server.name == name and server.accepts
        assert server.publishes == (type(server).publish is not Server.publish)
        kinds = type(server).__mro__[:-3]  # without Server, ABC and object
        folders = {Path(inspect.getfile(kind)).parent for kind in kinds}
        code = "".join(path.read_text() for folder in folders for path in folder.glob("*.py"))
        unread = [field for field in taken(server.options) if f".{field}" not in code]
        assert not unread, f"{name} says that it takes options which nothing in it reads"


def test_sources_targets_and_servers_keep_nothing() -> None:
    """One object of each serves every call, and calls may overlap."""
    for kind in ("parsers", "emitters", "servers"):
        for name in plugins.available(kind):
            made = plugins.load(kind, name)
            assert not vars(made) and plugins.load(kind, name) is made
            code = "".join(inspect.getsource(each) for each in type(made).__mro__[:-1]
                           if not each.__module__.startswith(("abc", "typing")))  # fmt: skip
            assert not re.search(r"self\.\w+(: [^=\n]+)? = |cached_property", code), name
