"""Small models in ONNX's text form, and the code that they become, loaded as its user loads it."""

import importlib.util
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from tests.acceptance.cli import command

Array = np.ndarray[Any, Any]
_counter = itertools.count()


def model(text: str, weights: Mapping[str, tuple[int, ...]], names: tuple[str, ...] = ()) -> Any:
    """A model of a graph in text form, its weights seeded; ``names`` are the nodes'."""
    proto = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]>\n{text}')
    rng = np.random.default_rng(0)
    for name, shape in weights.items():
        array = rng.standard_normal(shape) * 0.1
        if name == "ratio" or "variance" in name:
            array = np.abs(array) + 0.1
        proto.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    for node, name in zip(proto.graph.node, names, strict=False):
        node.name = name
    return proto


def converted(proto: Any, folder: Path, *options: str, check: bool = False) -> Path:
    """The folder of the code that a model becomes; without ``check`` whoever asks compares it, and
    no process of torch's is started."""
    source = folder / "source.onnx"
    onnx.save(proto, source)
    out = folder / "out"
    line = ["convert", source, "--to", "pytorch", "--no-bench", "--out", out, *options]
    done = command(*line, *([] if check else ["--no-check"]))
    assert done.code == 0, done.out + done.err
    return out / "pytorch" / "fp32"


def module_of(folder: Path) -> Any:
    """``model.py``, imported."""
    name = f"emitted_{next(_counter)}"
    spec = importlib.util.spec_from_file_location(name, folder / "model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def loaded(folder: Path) -> Any:
    """The model with its weights."""
    return module_of(folder).load(str(folder / "model.safetensors"))


def reference(proto: Any, feeds: Mapping[str, Array]) -> list[Array]:
    """What ONNX Runtime gives."""
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(feeds)))
