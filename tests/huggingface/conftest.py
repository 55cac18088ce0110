"""The transformers process that many tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.arrays import load_arrays, save_arrays
from converter.interpreter import interpreter
from converter.worker import Worker
from parsers.huggingface_source import offline


@pytest.fixture(scope="package")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """The transformers process, as a source starts it."""
    made = Worker(
        "huggingface",
        what="the transformers process",
        extra="huggingface",
        source="a folder",
        interpreter=interpreter(None),
        progress=lambda text: None,
        env=offline(tmp_path_factory.mktemp("work")),
    )
    yield made
    made.close()


def outputs(worker: Worker, workdir: Path, **feeds: np.ndarray[Any, Any]) -> dict[str, Any]:
    """What the loaded model gives."""
    save_arrays(workdir / "in.npz", feeds)
    worker.call("run", feeds=str(workdir / "in.npz"), out=str(workdir / "out.npz"))
    return load_arrays(workdir / "out.npz")
