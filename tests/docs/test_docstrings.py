"""Public docstrings say what each argument means, and their examples run."""

from __future__ import annotations

import ast
import doctest
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import modelyard
from converter import api
from tests.docs.running import HERE, ROOT

FOLDERS = ("bench", "converter", "emitters", "modelyard", "parsers", "recipes", "zoo")
FEW = 2
"""Up to so many arguments, a docstring needs no ``Args:``."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Classes = Mapping[str, Sequence[ast.ClassDef]]


def described(node: ast.AST) -> set[str]:
    """The arguments that a docstring's ``Args:`` names; ruff's D417 holds such a section whole."""
    found = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)*)", ast.get_docstring(node) or "", re.M)  # type: ignore[arg-type]
    return set(re.findall(r"^    \*{0,2}(\w+):", found[1], re.M)) if found else set()


def arguments(function: Function, *, bound: bool) -> list[str]:
    """The public ones, without the first where the function is bound to an object."""
    given = function.args.posonlyargs + function.args.args
    names = [item.arg for item in (*given[bound:], *function.args.kwonlyargs)]
    return [name for name in names if not name.startswith("_")]


def name_of(node: ast.expr) -> str:
    whole = node.value if isinstance(node, ast.Subscript) else node
    return ast.unparse(whole).rpartition(".")[2]


def above(cls: ast.ClassDef, classes: Classes) -> Iterator[ast.ClassDef]:
    """The classes that a class derives from, by their names."""
    for base in cls.bases:
        for found in classes.get(name_of(base), ()):
            if found is not cls:
                yield from (found, *above(found, {**classes, cls.name: ()}))


def public(
    body: Sequence[ast.stmt], cls: ast.ClassDef | None = None
) -> Iterator[tuple[Function, ast.ClassDef | None]]:
    """Functions and methods that others call, but for commands, whose docstring is their help."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public(node.body, node)
        elif isinstance(node, ast.If | ast.Try):
            yield from public(node.body, cls)
        elif isinstance(node, Function):
            marks = " ".join(ast.unparse(mark) for mark in node.decorator_list)
            shown = not node.name.startswith("_") or (cls and node.name == "__init__")
            if shown and not re.search(r"\boverload\b|\.command\(|\.group\(", marks):
                yield node, cls


def undescribed(sources: Mapping[str, str]) -> list[str]:
    """The functions of many arguments whose docstring doesn't say what one means.

    A method may leave them to the method of its name in a class above, or in an interface.
    """
    trees = {path: ast.parse(text) for path, text in sources.items()}
    classes: dict[str, list[ast.ClassDef]] = {}
    for node in (node for tree in trees.values() for node in tree.body):
        if isinstance(node, ast.ClassDef):
            classes.setdefault(node.name, []).append(node)
    every = [cls for found in classes.values() for cls in found]
    interfaces = [c for c in every if {"ABC", "Protocol"} & {name_of(base) for base in c.bases}]
    wrong = []
    for path, tree in trees.items():
        for function, cls in public(tree.body):
            static = any(name_of(mark) == "staticmethod" for mark in function.decorator_list)
            names = set(arguments(function, bound=cls is not None and not static))
            if len(names) <= FEW or names <= (said := described(function)):
                continue
            if cls is not None and function.name == "__init__" and names <= described(cls):
                continue
            inherited = (
                described(method)
                for other in ([*above(cls, classes), *interfaces] if cls is not None else ())
                for method in other.body
                if isinstance(method, Function) and method.name == function.name
            )
            if not any(names <= known for known in inherited):
                place = f"{path}:{function.lineno} {function.name}"
                wrong.append(f"{place}: {', '.join(sorted(names - said))}")
    return wrong


def test_many_arguments_are_described() -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    sources = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in files}
    assert len(files) > 1000
    assert undescribed(sources) == []


ARGS = '"""Does.\n{0}\n{0}Args:\n{0}    a: One.\n{0}    b: Two.\n{0}    c: Three.\n{0}"""'
TOP, METHOD = ARGS.format("    "), ARGS.format("        ")


