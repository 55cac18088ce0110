"""Runs the command line as a user does: a process of its own, its exit code and what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

COMMAND = Path(sys.executable).parent / "modelyard"


@dataclass(frozen=True)
class Said:
    """What a command gave back."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output, read as JSON."""
        return json.loads(self.out)

    def no_traceback(self) -> Said:
        """Itself, after making sure that no traceback was shown."""
        assert "Traceback" not in self.err + self.out, self.err
        return self


def modelyard(
    *args: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
    timeout: float = 300,
) -> Said:
    """Runs ``modelyard ARGS`` to its end."""
    done = subprocess.run(
        [str(COMMAND), *map(str, args)],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        preexec_fn=before,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file under ``folder``, hidden ones included, by relative name."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def small_cnn(path: Path, *, channels: int = 8) -> Path:
    """A small image classifier with a free batch, seeded weights, and a residual."""
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        values = rng.standard_normal(shape).astype(np.float32) / np.sqrt(np.prod(shape[1:]))
        return onnx.numpy_helper.from_array(values.astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["image", "w0"], ["a"], pads=[1, 1, 1, 1], name="conv0"),
        helper.make_node("Relu", ["a"], ["b"], name="relu0"),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1, 1, 1, 1], name="conv1"),
        helper.make_node("Identity", ["b"], ["skip"], name="identity"),
        helper.make_node("Add", ["c", "skip"], ["d"], name="add"),
        helper.make_node("GlobalAveragePool", ["d"], ["e"], name="pool"),
        helper.make_node("Flatten", ["e"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "w2"], ["scores"], transB=1, name="fc"),
    ]
    graph = helper.make_graph(
        nodes,
        "cnn",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 16, 16])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])],
        [
            weight("w0", channels, 3, 3, 3),
            weight("w1", channels, channels, 3, 3),
            weight("w2", 10, channels),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path
