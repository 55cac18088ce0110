"""Frameworks' processes as sources start them, for tests that ask them themselves."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from converter.files.arrays import load_arrays, save_arrays
from converter.runtime.frameworks import Framework
from converter.runtime.interpreter import interpreter
from converter.runtime.worker import Worker


@contextmanager
def framework(which: Framework, **more: Any) -> Iterator[Worker]:
    """The process of a framework: each load replaces the model before."""
    how = {"what": f"the {which.title} process", "source": "the model"} | more
    made = Worker(which, interpreter=interpreter(None), progress=lambda text: None, **how)
    yield made
    made.close()


def outputs(worker: Worker, folder: Path, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """What the loaded model gives."""
    texts = {name: array.astype(str) for name, array in feeds.items() if array.dtype == object}
    save_arrays(folder / "in.npz", {**feeds, **texts})
    worker.call("run", feeds=str(folder / "in.npz"), out=str(folder / "out.npz"))
    return load_arrays(folder / "out.npz")