@pytest.mark.parametrize(
    ("source", "lacks"),
    [
        ("def f(a, b): ...", ""),
        ("def f(a, b, c): ...", "a, b, c"),
        ("def f(a, b, *, c): ...", "a, b, c"),
        (f"def f(a, b, c):\n    {TOP}", ""),
        (f"def f(a, b, c, d):\n    {TOP}", "d"),
        (f"def f(a, b, c):\n    {TOP.replace('Three.', 'c').replace(' c:', ' a, c:')}", "c"),
        ("def _f(a, b, c): ...", ""),
        ("@main.command('x')\ndef f(a, b, c): ...", ""),
        ("class C:\n    def f(self, a, b): ...", ""),
        ("class C:\n    def f(self, a, b, c): ...", "a, b, c"),
        ("class C:\n    @staticmethod\n    def f(a, b, c): ...", "a, b, c"),
        (f"class C:\n    {TOP}\n    def __init__(self, a, b, c): ...", ""),
        ("class C:\n    def __init__(self, a, b, c): ...", "a, b, c"),
        ("class _C:\n    def f(self, a, b, c): ...", ""),
        (f"class B:\n    def f(self, a, b, c):\n        {METHOD}\n"
         "class C(B):\n    def f(self, a, b, c): ...", ""),
        (f"class B:\n    def f(self, a, b, c):\n        {METHOD}\n"
         "class C(B):\n    def f(self, a, b, x): ...", "a, b, x"),
        (f"class B:\n    def f(self, a, b, c):\n        {METHOD}\n"
         "class C:\n    def f(self, a, b, c): ...", "a, b, c"),
        (f"class B(Protocol[T]):\n    def f(self, a, b, c):\n        {METHOD}\n"
         "class C:\n    def f(self, a, b, c): ...", ""),
    ],
)  # fmt: skip
def test_what_lacks_a_description_is_found(source: str, lacks: str) -> None:
    found = undescribed({"x.py": source})
    assert [text.rpartition(": ")[2] for text in found] == ([lacks] if lacks else [])


NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 7, stride=4)

    def forward(self, x):
        return torch.relu(self.stem(x)).mean(dim=(2, 3))
"""
RECIPE = """
vars: {target: onnx}
source: net.onnx
samples: photos/
to: ${target}
bench: false
"""
EXAMPLES = {
    name: function.__doc__
    for name in sorted(modelyard.__all__)
    if ">>> " in ((function := getattr(modelyard, name)).__doc__ or "")
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where examples run, with the files that they name."""
    folder = tmp_path_factory.mktemp("examples")
    subprocess.run([sys.executable, HERE / "small.py"], cwd=folder, check=True)
    (folder / "net.py").write_text(NET)
    (folder / "net.yaml").write_text(RECIPE)
    (folder / "photo.png").write_bytes(min((folder / "photos").iterdir()).read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        given: dict[str, Any] = {"samples": "photos/", "bench": False}
        classes = {"kind": "classes", "output": "scores", "labels": ["bars", "stripes", "plain"]}
        modelyard.convert("net.onnx", precision=["fp32", "int8"], answer=[classes],
                          out="build/net", **given)  # fmt: skip
        modelyard.convert("net.onnx", to="ort", out="build/ort", **given)
        for _ in range(2):
            modelyard.convert("net.onnx", serve="triton", repository="models", out="build/other",
                              overwrite=True, **given)  # fmt: skip
        yield folder


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_shows_what_it_says(name: str, folder: Path) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    names = {"modelyard": modelyard, "np": np}
    example = doctest.DocTestParser().get_doctest(EXAMPLES[name], names, name, None, 0)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=flags).run(example, out=said.append)
    assert not said, "".join(said)


def test_every_example_runs() -> None:
    files = [path for part in FOLDERS for path in (ROOT / part).rglob("*.py")]
    written = sum(len(re.findall(r"^ +>>> ", path.read_text("utf-8"), re.M)) for path in files)
    assert written == sum(text.count(">>> ") for text in EXAMPLES.values())


@pytest.mark.parametrize("name", sorted({*modelyard.__all__} & {*api.__all__}))
def test_a_function_s_docstring_says_what_a_caller_needs(name: str) -> None:
    found = getattr(modelyard, name)
    if isinstance(found, type):
        return
    text = found.__doc__
    if name != "warm_workers":
        assert "Args:\n" in text and "Raises:\n" in text
    assert "Returns:\n" in text or "Yields:\n" in text
    assert ">>> " in text.partition("Example:\n")[2]
