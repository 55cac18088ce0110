"""Formats that are known and not read: how each is told, and what to do about it.

One table (:data:`FOREIGN`), and what targets say of their own files. Contents count
where a format has a mark of its own; nothing of a file is loaded or run.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from converter import plugins
from converter.errors import ModelError, ModelyardError, UsageError

_HEAD = 4096


@dataclass(frozen=True)
class Foreign:
    """A format that isn't read.

    Attributes:
        title: What such a file is, with an article.
        advice: What to do; ``{stem}``, ``{name}`` and ``{folder}`` are the source's, quoted.
        is_one: Whether a file (or folder) is one, from its path and its first bytes.
        error: What it is refused as.
    """

    title: str
    advice: str
    is_one: Callable[[Path, bytes], bool]
    error: type[ModelyardError] = ModelError


_APART = "In an environment of its own: "
_THEN = "; then convert model.onnx."


def _suffix(*suffixes: str) -> Callable[[Path, bytes], bool]:
    return lambda path, head: path.is_file() and path.name.lower().endswith(suffixes)


def _starts(*marks: bytes) -> Callable[[Path, bytes], bool]:
    return lambda path, head: head.startswith(marks)


def _both(suffix: str, *parts: bytes) -> Callable[[Path, bytes], bool]:
    return lambda path, head: path.suffix.lower() == suffix and all(p in head for p in parts)


def _holds(*names: str) -> Callable[[Path, bytes], bool]:
    return lambda path, head: any((path / name).exists() for name in names)


def _any(*rules: Callable[[Path, bytes], bool]) -> Callable[[Path, bytes], bool]:
    return lambda path, head: any(rule(path, head) for rule in rules)


FOREIGN = (
    Foreign(
        "a Paddle model",
        f"{_APART}pip install paddlepaddle paddle2onnx && paddle2onnx --model_dir {{folder}} "
        "--model_filename {stem}.pdmodel --params_filename {stem}.pdiparams --save_file model.onnx"
        f"{_THEN} (Newer ones have {{stem}}.json in the place of {{stem}}.pdmodel.)",
        _any(
            _suffix(".pdmodel", ".pdiparams", ".pdparams"),
            _both(".json", b'"magic"', b'"pir"'),
        ),
    ),
    Foreign(
        "a folder of a Paddle model",
        f"{_APART}pip install paddlepaddle paddle2onnx && paddle2onnx --model_dir {{name}} "
        "--model_filename inference.pdmodel --params_filename inference.pdiparams --save_file "
        f"model.onnx{_THEN}",
        _holds("inference.pdmodel", "inference.pdiparams"),
    ),
    Foreign(
        "a Caffe model",
        f"{_APART}pip install caffe2onnx && python -m caffe2onnx.convert --prototxt "
        f"{{stem}}.prototxt --caffemodel {{stem}}.caffemodel --onnx model.onnx{_THEN}",
        _suffix(".caffemodel", ".prototxt"),
    ),
    Foreign(
        "an MXNet model",
        f"{_APART}pip install mxnet, and in Python: mxnet.onnx.export_model("
        "'NAME-symbol.json', 'NAME-0000.params', [(1, 3, 224, 224)], numpy.float32, "
        f"'model.onnx'){_THEN}",
        _any(_both(".params", b"\x12\x01\0\0\0\0\0\0"), _both(".json", b'"nodes"', b'"op"')),
    ),
    Foreign(
        "an OpenVINO model",
        "OpenVINO writes no other format: convert the model that it was made from.",
        _any(
            _both(".xml", b"<net "),
            lambda path, head: path.suffix == ".bin" and _is_openvino(path.with_suffix(".xml")),
        ),
    ),
    Foreign(
        "a GGUF model",
        "It holds a language model's weights, and no graph: convert the Hugging Face folder "
        "(config.json and safetensors) that it was made from.",
        _starts(b"GGUF"),
    ),
    Foreign(
        "weights of JAX (Flax msgpack)",
        "They are weights alone. In JAX: jax.experimental.jax2tf.convert(apply), "
        "tf.saved_model.save(..., FOLDER); then convert that FOLDER.",
        _suffix(".msgpack"),
    ),
    Foreign(
        "a checkpoint of JAX (Orbax)",
        "It holds weights alone. In JAX: jax.experimental.jax2tf.convert(apply), "
        "tf.saved_model.save(..., FOLDER); then convert that FOLDER.",
        _holds("_CHECKPOINT_METADATA", "manifest.ocdbt", "_METADATA"),
    ),
    Foreign(
        "a model compiled for one device",
        "It can't be turned back: convert the model that it was made from.",
        _any(
            _starts(b"RKNN", b"7767517"),  # Rockchip; ncnn's text
            _suffix(".rknn", ".mnn", ".dlc", ".hef", ".om"),
        ),
    ),
)


def refuse_foreign(source: str) -> None:
    """Refuses what is of a format that is known and not read.

    Raises:
        ModelError, UsageError: It is; with what to do.
    """
    path = Path(source)
    if not path.exists():
        return
    head = b""
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(_HEAD)
    targets = (item for _, target in plugins.specs("emitters") for item in target.refused)
    found = next((item for item in (*FOREIGN, *targets) if item.is_one(path, head)), None)
    if found is not None:
        raise found.error(
            f"{path.name} is {found.title}, which isn't read", hint=_filled(found.advice, path)
        )


def _filled(advice: str, path: Path) -> str:
    texts = {"stem": path.stem, "name": path.name, "folder": str(path.parent)}
    for name, text in texts.items():
        advice = advice.replace(f"{{{name}}}", shlex.quote(text))
    return advice


def _is_openvino(xml: Path) -> bool:
    return xml.is_file() and b"<net " in xml.read_bytes()[:_HEAD]


def bare_python(source: str) -> UsageError | None:
    """What to say of a Python file without ``:CLASS``; None for what is no Python file."""
    path = Path(source)
    if path.suffix != ".py" or not path.is_file():
        return None
    names = _models_in(path)
    more = f"It defines {', '.join(names)}: " if names else ""
    return UsageError(
        f"{path.name} is Python code: which class or function of it makes the model?",
        hint=f"{more}modelyard convert {shlex.quote(source)}:{names[0] if names else 'CLASS'} "
        "--weights FILE --input NAME:DIMxDIM",
    )


def _models_in(path: Path) -> list[str]:
    """The classes of a file that look like modules; else all classes, else all functions."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # nested too deeply
        return []
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    modules = [c.name for c in classes if any("Module" in ast.unparse(base) for base in c.bases)]
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return modules or [node.name for node in classes] or functions


_HUB = re.compile(r"(?:hf://|https?://[^/]*/)?((?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*)/?")
_FILE = re.compile(r"\.(?!\d)\w{1,10}$")


def missing(source: str) -> UsageError:
    """What to say of a source that isn't there: it may be a model's name on a hub."""
    name = _HUB.fullmatch(source)
    if name is None or _FILE.search(source) or source.startswith("."):
        return UsageError(
            f"there is no {source}",
            hint="Name a model's file or folder, FILE.py:CLASS, package.module:factory, or "
            "zoo:NAME.",
        )
    folder = name[1].rpartition("/")[2]
    return UsageError(
        f"there is no {source} here, and models are read from local files and folders alone",
        hint=f"If it is a name on Hugging Face's hub: hf download {name[1]} --local-dir {folder} "
        f"(hf comes with: pip install huggingface_hub); then modelyard convert {folder}. "
        "What modelyard fetches itself: modelyard zoo list.",
    )
