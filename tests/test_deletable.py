"""The folder of a source, a target or a server can go, and everything else goes on."""

import ast
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cli import small_cnn
from tests.environments import installed

ROOT = Path(__file__).parents[1]
SHARED = {
    *("emitters/code", "emitters/lowering", "emitters/packaging", "emitters/serving/python"),
    *("parsers/onnx", "parsers/worker"),
}
"""What those of a kind share: the interface that a source's model gets is `parsers/onnx`'s."""

LEANS = {
    "emitters/ort": {"emitters/onnx"},  # its files are ONNX's, written by ONNX Runtime
    # it serves engines, built where it runs, and LiteRT's files, with a backend of ours
    "emitters/serving/triton": {"emitters/tensorrt", "emitters/tflite"},
    "parsers/huggingface": {"parsers/pytorch"},
    "parsers/keras": {"parsers/tensorflow"},
}
"""Folders that go with another: this only ever shrinks."""


def imported(path: Path) -> Iterator[str]:
    """Every module, or name of one, that a file imports, wherever in it."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = parts[: -node.level] if node.level else ()
            module = ".".join((*above, *filter(None, [node.module])))
            yield from (f"{module}.{alias.name}" for alias in node.names)


def folder_of(parts: tuple[str, ...]) -> str:
    """The folder of a source, target or server that a file or module is of; else empty."""
    depth = 3 if parts[:2] == ("emitters", "serving") else 2
    folder = Path(*parts[:depth])
    there = parts[0] in ("emitters", "parsers") and (ROOT / folder / "__init__.py").is_file()
    return folder.as_posix() if there and len(parts) > depth else ""


def test_none_imports_another() -> None:
    found = defaultdict(set)
    for top in ("converter", "emitters", "modelyard", "parsers", "zoo"):
        for path in (ROOT / top).rglob("*.py"):
            own = folder_of(path.relative_to(ROOT).parts)
            for name in imported(path):
                other = folder_of((*name.split("."), ""))
                if other and other != own and other not in SHARED:
                    found[own].add(other)
    assert found == LEANS


@pytest.mark.slow
@pytest.mark.parametrize("gone", [("emitters.coreml", "parsers.keras")], ids="-".join)
def test_a_tool_without_some_goes_on(gone: tuple[str, ...], tmp_path: Path) -> None:
    """A copy of the checkout without their folders and their lines of pyproject.toml, installed."""
    copy = tmp_path / "checkout"
    left_out = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "tests", "docs")
    shutil.copytree(ROOT, copy, ignore=left_out)
    told = (copy / "pyproject.toml").read_text().splitlines(keepends=True)
    for name in gone:
        shutil.rmtree(copy.joinpath(*name.split(".")))
        told = [line for line in told if not re.search(rf'"{re.escape(name)}\b', line)]
    (copy / "pyproject.toml").write_text("".join(told))
    python = installed(copy, tmp_path / "venv")

    def run(*args: str | Path, code: int = 0) -> str:
        done = subprocess.run([python, *args], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    everything = (
        "import modelyard, importlib, pathlib\n"
        "apart = {'__init__', '__main__', 'architectures', 'child', 'engine_script', 'npz'}\n"
        "ours = ('converter', 'emitters', 'parsers', 'zoo')\n"
        "root = pathlib.Path(modelyard.__file__).parents[1]\n"
        "for top in ours:\n"
        "    for path in sorted((root / top).rglob('*.py')):\n"
        "        parts = path.relative_to(root).with_suffix('').parts\n"
        "        if not apart & {*parts}:\n"
        "            try:\n"
        "                importlib.import_module('.'.join(parts))\n"
        "            except ModuleNotFoundError as error:  # what runs elsewhere\n"
        "                if error.name.partition('.')[0] in ours:\n"
        "                    raise\n"
        "print(root)\n"
    )
    assert str(tmp_path / "venv") in run("-c", everything)
    assert "convert" in run("-m", "modelyard", "--help")
    assert "--coreml" not in run("-m", "modelyard", "convert", "--help-all")
    small_cnn(tmp_path / "model.onnx")
    few = ("--no-bench", "--out", "out", "--serve", "triton")
    run("-m", "modelyard", "convert", "model.onnx", "--to", "tflite,onnx", *few)
    run("-m", "modelyard", "doctor")
    refused = run("-m", "modelyard", "convert", "model.onnx", "--to", "coreml", code=2)
    assert "there is no target 'coreml'" in refused
