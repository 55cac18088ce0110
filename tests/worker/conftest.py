"""One worker for the whole session, and helpers to write models and compare outputs."""

import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from .client import Client, Failure, fails

Write = Callable[..., Path]
HEAD = "import torch\nfrom torch import nn\n"


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A warm worker in an empty folder; each load replaces the model before."""
    with Client(cwd=tmp_path_factory.mktemp("cwd")) as client:
        client.call("warm")
        yield client


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a source file below tmp_path, with torch and nn imported; returns its path."""

    def _write(text: str, name: str = "net.py", head: str = HEAD) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(head + textwrap.dedent(text))
        return path

    return _write


def network(body: str, *init: str, takes: str = "x") -> str:
    """The text of a ``Net`` with these lines in its constructor, whose ``forward`` is this."""
    made = "".join(f"        {line}\n" for line in ("super().__init__()", *init))
    lines = "".join(f"        {line}\n" for line in textwrap.dedent(body).strip().split("\n"))
    head = f"\nclass Net(nn.Module):\n    def __init__(self):\n{made}"
    return f"{head}    def forward(self, {takes}):\n{lines}"


def spec(name: str, *shape: int | str, dtype: str = "float32") -> dict[str, Any]:
    """An input of an export request."""
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def make_feeds(inputs: list[dict[str, Any]], **sizes: int) -> dict[str, np.ndarray]:
    """Random feeds for input specs with the given sizes of symbols."""
    rng = np.random.default_rng(0)
    feeds = {}
    for item in inputs:
        shape = [sizes.get(d, d) for d in item["shape"]]
        dtype = np.dtype(item["dtype"])
        values = rng.normal(size=shape) if dtype.kind == "f" else rng.integers(0, 2, shape)
        feeds[item["name"]] = np.asarray(values).astype(dtype)
    return feeds


def eager(worker: Client, folder: Path, feeds: Mapping[str, np.ndarray],
          **params: Any) -> dict[str, np.ndarray]:  # fmt: skip
    """Outputs of the loaded model by name, in order."""
    source, out = folder / "in.npz", folder / "out.npz"
    np.savez(source, **feeds)
    worker.call("run", feeds=str(source), out=str(out), **params)
    with np.load(out, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def in_onnxruntime(path: Path, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of an ONNX file by name, in order."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def export(worker: Client, path: Path, inputs: list[dict[str, Any]], *, name: str = "Net",
           **params: Any) -> dict[str, Any]:  # fmt: skip
    """Load `name` from a file and export it beside; returns the export's result."""
    load = {k: params.pop(k) for k in ("args", "kwargs", "weights") if k in params}
    worker.call("load", source=f"{path}:{name}", **load)
    out = str(path.parent / "net.onnx")
    result: dict[str, Any] = worker.call("export", inputs=inputs, out=out, **params)
    return result


def refused(worker: Client, path: Path, inputs: list[dict[str, Any]], *says: str, kind: str,
            **params: Any) -> Failure:  # fmt: skip
    """As ``export``, and gives the error that it has to end with, with these in its message."""
    with fails(kind, *says) as caught:
        export(worker, path, inputs, **params)
    return caught.value


def check_equal(worker: Client, result: dict[str, Any], **sizes: int) -> dict[str, np.ndarray]:
    """Assert that the exported file computes what the eager model does; returns its outputs."""
    path = Path(result["out"])
    feeds = make_feeds(result["inputs"], **sizes)
    want, got = eager(worker, path.parent, feeds), in_onnxruntime(path, feeds)
    assert list(got) == list(want)
    for output, array in want.items():
        np.testing.assert_allclose(got[output], array, 1e-4, 1e-5, err_msg=output, strict=True)
    return got
